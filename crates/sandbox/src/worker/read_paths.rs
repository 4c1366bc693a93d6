//! Paths that a worker may read in addition to the image, and the check that they
//! expose nothing hidden.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use nix::unistd::Uid;
use thiserror::Error;

use super::{
    groups::{NoGroup, PodGroups},
    modes::{self, ClosedFile, Reader},
};
use crate::{
    kernel::policy::{KERNEL, home_above},
    wire::message::Grants,
};

/// Most files beside definitions. A `ConfigMap` of 1 MiB rarely has more than ten.
const MAX_SCRIPTS: usize = 256;

/// Extensions of plugin definitions, which can hold values for one plugin only. No
/// plugin may read a file with one of them in a directory of definitions.
pub const DEFINITIONS: [&str; 3] = ["yaml", "yml", "json"];

/// A path that a worker may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadPath {
    /// The path as requested; only its directory has links resolved.
    pub(super) asked: PathBuf,
    /// The path with all links resolved.
    pub(super) real: PathBuf,
}

/// Paths that a worker may read in addition to the image.
#[derive(Debug, Default)]
pub(super) struct Granted {
    pub(super) paths: Vec<ReadPath>,
    /// Groups that it needs to read them.
    pub(super) groups: BTreeSet<u32>,
}

/// Reasons why a path must not be read.
#[derive(Debug, Error)]
pub(super) enum NotReadable {
    #[error(
        "cannot make `{path}` readable (spec.sandbox.read or --read): {error}: mount it, or remove \
         it there"
    )]
    Missing { path: PathBuf, error: io::Error },
    #[error(
        "cannot make `{path}` readable (spec.sandbox.read or --read): it would expose {hidden}, \
         which no plugin may read"
    )]
    Closed { path: PathBuf, hidden: PathBuf },
    #[error(
        "cannot make `{path}` readable (spec.sandbox.read): `{}` has mode {:04o}, UID {} and GID {}, \
         and requests run under UIDs of their own: {reason}; a Secret is then still hidden from \
         plugins that do not name it",
        file.path.display(), file.mode, file.uid, file.gid
    )]
    Mode { path: PathBuf, file: ClosedFile, reason: NoGroup },
}

impl NotReadable {
    fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}

/// The paths that tenants may not read, and the exceptions.
#[derive(Debug, Default)]
pub(crate) struct PathRules {
    /// Paths that no worker may read.
    pub(crate) hidden: Vec<PathBuf>,
    /// Directories of secrets. What is in them must be named.
    pub(crate) secret: Vec<PathBuf>,
    /// Files in the paths above that every worker may read.
    pub(crate) shown: Vec<PathBuf>,
    /// Directories of definitions, in which every worker may read other files.
    pub(crate) scripts: Vec<PathBuf>,
}

impl PathRules {
    /// All paths that are not readable unless something allows it.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        self.hidden.iter().chain(&self.secret).cloned().collect()
    }

    /// The real path of a file or directory that a request may read if it names it.
    pub(crate) fn opened_by(&self, name: &Path) -> Option<PathBuf> {
        self.one(name).ok().map(|path| path.real)
    }

    /// True if naming a path would expose something that no worker may read.
    pub(crate) fn closes(&self, path: &Path) -> bool {
        matches!(self.one(path), Err(NotReadable::Closed { .. }))
    }

    /// Real paths that every worker may read besides the image.
    pub(crate) fn common(&self) -> Vec<PathBuf> {
        let found = self.find(&[]).unwrap_or_default();
        found.into_iter().map(|path| path.real).collect()
    }

    /// Resolves the additional paths of a job. The modes of the named ones must allow
    /// `user` to read them, alone or as a member of groups; `None` if the modes do not
    /// matter.
    pub(super) fn granted(
        &self,
        grants: &Grants,
        user: Option<Uid>,
        pod: &PodGroups,
    ) -> Result<Granted, NotReadable> {
        let mut granted = Granted::default();
        for path in &grants.named {
            let found = self.one(Path::new(path))?;
            let reader = granted.join(&found, user, pod);
            if let Some((file, reason)) = reader.and_then(|reader| closed(&found, &reader, pod)) {
                return Err(NotReadable::Mode { path: path.into(), file, reason });
            }
            granted.paths.push(found);
        }
        for found in self.present(&grants.secrets)? {
            granted.join(&found, user, pod);
            granted.paths.push(found);
        }
        granted.paths.extend(self.find(&grants.read)?);
        Ok(granted)
    }

    /// Resolves the `named` paths and adds those that every worker may read. A
    /// named path is refused if it is hidden, or above or below a hidden path,
    /// or if it is a directory of secrets or above one.
    ///
    /// Links are resolved for each worker: those of a mounted volume change.
    fn find(&self, named: &[String]) -> Result<Vec<ReadPath>, NotReadable> {
        let named = named.iter().map(|path| self.one(Path::new(path)));
        let shown = self.shown.iter().filter_map(|path| file(path));
        let scripts = self.scripts.iter().flat_map(|directory| scripts(directory));
        named.chain(shown.chain(scripts).map(Ok)).collect()
    }

    /// Resolves paths, without those that are missing.
    fn present(&self, paths: &[String]) -> Result<Vec<ReadPath>, NotReadable> {
        let found = paths.iter().map(|path| self.one(Path::new(path)));
        found.filter(|found| !found.as_ref().is_err_and(NotReadable::is_missing)).collect()
    }

    /// Resolves the links of a path, and refuses it if it would expose a hidden one.
    fn one(&self, path: &Path) -> Result<ReadPath, NotReadable> {
        let missing = |error| NotReadable::Missing { path: path.to_owned(), error };
        let real = fs::canonicalize(path).map_err(missing)?;
        let closed = self.hidden.iter().map(PathBuf::as_path).chain(KERNEL.map(Path::new));
        let meets = |hidden: &Path| {
            [path, &real].iter().any(|path| path.starts_with(hidden) || hidden.starts_with(path))
        };
        let is_above = |secret: &Path| [path, &real].iter().any(|path| secret.starts_with(path));
        let mut secret = self.secret.iter().map(PathBuf::as_path);
        let exposed = closed
            .into_iter()
            .find(|hidden| meets(hidden))
            .or_else(|| secret.find(|secret| is_above(secret)));
        if let Some(exposed) = exposed {
            let (path, hidden) = (path.to_owned(), exposed.to_owned());
            return Err(NotReadable::Closed { path, hidden });
        }
        ReadPath::new(path, real).map_err(missing)
    }
}

impl Granted {
    /// Adds the groups that open a path and that a request may get. Returns the request's
    /// identity then; `None` if modes do not matter.
    fn join(&mut self, found: &ReadPath, user: Option<Uid>, pod: &PodGroups) -> Option<Reader> {
        let user = user?.as_raw();
        // Files are looked at only if there is a group to give.
        let needed = (!pod.members.is_empty()).then(|| modes::groups(&found.real, user));
        let needed = needed.into_iter().flatten();
        self.groups.extend(needed.filter(|group| pod.check(*group).is_ok()));
        Some(Reader { user, groups: self.groups.clone() })
    }
}

impl ReadPath {
    fn new(path: &Path, real: PathBuf) -> io::Result<Self> {
        let asked = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => fs::canonicalize(parent)?.join(name),
            _ => real.clone(),
        };
        Ok(Self { asked, real })
    }
}

/// The file whose mode closes a path to `reader`, and the reason why no group opens it.
fn closed(found: &ReadPath, reader: &Reader, pod: &PodGroups) -> Option<(ClosedFile, NoGroup)> {
    let file = modes::closed(&found.real, reader)?;
    if is_in_closed_home(&found.real, &file.path) {
        return Some((file, NoGroup::Home));
    }
    let refused = pod.check(file.gid).err().filter(|_| file.is_open_to_group());
    Some((file, refused.unwrap_or(NoGroup::Mode)))
}

/// True if a path is in a home directory of the image that others cannot enter: no setting
/// of a volume changes that.
fn is_in_closed_home(path: &Path, closed: &Path) -> bool {
    home_above(path).is_some() && path != closed && path.starts_with(closed)
}

/// A regular file that may be missing.
fn file(path: &Path) -> Option<ReadPath> {
    let real = fs::canonicalize(path).ok()?;
    fs::metadata(&real).ok()?.is_file().then(|| ReadPath::new(path, real).ok())?
}

/// The files in a directory of definitions that are no definitions. A link that
/// leaves the directory, or leads to a definition, is none of them.
fn scripts(directory: &Path) -> Vec<ReadPath> {
    let Ok(top) = fs::canonicalize(directory) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let names = entries.flatten().filter(|entry| !modes::is_reserved(&entry.file_name()));
    let paths = names.map(|entry| entry.path()).filter(|path| !is_definition(path));
    let found = paths.filter_map(|path| file(&path));
    let is_script = |path: &ReadPath| path.real.starts_with(&top) && !is_definition(&path.real);
    found.filter(is_script).take(MAX_SCRIPTS).collect()
}

fn is_definition(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    extension.is_some_and(|extension| DEFINITIONS.contains(&extension))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn find_one(path: &Path, hidden: &Path) -> Result<ReadPath, NotReadable> {
        let hidden = vec![hidden.to_owned()];
        PathRules { hidden, ..PathRules::default() }.one(path)
    }

    #[test]
    fn hidden_paths_and_their_parents_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("secret/inner")).unwrap();
        fs::create_dir(top.join("open")).unwrap();
        let secret = top.join("secret");
        for path in [top.clone(), secret.clone(), secret.join("inner"), "/".into()] {
            let refused = find_one(&path, &secret);
            assert!(matches!(refused, Err(NotReadable::Closed { .. })), "{path:?} {refused:?}");
        }
        assert_eq!(find_one(&top.join("open"), &secret).unwrap().real, top.join("open"));
    }

    #[test]
    fn links_are_resolved_before_the_check() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        for name in ["secret", "open"] {
            fs::create_dir(top.join(name)).unwrap();
            symlink(name, top.join(format!("to-{name}"))).unwrap();
        }
        let secret = top.join("secret");
        let refused = find_one(&top.join("to-secret"), &secret).unwrap_err().to_string();
        assert!(refused.contains("would expose") && refused.contains("to-secret"), "{refused}");
        let found = find_one(&top.join("to-open"), &secret).unwrap();
        assert_eq!(found, ReadPath { asked: top.join("to-open"), real: top.join("open") });
    }

    #[test]
    fn a_home_that_others_cannot_enter_is_told_from_a_volume() {
        for (path, closed, is_home) in [
            ("/root/.pyenv/bin", "/root", true),
            ("/home/argocd/.nvm", "/home/argocd", true),
            ("/home/argocd/keys", "/home/argocd/keys", false),
            ("/home/argocd/keys", "/home/argocd/keys/id", false),
            ("/keys/id", "/keys", false),
        ] {
            assert_eq!(is_in_closed_home(path.as_ref(), closed.as_ref()), is_home, "{path}");
        }
    }

    #[test]
    fn kernel_file_systems_are_refused() {
        for path in ["/proc", "/proc/self", "/sys/kernel", "/dev"] {
            let refused = find_one(Path::new(path), Path::new("/nowhere"));
            assert!(matches!(refused, Err(NotReadable::Closed { .. })), "{path}");
        }
    }

    #[test]
    fn a_missing_path_is_named_in_the_error() {
        let refused = find_one(Path::new("/no/such"), Path::new("/hidden")).unwrap_err();
        assert!(refused.to_string().starts_with("cannot make `/no/such` readable"), "{refused}");
    }

    #[test]
    fn a_secret_must_be_named_itself() {
        let directory = tempfile::tempdir().unwrap();
        let secrets = directory.path().canonicalize().unwrap().join("secrets");
        fs::create_dir(&secrets).unwrap();
        for name in ["token", "namespace"] {
            fs::write(secrets.join(name), name).unwrap();
        }
        let rules = PathRules {
            secret: vec![secrets.clone()],
            shown: vec![secrets.join("namespace"), secrets.join("missing")],
            ..PathRules::default()
        };
        let real = |named: &[&Path]| {
            let named: Vec<_> = named.iter().map(|path| path.display().to_string()).collect();
            rules.find(&named).map(|paths| paths.into_iter().map(|path| path.real).collect())
        };
        assert_eq!(real(&[]).unwrap(), [secrets.join("namespace")]);
        let named: Vec<PathBuf> = real(&[&secrets.join("token")]).unwrap();
        assert_eq!(named, [secrets.join("token"), secrets.join("namespace")]);
        for above in [secrets.as_path(), directory.path()] {
            let refused = real(&[above]).unwrap_err();
            assert!(matches!(refused, NotReadable::Closed { .. }), "{refused}");
        }
    }

    #[test]
    fn a_secret_that_nobody_named_may_be_missing() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir(top.join("mounted")).unwrap();
        let paths = ["mounted", "gone"].map(|name| top.join(name).display().to_string());
        let rules = PathRules::default();
        let granted = |grants| rules.granted(&grants, None, &PodGroups::default());
        let found = granted(Grants { secrets: paths.to_vec(), ..Grants::default() }).unwrap();
        let found: Vec<_> = found.paths.into_iter().map(|path| path.real).collect();
        assert_eq!(found, [top.join("mounted")]);
        let refused = granted(Grants { read: paths.to_vec(), ..Grants::default() });
        assert!(refused.unwrap_err().is_missing());
    }

    #[test]
    fn files_beside_definitions_are_found_through_the_links_of_a_volume() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir(top.join("..1")).unwrap();
        symlink("..1", top.join("..data")).unwrap();
        symlink("a.yaml", top.join("to-definition")).unwrap();
        symlink("/etc/passwd", top.join("to-elsewhere")).unwrap();
        for name in ["a.yaml", "b.json", "generate.sh", "lib"] {
            fs::write(top.join("..1").join(name), "").unwrap();
            symlink(format!("..data/{name}"), top.join(name)).unwrap();
        }
        let rules = PathRules {
            hidden: vec![top.clone()],
            scripts: vec![top.clone()],
            ..PathRules::default()
        };
        let mut found = rules.find(&[]).unwrap();
        found.sort_by(|one, other| one.asked.cmp(&other.asked));
        let expected = ["generate.sh", "lib"]
            .map(|name| ReadPath { asked: top.join(name), real: top.join("..1").join(name) });
        assert_eq!(found, expected);
    }
}
