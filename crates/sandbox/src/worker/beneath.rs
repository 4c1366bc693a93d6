//! Opens files by paths that must not lead out of a directory.

use std::os::fd::{AsFd, OwnedFd};

use nix::{
    NixPath,
    errno::Errno,
    fcntl::{OpenHow, openat2},
};

/// Most attempts to open. A path with `..` fails with EAGAIN if anything on the
/// machine is renamed or mounted meanwhile, and other requests mount.
const ATTEMPTS: usize = 1000;

/// Opens `path` below `root` with the options `how`.
pub(super) fn open<P: ?Sized + NixPath>(
    root: impl AsFd,
    path: &P,
    how: OpenHow,
) -> Result<OwnedFd, Errno> {
    until_not_again(Errno::EAGAIN, || openat2(root.as_fd(), path, how))
}

/// Tries to open a path that must not lead out of a directory until the error is another one
/// than `again`, which is EAGAIN in the caller's terms.
pub fn until_not_again<T, E: Copy + PartialEq>(
    again: E,
    attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let is_another = |opened: &Result<T, E>| opened.as_ref().err() != Some(&again);
    std::iter::repeat_with(attempt).take(ATTEMPTS).find(is_another).unwrap_or(Err(again))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use nix::fcntl::{OFlag, ResolveFlag};

    use super::*;

    #[test]
    fn renames_elsewhere_do_not_fail_an_open() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(root.path().join("x"), "").unwrap();
        let directory = File::open(root.path()).unwrap();
        let (x, y) = (root.path().join("x"), root.path().join("y"));
        let done = AtomicBool::new(false);
        let how = OpenHow::new().flags(OFlag::O_PATH).resolve(ResolveFlag::RESOLVE_BENEATH);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    fs::rename(&x, &y).and_then(|()| fs::rename(&y, &x)).unwrap();
                }
            });
            let opened =
                (0..20_000).try_for_each(|_| open(&directory, "a/b/../../a", how).map(drop));
            done.store(true, Ordering::Relaxed);
            assert_eq!(opened, Ok(()));
        });
    }
}
