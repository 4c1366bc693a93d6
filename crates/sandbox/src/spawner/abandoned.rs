//! Directories of private supervisors that were killed, for example with their container.

use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use nix::{fcntl::OFlag, unistd::geteuid};

use super::root::WORKSPACES;

/// Begins the name of a private supervisor's work directory. The command that starts the
/// supervisor creates and locks it.
pub const PRIVATE: &str = "cmp-private-";

/// Names of the directories in `work_dir` that have a directory of workspaces and that nobody
/// uses.
pub(super) fn find(work_dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(work_dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(PRIVATE) && is_unused(&work_dir.join(name))).collect()
}

/// Returns true if the command has ended, and the spawner of its supervisor, too, which locks
/// the directory of workspaces and ends later.
fn is_unused(path: &Path) -> bool {
    let locks = [lock(path), lock(&path.join(WORKSPACES))];
    locks.iter().all(Option::is_some)
}

/// Locks a directory of this user; `None` if another process holds the lock, or there is
/// something else at the path.
fn lock(path: &Path) -> Option<File> {
    let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
    let directory = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let is_own = directory.metadata().is_ok_and(|about| about.uid() == geteuid().as_raw());
    (is_own && directory.try_lock().is_ok()).then_some(directory)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::skip::soon;

    #[test]
    fn only_directories_that_nobody_uses_are_found() {
        let work = tempfile::tempdir().unwrap();
        let create = |name: &str| {
            let path = work.path().join(name);
            fs::create_dir_all(path.join(WORKSPACES)).unwrap();
            path
        };
        let locked = |path: &Path| lock(path).unwrap();
        create("cmp-private-left");
        create("other");
        let used = [
            locked(&create("cmp-private-command")),
            locked(&create("cmp-private-spawner").join(WORKSPACES)),
        ];
        fs::create_dir(work.path().join("cmp-private-new")).unwrap();
        symlink("other", work.path().join("cmp-private-link")).unwrap();
        assert_eq!(find(work.path()), ["cmp-private-left"]);
        drop(used);
        assert!(soon(|| find(work.path()).len() == 3));
    }
}
