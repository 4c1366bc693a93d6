//! The paths that every tenant may read: the image, and what is mounted into it
//! and is not secret.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use cmp_procfs::Mount;

use crate::wire::account::{GROUP, PASSWD};

/// Directories that never count as part of the image: kernel file systems,
/// directories that everybody may write to, and home directories. A mount below
/// one of the last six may be readable nevertheless.
const NEVER: [&str; 9] =
    ["/proc", "/sys", "/dev", "/run", "/tmp", "/home", "/root", "/var/run", "/var/tmp"];

/// Directories of kernel file systems, which show all processes and the machine. No mount
/// below them is readable.
pub(crate) const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Directories of the image that are closed, with the files of its users. Single paths in
/// them may be readable.
const HOMES: [&str; 2] = ["/home", "/root"];

/// Types of file systems that are never readable. The first two are in memory:
/// Secrets, tokens and volumes in memory are mounted as `tmpfs`. The others show
/// processes, devices and settings of the node.
const SECRET: [&str; 14] = [
    "tmpfs",
    "ramfs",
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "devtmpfs",
    "devpts",
    "debugfs",
    "tracefs",
    "securityfs",
    "configfs",
    "bpf",
    "pstore",
];

/// Files for host name lookup that a container runtime mounts into `/etc`.
const RESOLVER: [&str; 3] = ["/etc/resolv.conf", "/etc/hosts", "/etc/hostname"];

/// Files of accounts, which may be mounted writable: an init container adds accounts.
const ACCOUNTS: [&str; 2] = [PASSWD, GROUP];

/// Most paths to distinguish. Only a broken machine has more mounts.
const MAX_PATHS: usize = 4096;

/// Mount points of this process, except the root.
pub(crate) fn mount_points() -> io::Result<BTreeSet<PathBuf>> {
    let points = cmp_procfs::mounts()?.into_iter().map(|mount| mount.point);
    Ok(points.filter(|point| point != Path::new("/")).collect())
}

/// The mounts of a container.
#[derive(Debug)]
pub(super) struct Mounts {
    /// Mount points whose contents every tenant may read.
    pub(super) readable: BTreeSet<PathBuf>,
    /// All others, except the root.
    closed: BTreeSet<PathBuf>,
}

impl Mounts {
    /// Decides for each mount. Readable is what is mounted read-only, as
    /// `ConfigMaps` and image volumes are, what is mounted into a directory of
    /// programs, and files of accounts; but never what is secret or at or below an
    /// `excluded` path.
    pub(super) fn of(table: &[Mount], excluded: &BTreeSet<PathBuf>, programs: &[PathBuf]) -> Self {
        let tops: BTreeMap<&Path, &Mount> =
            table.iter().map(|mount| (mount.point.as_path(), mount)).collect();
        let is_readable = |mount: &Mount| {
            let is_at = |path: &Path| mount.point.starts_with(path);
            !excluded.iter().any(|path| is_at(path))
                && !KERNEL.iter().any(|path| is_at(Path::new(path)))
                && !SECRET.contains(&mount.kind.as_str())
                && (mount.is_read_only
                    || programs.iter().any(|path| is_at(path))
                    || ACCOUNTS.iter().any(|path| mount.point == Path::new(path)))
                && is_visible(mount, table, &tops)
        };
        let points = tops.values().filter(|mount| mount.point != Path::new("/"));
        let (readable, closed): (Vec<&Mount>, Vec<&Mount>) =
            points.partition(|mount| is_readable(mount));
        let paths = |mounts: Vec<&Mount>| mounts.iter().map(|mount| mount.point.clone()).collect();
        Self { readable: paths(readable), closed: paths(closed) }
    }

    /// The largest directories that everybody may read: no closed mount is at or
    /// below them, and no excluded path either. `homely` paths are added if they are
    /// in a home directory.
    pub(super) fn image(&self, excluded: &BTreeSet<PathBuf>, homely: &[PathBuf]) -> Vec<PathBuf> {
        let never = NEVER.iter().map(PathBuf::from);
        let foreign: BTreeSet<PathBuf> =
            self.closed.iter().chain(excluded).cloned().chain(never).collect();
        let mut own = Vec::new();
        let mut ahead = vec![PathBuf::from("/")];
        let is_apart = |path: &&PathBuf| NEVER.iter().any(|never| path.starts_with(never));
        ahead.extend(self.readable.iter().filter(is_apart).cloned());
        ahead.extend(homely.iter().filter(|path| self.is_homely(path, excluded)).cloned());
        while let Some(path) = ahead.pop() {
            if foreign.contains(&path) || own.len() + ahead.len() > MAX_PATHS {
                continue;
            }
            if path.parent().is_some() && !foreign.iter().any(|other| other.starts_with(&path)) {
                own.push(path);
            } else if let Ok(entries) = fs::read_dir(&path) {
                ahead.extend(entries.flatten().map(|entry| entry.path()));
            }
        }
        own.extend(RESOLVER.iter().map(PathBuf::from).filter(|path| path.is_file()));
        own.sort_unstable();
        own.dedup();
        own
    }

    /// Returns true for a path without links in a home directory of the image.
    fn is_homely(&self, path: &Path, excluded: &BTreeSet<PathBuf>) -> bool {
        let mut closed = self.closed.iter().chain(excluded);
        home_above(path).is_some() && !closed.any(|closed| path.starts_with(closed))
    }
}

/// The closed directory of homes that holds a path.
#[must_use]
pub fn home_above(path: &Path) -> Option<&'static str> {
    HOMES.into_iter().find(|home| path.starts_with(home) && path != Path::new(home))
}

/// Returns true if no later mount covers a directory above this one. A covered
/// mount is still in the table, but its path leads into the other mount.
fn is_visible(mount: &Mount, table: &[Mount], tops: &BTreeMap<&Path, &Mount>) -> bool {
    let mut lowest = mount;
    while let Some(below) = table.iter().find(|other| other.id == lowest.parent)
        && below.point == mount.point
        && below.id != lowest.id
    {
        lowest = below;
    }
    let above = mount.point.ancestors().skip(1).find_map(|path| tops.get(path));
    above.is_none_or(|above| above.id == lowest.parent && is_visible(above, table, tops))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A container as Kubernetes starts it.
    const TABLE: &str = "\
        1 0 0:1 / / ro - overlay overlay rw\n\
        2 1 0:2 / /proc rw - proc proc rw\n\
        3 1 0:3 / /sys ro - sysfs sysfs ro\n\
        4 1 8:1 /pods/u/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw\n\
        5 1 8:1 /pods/u/volumes/ca/bundle.crt /etc/ssl/certs/company.crt ro - ext4 /dev/sda1 rw\n\
        6 1 0:4 / /secrets ro - tmpfs tmpfs rw\n\
        7 1 8:1 /pods/u/volumes/tools/helm /usr/local/bin/helm rw - ext4 /dev/sda1 rw\n\
        8 1 8:1 /pods/u/volumes/work /work rw - ext4 /dev/sda1 rw\n\
        9 1 8:1 /pods/u/volumes/config /home/argocd/config ro - ext4 /dev/sda1 rw\n\
        10 1 0:5 / /run/secrets/kubernetes.io/serviceaccount ro - tmpfs tmpfs rw\n\
        11 1 0:6 / /image ro - overlay overlay ro\n\
        12 11 0:7 / /image/key ro - tmpfs tmpfs rw\n\
        13 3 8:1 / /sys/fs/extra ro - ext4 /dev/sda1 rw\n";

    fn paths(list: &[&str]) -> BTreeSet<PathBuf> {
        list.iter().map(PathBuf::from).collect()
    }

    fn mounts(table: &str, excluded: &[&str]) -> Mounts {
        let table = cmp_procfs::parse_mounts(table.as_bytes());
        Mounts::of(&table, &paths(excluded), &["/usr/local/bin".into()])
    }

    /// The image of a machine with these mounts.
    fn image(closed: &[&str], excluded: &[&str]) -> Vec<PathBuf> {
        let mounts = Mounts { readable: BTreeSet::new(), closed: paths(closed) };
        mounts.image(&paths(excluded), &[])
    }

    #[test]
    fn the_mounts_of_this_process_are_found() {
        assert!(mount_points().unwrap().contains(Path::new("/proc")));
    }

    #[test]
    fn what_is_mounted_read_only_and_is_not_secret_can_be_read() {
        let readable =
            ["/etc/ssl/certs/company.crt", "/usr/local/bin/helm", "/home/argocd/config", "/image"];
        assert_eq!(mounts(TABLE, &[]).readable, paths(&readable));
        let without = mounts(TABLE, &["/home/argocd", "/image"]).readable;
        assert_eq!(without, paths(&readable[..2]));
    }

    #[test]
    fn accounts_are_readable_also_if_they_are_mounted_writable_but_not_from_memory() {
        let table = "1 0 0:1 / / rw - ext4 x rw\n2 1 8:1 / /etc/passwd rw - ext4 x rw\n\
                     3 1 0:2 / /etc/group rw - tmpfs x rw\n4 1 8:1 / /etc/shadow rw - ext4 x rw\n";
        assert_eq!(mounts(table, &[]).readable, paths(&["/etc/passwd"]));
        assert_eq!(mounts(table, &["/etc"]).readable, paths(&[]));
    }

    #[test]
    fn a_mount_that_another_one_covers_is_closed() {
        let visible = "1 0 0:1 / / rw - ext4 x rw\n2 1 0:2 / /a/b ro - ext4 x rw\n";
        assert_eq!(mounts(visible, &[]).readable, paths(&["/a/b"]));
        let covered = format!("{visible}3 1 0:3 / /a rw - tmpfs x rw\n");
        assert_eq!(mounts(&covered, &[]).readable, paths(&[]));
        let twice = format!("{visible}3 2 0:3 / /a/b ro - xfs x rw\n");
        assert_eq!(mounts(&twice, &[]).readable, paths(&["/a/b"]));
        let secret = format!("{visible}3 2 0:3 / /a/b ro - tmpfs x rw\n");
        assert_eq!(mounts(&secret, &[]).readable, paths(&[]));
    }

    #[test]
    fn a_directory_with_a_closed_mount_inside_is_split() {
        let whole = image(&[], &[]);
        assert!(whole.contains(&"/usr".into()), "{whole:?}");
        let parts = image(&["/usr/share"], &[]);
        assert!(!parts.contains(&"/usr".into()) && !parts.contains(&"/usr/share".into()));
        assert!(parts.contains(&"/usr/bin".into()), "{parts:?}");
    }

    #[test]
    fn a_readable_mount_in_a_home_directory_is_added() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let point = directory.path().to_owned();
        let mounts = Mounts { readable: [point.clone()].into(), closed: BTreeSet::new() };
        assert!(mounts.image(&paths(&[]), &[]).contains(&point));
        assert!(!mounts.image(&[point.clone()].into(), &[]).contains(&point));
    }

    #[test]
    fn a_homely_path_is_readable_without_the_mounts_in_it() {
        let Ok(directory) = tempfile::tempdir_in("/root") else { return };
        let path = |name: &str| directory.path().join(name);
        for name in ["config/helm", "config/secret", "volume/helm"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        let closed = [path("config/secret"), path("volume")].into();
        let mounts = Mounts { readable: BTreeSet::new(), closed };
        let homely = [path("config"), path("volume/helm"), "/root".into(), "/tmp".into()];
        let image = mounts.image(&paths(&[]), &homely);
        let added: Vec<_> = image.into_iter().filter(|path| path.starts_with("/root")).collect();
        assert_eq!(added, [path("config/helm")]);
        assert!(!mounts.image(&[path("config")].into(), &homely).contains(&path("config/helm")));
    }

    #[test]
    fn excluded_paths_and_their_parents_are_left_out() {
        let parts = image(&[], &["/usr/lib/secret"]);
        assert!(!parts.iter().any(|path| Path::new("/usr/lib/secret").starts_with(path)));
        assert!(parts.contains(&"/usr/bin".into()));
    }

    #[test]
    fn homes_and_kernel_directories_are_left_out() {
        let whole = image(&[], &[]);
        for path in ["/home", "/root", "/proc", "/tmp", "/dev", "/"] {
            assert!(!whole.contains(&path.into()), "{path}");
        }
    }
}
