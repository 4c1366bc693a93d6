//! Removes a directory's contents, whatever permissions and depth they have.

use std::{
    ffi::{CStr, CString},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use nix::{
    dir::{Dir, Entry, Type},
    errno::Errno,
    fcntl::{openat, renameat},
    sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat, fstat},
    unistd::{UnlinkatFlags, unlinkat},
};
use rand::RngExt;

use crate::kernel::entries::LIST;

/// Most entries to list before they are removed. It bounds memory for
/// directories with many files.
const BATCH: usize = 4096;

/// Called between two steps, so that a removal can wait for others. Its only error
/// is [`STOPPED`], which ends the removal.
pub(crate) type Pause<'p> = dyn FnMut() -> Result<(), Errno> + 'p;

/// The error of a [`Pause`]: the spawner is gone.
pub(crate) const STOPPED: Errno = Errno::EPIPE;

/// Removes everything in `name`, a directory in `root`. A missing directory is
/// no error. If something cannot be removed, everything else is, and the first
/// error is returned.
///
/// Nested directories are moved to the top before they are emptied. Depth
/// therefore needs neither stack nor descriptors; at most two directories are
/// open.
pub(crate) fn contents(root: impl AsFd, name: &str, pause: &mut Pause<'_>) -> Result<(), Errno> {
    let name = CString::new(name).map_err(|_nul| Errno::EINVAL)?;
    let top = match open(root.as_fd(), &name) {
        Err(Errno::ENOENT) => return Ok(()),
        opened => opened?,
    };
    let mut names = FreshNames::new();
    each(top.as_fd(), pause, |entry, pause| flatten(top.as_fd(), entry, &mut names, pause))
}

/// Empties a directory at the top and removes it: deletes its files and moves
/// its directories to the top.
fn flatten(
    top: BorrowedFd<'_>,
    name: &CStr,
    names: &mut FreshNames,
    pause: &mut Pause<'_>,
) -> Result<(), Errno> {
    let directory = open(top, name)?;
    each(directory.as_fd(), pause, |entry, _| {
        let moved = names.next();
        let rename = || renameat(&directory, entry, top, moved.as_c_str());
        match rename() {
            // Moving a directory requires the right to write to it.
            Err(Errno::EACCES) => {
                permit(directory.as_fd(), entry)?;
                rename()
            }
            renamed => renamed,
        }
    })?;
    unlinkat(top, name, UnlinkatFlags::RemoveDir)
}

/// Deletes all files of a directory, and handles its directories with `take`.
/// Ends with an error when a whole batch of entries fails.
fn each(
    directory: BorrowedFd<'_>,
    pause: &mut Pause<'_>,
    mut take: impl FnMut(&CStr, &mut Pause<'_>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    loop {
        pause()?;
        let entries = list(directory)?;
        if entries.is_empty() {
            return Ok(());
        }
        let mut remove = |entry: &Entry| {
            if unlink(directory, entry)? { Ok(()) } else { take(entry.file_name(), pause) }
        };
        let failures: Vec<Errno> = entries.iter().filter_map(|entry| remove(entry).err()).collect();
        if let Some(first) = failures.first().filter(|_| failures.len() == entries.len()) {
            return Err(*first);
        }
    }
}

/// Deletes an entry. Returns false if it is a directory.
fn unlink(directory: BorrowedFd<'_>, entry: &Entry) -> Result<bool, Errno> {
    if entry.file_type() == Some(Type::Directory) {
        return Ok(false);
    }
    match unlinkat(directory, entry.file_name(), UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(true),
        // Some file systems do not report the type of an entry.
        Err(Errno::EISDIR | Errno::EPERM) => Ok(false),
        Err(error) => Err(error),
    }
}

fn list(directory: BorrowedFd<'_>) -> Result<Vec<Entry>, Errno> {
    let mut listing = Dir::openat(directory, c".", LIST, Mode::empty())?;
    let real = |entry: &Result<Entry, Errno>| {
        entry.as_ref().map_or(true, |entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))
    };
    listing.iter().filter(real).take(BATCH).collect()
}

/// Opens a directory for emptying, after adding permissions if necessary.
fn open(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let open = || openat(parent, name, LIST, Mode::empty());
    let directory = match open() {
        Err(Errno::EACCES) => {
            permit(parent, name)?;
            open()?
        }
        opened => opened?,
    };
    let mode = Mode::from_bits_truncate(fstat(&directory)?.st_mode);
    if !mode.contains(Mode::S_IRWXU) {
        fchmod(&directory, Mode::S_IRWXU)?;
    }
    Ok(directory)
}

fn permit(parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    // No process of the tenant is left that could replace the entry by a link.
    fchmodat(parent, name, Mode::S_IRWXU, FchmodatFlags::FollowSymlink)
}

/// New names for directories at the top. The prefix is random, so no tenant can
/// have used them.
struct FreshNames {
    prefix: u128,
    next: u64,
}

impl FreshNames {
    fn new() -> Self {
        Self { prefix: rand::rng().random(), next: 0 }
    }

    fn next(&mut self) -> CString {
        self.next += 1;
        CString::new(format!("{:032x}-{}", self.prefix, self.next)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};

    use super::*;

    fn remove(parent: &Path, name: &str) -> Result<(), Errno> {
        contents(fs::File::open(parent).unwrap(), name, &mut || Ok(()))
    }

    fn is_empty(directory: &Path) -> bool {
        fs::read_dir(directory).unwrap().next().is_none()
    }

    #[test]
    fn everything_is_removed_except_targets_of_links() {
        let parent = tempfile::tempdir().unwrap();
        let top = parent.path().join("top");
        fs::create_dir_all(top.join("a/b/c")).unwrap();
        fs::write(top.join("a/b/file"), "x").unwrap();
        fs::write(parent.path().join("kept"), "x").unwrap();
        std::os::unix::fs::symlink("../../kept", top.join("a/link")).unwrap();
        std::os::unix::fs::symlink("..", top.join("up")).unwrap();
        remove(parent.path(), "top").unwrap();
        assert!(is_empty(&top) && parent.path().join("kept").exists());
    }

    #[test]
    fn directories_without_permissions_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let top = parent.path().join("top");
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/b/file"), "x").unwrap();
        for (path, mode) in [("a/b", 0o000), ("a", 0o555)] {
            fs::set_permissions(top.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        remove(parent.path(), "top").unwrap();
        assert!(is_empty(&top));
    }

    #[test]
    fn deep_trees_need_few_descriptors() {
        let parent = tempfile::tempdir().unwrap();
        let top = parent.path().join("top");
        fs::create_dir(&top).unwrap();
        // Built with relative paths, because the whole path is longer than
        // PATH_MAX.
        let mut at: OwnedFd = fs::File::open(&top).unwrap().into();
        for _ in 0..5_000 {
            nix::sys::stat::mkdirat(&at, "d", Mode::S_IRWXU).unwrap();
            at = openat(&at, "d", LIST, Mode::empty()).unwrap();
        }
        remove(parent.path(), "top").unwrap();
        assert!(is_empty(&top));
    }

    #[test]
    fn more_files_than_one_batch_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let top = parent.path().join("top");
        fs::create_dir_all(top.join("many")).unwrap();
        for number in 0..BATCH + 10 {
            fs::write(top.join("many").join(number.to_string()), "").unwrap();
        }
        remove(parent.path(), "top").unwrap();
        assert!(is_empty(&top));
    }

    #[test]
    fn a_removal_goes_on_after_an_error() {
        let top = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            fs::create_dir(top.path().join(name)).unwrap();
        }
        let directory = fs::File::open(top.path()).unwrap();
        let removed = each(directory.as_fd(), &mut || Ok(()), |name, _| match name.to_bytes() {
            b"b" => Err(Errno::EIO),
            _ => unlinkat(&directory, name, UnlinkatFlags::RemoveDir),
        });
        assert_eq!(removed, Err(Errno::EIO));
        let left = fs::read_dir(top.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn a_missing_directory_is_no_error() {
        let parent = tempfile::tempdir().unwrap();
        assert_eq!(remove(parent.path(), "gone"), Ok(()));
    }
}
