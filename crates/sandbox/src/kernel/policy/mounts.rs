//! Separates the image's own paths from mounts.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

/// Directories that never count as part of the image: kernel file systems,
/// directories that everybody may write to, and home directories.
const NEVER: [&str; 9] =
    ["/proc", "/sys", "/dev", "/run", "/tmp", "/home", "/root", "/var/run", "/var/tmp"];

/// Files for host name lookup that a container runtime mounts into `/etc`.
const RESOLVER: [&str; 3] = ["/etc/resolv.conf", "/etc/hosts", "/etc/hostname"];

/// Most paths to distinguish. Only a broken machine has more mounts.
const MAX_PATHS: usize = 4096;

/// Mount points of this process, except the root.
pub(crate) fn mount_points() -> io::Result<BTreeSet<PathBuf>> {
    let points = cmp_procfs::mounts()?.into_iter().map(|mount| mount.point);
    Ok(points.filter(|point| point != Path::new("/")).collect())
}

/// The largest directories that belong to the image only: no mount is at or
/// below them, and no excluded path either.
pub(super) fn image(mounts: &BTreeSet<PathBuf>, excluded: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let never = NEVER.iter().map(PathBuf::from);
    let foreign: BTreeSet<PathBuf> =
        mounts.iter().cloned().chain(excluded.iter().cloned()).chain(never).collect();
    let mut own = Vec::new();
    let mut ahead = vec![PathBuf::from("/")];
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

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(list: &[&str]) -> BTreeSet<PathBuf> {
        list.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn the_mounts_of_this_process_are_found() {
        assert!(mount_points().unwrap().contains(Path::new("/proc")));
    }

    #[test]
    fn a_directory_with_a_mount_inside_is_split() {
        let whole = image(&paths(&[]), &paths(&[]));
        assert!(whole.contains(&"/usr".into()), "{whole:?}");
        let parts = image(&paths(&["/usr/share"]), &paths(&[]));
        assert!(!parts.contains(&"/usr".into()) && !parts.contains(&"/usr/share".into()));
        assert!(parts.contains(&"/usr/bin".into()), "{parts:?}");
    }

    #[test]
    fn excluded_paths_and_their_parents_are_left_out() {
        let parts = image(&paths(&[]), &paths(&["/usr/lib/secret"]));
        assert!(!parts.iter().any(|path| Path::new("/usr/lib/secret").starts_with(path)));
        assert!(parts.contains(&"/usr/bin".into()));
    }

    #[test]
    fn homes_and_kernel_directories_are_left_out() {
        let whole = image(&paths(&[]), &paths(&[]));
        for path in ["/home", "/root", "/proc", "/tmp", "/dev", "/"] {
            assert!(!whole.contains(&path.into()), "{path}");
        }
    }
}
