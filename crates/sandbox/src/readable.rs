//! The paths that requests may read, so that others can be named before a command
//! misses them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use cmp_procfs::Mount;

use crate::{
    client::Setup,
    kernel::policy::{KERNEL, mount_points},
    spawner::{CACHES, FRAME, WORKSPACES, home_contents, path_rules, policy},
    wire::message::SetupOrder,
    worker::{PathRules, is_definition},
};

/// File system of Secrets and tokens.
const MEMORY: &str = "tmpfs";

/// The paths that requests may read, by the rules of the spawner. Permissions of
/// files are not part of it.
#[derive(Debug)]
pub struct Readable {
    /// Paths that every request may read.
    open: Vec<PathBuf>,
    rules: PathRules,
    /// Mount points of data that no request may read without naming them. None is
    /// below another one.
    closed: Vec<PathBuf>,
    /// The closed mounts that Secrets have: in memory and read-only.
    secrets: Vec<PathBuf>,
}

/// The way to open a closed path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// A plugin can name it.
    Key,
    /// A plugin can name it, but gives a token away.
    Token,
    /// Nothing opens it.
    Always,
}

impl Readable {
    /// Tells what opens a path that is closed. This accesses the path; one that this
    /// process cannot see counts as one that can be named.
    #[must_use]
    pub fn closing(&self, path: &Path) -> Closing {
        fs::canonicalize(path).map_or(Closing::Key, |real| self.closing_of(path, &real))
    }

    /// Tells the same of a path that leads to `real`. This accesses neither.
    #[must_use]
    pub fn closing_of(&self, path: &Path, real: &Path) -> Closing {
        let is_in =
            |directory: &PathBuf| [path, real].iter().any(|path| path.starts_with(directory));
        if self.rules.secret.iter().any(is_in) {
            return Closing::Token;
        }
        if self.rules.exposed_by(path, real).is_some() { Closing::Always } else { Closing::Key }
    }

    /// Returns true if a path exists, or may exist where this process cannot look. This
    /// accesses the path.
    #[must_use]
    pub fn may_exist(&self, path: &Path) -> bool {
        !path.symlink_metadata().is_err_and(|error| error.kind() != io::ErrorKind::PermissionDenied)
    }

    /// Applies the rules to the mounts of this process.
    pub fn find(setup: &Setup) -> io::Result<Self> {
        let order = SetupOrder::try_from(setup).map_err(io::Error::other)?;
        let rules =
            path_rules(&order, [WORKSPACES, CACHES, FRAME].map(|name| setup.work_dir.join(name)));
        let policy = policy(&order, &rules, &home_contents(&order)).map_err(io::Error::other)?;
        let image = policy.image().flat_map(|path| {
            // The rule for a link is for the directory to which it leads.
            [Some(path.to_owned()), fs::canonicalize(path).ok()].into_iter().flatten()
        });
        let open = image.chain(rules.common()).collect();
        let is_data = |point: &PathBuf| {
            let is_inside = |path: &Path| point.starts_with(path);
            let is_around = |path: &PathBuf| is_inside(path) || path.starts_with(point);
            !KERNEL.iter().any(|kernel| is_inside(Path::new(kernel)))
                && !rules.hidden.iter().any(is_around)
        };
        let mounts = cmp_procfs::mounts()?;
        let data: Vec<_> = mount_points()?.into_iter().filter(is_data).collect();
        let mut all = Self { open, rules, closed: Vec::new(), secrets: Vec::new() };
        let closed: Vec<_> = data.into_iter().filter(|point| !all.allows(point, &[])).collect();
        let is_below =
            |point: &PathBuf, other: &PathBuf| point.starts_with(other) && point != other;
        let is_outer = |point: &&PathBuf| !closed.iter().any(|other| is_below(point, other));
        all.closed = closed.iter().filter(is_outer).cloned().collect();
        let secrets = all.closed.iter().filter(|point| is_secret(point, &mounts, &all.rules));
        all.secrets = secrets.cloned().collect();
        Ok(all)
    }

    /// Rules for tests, which do not depend on this machine: these paths, these closed mounts,
    /// `/work` as the directory of the sandbox, `/tokens` as that of tokens, and `/plugins` as
    /// that of definitions.
    #[must_use]
    pub fn fixed(open: &[&str], closed: &[&str]) -> Self {
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect();
        let rules = PathRules {
            hidden: vec!["/work".into()],
            secret: vec!["/tokens".into()],
            scripts: vec!["/plugins".into()],
            ..PathRules::default()
        };
        Self { open: paths(open), rules, closed: paths(closed), secrets: paths(closed) }
    }

    /// Returns true for a path that every request may read. This does not access the
    /// path.
    #[must_use]
    pub fn is_open(&self, path: &Path) -> bool {
        self.open.iter().any(|open| path.starts_with(open))
    }

    /// Returns true for a path of the sandbox itself, such as a workspace, a socket or
    /// a definition, and for paths of kernel file systems except temporary files.
    #[must_use]
    pub fn is_own(&self, path: &Path) -> bool {
        let is_in = |other: &Path| path.starts_with(other);
        let is_kernel = KERNEL.iter().any(|kernel| is_in(Path::new(kernel)));
        self.rules.hidden.iter().any(|hidden| is_in(hidden))
            || is_kernel && !is_in(Path::new("/dev/shm"))
    }

    /// Returns true for a path of a file beside definitions, which every request may read. This
    /// does not access the path.
    #[must_use]
    pub fn is_beside_definitions(&self, path: &Path) -> bool {
        let is_top = |top: &PathBuf| path.parent().is_some_and(|parent| parent == top);
        self.rules.scripts.iter().any(is_top) && !is_definition(path)
    }

    /// The closed mount that holds a path. This does not access the path.
    #[must_use]
    pub fn closed_mount(&self, path: &Path) -> Option<&Path> {
        // Nearly every image has the first as a link to the second.
        let run = path.strip_prefix("/var/run").ok().map(|rest| Path::new("/run").join(rest));
        let is_below = |point: &&Path| {
            path.starts_with(point) || run.as_ref().is_some_and(|run| run.starts_with(point))
        };
        self.closed.iter().map(PathBuf::as_path).find(is_below)
    }

    /// Returns true if a request that names these paths may read something at or
    /// below a path.
    #[must_use]
    pub fn allows(&self, path: &Path, named: &[PathBuf]) -> bool {
        let real = fs::canonicalize(path).unwrap_or_else(|_closed| path.to_owned());
        let is_at = |open: &Path| real.starts_with(open) || open.starts_with(&real);
        let is_named =
            |named: &PathBuf| self.rules.opened_by(named).is_some_and(|path| is_at(&path));
        self.open.iter().any(|open| is_at(open)) || named.iter().any(is_named)
    }

    /// The closed mounts that are Secrets. Tokens of the service account, and paths
    /// of the sandbox itself, are none.
    pub fn secrets(&self) -> impl Iterator<Item = &Path> {
        self.secrets.iter().map(PathBuf::as_path)
    }

    /// Mount points that no request may read without naming them. None is below
    /// another one.
    pub fn closed_mounts(&self) -> impl Iterator<Item = &Path> {
        self.closed.iter().map(PathBuf::as_path)
    }
}

/// Returns true for a mount that is in memory and read-only, as Secrets are, and
/// that a plugin could name. The last mount at a path covers the others.
fn is_secret(point: &Path, mounts: &[Mount], rules: &PathRules) -> bool {
    let top = mounts.iter().rfind(|mount| mount.point == point);
    let is_token = rules.secret.iter().any(|tokens| point.starts_with(tokens));
    top.is_some_and(|mount| mount.kind == MEMORY && mount.is_read_only)
        && !is_token
        && rules.opened_by(point).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_in_memory_and_read_only_is_a_secret() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let at = |name: &str| {
            fs::create_dir_all(top.join(name)).unwrap();
            top.join(name)
        };
        let rules = PathRules {
            hidden: vec![at("work")],
            secret: vec![at("run/secrets")],
            ..PathRules::default()
        };
        let mount = |name: &str, kind: &str, is_read_only| {
            let kind = kind.to_owned();
            Mount { point: at(name), kind, is_read_only, ..Mount::default() }
        };
        let mounts = [
            mount("secret", "tmpfs", true),
            mount("scratch", "tmpfs", false),
            mount("config", "ext4", true),
            mount("run/secrets/token", "tmpfs", true),
            mount("work/inner", "tmpfs", true),
            mount("covered", "tmpfs", true),
            mount("covered", "tmpfs", false),
        ];
        let points = mounts.iter().map(|mount| mount.point.as_path());
        let secrets: Vec<_> = points.filter(|point| is_secret(point, &mounts, &rules)).collect();
        assert_eq!(secrets, [top.join("secret")]);
    }

    #[test]
    fn a_script_is_beside_definitions_and_none_of_them() {
        let readable = Readable::fixed(&[], &[]);
        for (path, is_script) in [
            ("/plugins/generate.sh", true),
            ("/plugins/a.yaml", false),
            ("/plugins/sub/generate.sh", false),
            ("/plugins", false),
        ] {
            assert_eq!(readable.is_beside_definitions(Path::new(path)), is_script, "{path}");
        }
    }

    #[test]
    fn a_closed_mount_is_found_by_the_usual_link_to_run() {
        let readable = Readable::fixed(&[], &["/run/tools"]);
        let found = |path: &str| readable.closed_mount(Path::new(path));
        for path in ["/run/tools/x", "/var/run/tools/x", "/var/run/tools"] {
            assert_eq!(found(path), Some(Path::new("/run/tools")), "{path}");
        }
        assert_eq!(found("/var/run/toolset"), None);
    }
}
