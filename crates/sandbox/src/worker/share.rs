//! Hands a cache on to the next request, which has another UID.
//!
//! Programs may set modes explicitly, and a umask does not affect that: the
//! next request could not use a directory with mode 0755. When all processes of
//! a request have ended, its files are therefore given to the cache's group.
//!
//! This runs as the request's UID, so it can change only what the request's
//! processes could have changed themselves.

use std::{
    ffi::CStr,
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
};

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AtFlags, OFlag, openat},
    sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstatat},
    unistd::{Gid, fchownat, geteuid},
};

use super::remove;
use crate::wire::shared::SharedCaches;

/// A cache that exceeds this size is emptied. Otherwise caches would grow until
/// the volume is full. Counting so many entries takes at most a second.
const LARGEST: Size = Size { bytes: 4 << 30, entries: 200_000 };

/// Deepest level to visit; each level needs a descriptor.
const MAX_DEPTH: usize = 64;

/// Permissions that the group needs for a directory. With the set-group-ID bit,
/// new files inside get the group too.
const DIRECTORY: u32 = 0o2070;
/// Permissions that the group needs for a file.
const FILE: u32 = 0o060;
/// Bits that are removed from files.
const SET_ID: u32 = 0o6000;
/// If the owner may execute a file, the group may too.
const EXECUTE: u32 = 0o100;

/// Gives this UID's files in the caches to their group, and empties caches that
/// are too large. An error only makes the next request slower.
pub(crate) fn hand_on(shared: &SharedCaches) {
    for name in &shared.names {
        let _ = hand_on_one(shared, name, LARGEST);
    }
}

fn hand_on_one(shared: &SharedCaches, name: &str, largest: Size) -> io::Result<()> {
    let owner = File::open(&shared.directory)?;
    let cache = open(owner.as_fd(), Path::new(name))?;
    let mut walk = CacheWalk { group: shared.group, left: largest };
    match walk.enter(cache, 0) {
        Ok(()) => Ok(()),
        Err(Full) => Ok(remove::contents(&owner.into(), name)?),
    }
}

/// The cache is too large.
struct Full;

/// Size of a cache.
#[derive(Clone, Copy)]
struct Size {
    bytes: u64,
    entries: u64,
}

struct CacheWalk {
    group: Option<Gid>,
    /// Size that is still allowed.
    left: Size,
}

impl CacheWalk {
    fn enter(&mut self, mut directory: Dir, depth: usize) -> Result<(), Full> {
        // Copied, because the iterator borrows the directory.
        let Ok(here) = directory.as_fd().try_clone_to_owned() else { return Ok(()) };
        for entry in directory.iter() {
            // An unreadable directory counts as ended.
            let Ok(entry) = entry else { return Ok(()) };
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                self.look(here.as_fd(), entry.file_name(), depth)?;
            }
        }
        Ok(())
    }

    fn look(&mut self, parent: BorrowedFd<'_>, name: &CStr, depth: usize) -> Result<(), Full> {
        let Ok(about) = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW) else { return Ok(()) };
        self.count(&about)?;
        if let Some(group) = self.group.filter(|_| about.st_uid == geteuid().as_raw()) {
            // Programs create a file again if they cannot read it.
            let _ = give(parent, name, &about, group);
        }
        if kind(&about) != SFlag::S_IFDIR || depth >= MAX_DEPTH {
            return Ok(());
        }
        match open_entry(parent, name) {
            Ok(inner) => self.enter(inner, depth + 1),
            Err(_) => Ok(()),
        }
    }

    fn count(&mut self, about: &FileStat) -> Result<(), Full> {
        let Size { bytes, entries } = self.left;
        let taken = 512 * u64::try_from(about.st_blocks).unwrap_or_default();
        let (bytes, entries) = (bytes.checked_sub(taken), entries.checked_sub(1));
        self.left = Size { bytes: bytes.ok_or(Full)?, entries: entries.ok_or(Full)? };
        Ok(())
    }
}

/// Gives one entry to the group. Links and devices are skipped.
fn give(parent: BorrowedFd<'_>, name: &CStr, about: &FileStat, group: Gid) -> Result<(), Errno> {
    let mode = about.st_mode & 0o7777;
    let wanted = match kind(about) {
        SFlag::S_IFDIR => mode | DIRECTORY,
        SFlag::S_IFREG => (mode | FILE | ((mode & EXECUTE) >> 3)) & !SET_ID,
        _ => return Ok(()),
    };
    if about.st_gid != group.as_raw() {
        // Before the mode, because chown removes bits of it.
        fchownat(parent, name, None, Some(group), AtFlags::AT_SYMLINK_NOFOLLOW)?;
    }
    if wanted != mode || about.st_gid != group.as_raw() {
        let wanted = Mode::from_bits_truncate(wanted);
        fchmodat(parent, name, wanted, FchmodatFlags::FollowSymlink)?;
    }
    Ok(())
}

fn kind(about: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT
}

const LIST: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

fn open(parent: BorrowedFd<'_>, name: &Path) -> io::Result<Dir> {
    Ok(Dir::from_fd(openat(parent, name, LIST, Mode::empty())?)?)
}

fn open_entry(parent: BorrowedFd<'_>, name: &CStr) -> Result<Dir, Errno> {
    Dir::openat(parent, name, LIST, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    use nix::unistd::getegid;
    use tempfile::TempDir;

    use super::*;

    /// A cache with one directory that has one file.
    fn cache(group: Option<Gid>) -> (TempDir, SharedCaches) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        fs::create_dir_all(path.join("store/inner")).unwrap();
        fs::write(path.join("store/inner/file"), "x").unwrap();
        (directory, SharedCaches { group, directory: path, names: vec!["store".to_owned()] })
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn files_of_a_cache_are_opened_to_its_group() {
        let (directory, shared) = cache(Some(getegid()));
        let store = directory.path().join("store");
        let (inner, file, link) =
            (store.join("inner"), store.join("inner/file"), store.join("link"));
        fs::set_permissions(&file, Permissions::from_mode(0o4700)).unwrap();
        fs::set_permissions(&inner, Permissions::from_mode(0o700)).unwrap();
        let outside = directory.path().join("outside");
        fs::write(&outside, "x").unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        hand_on(&shared);
        assert_eq!((mode(&inner), mode(&file)), (0o2770, 0o770));
        assert_eq!(mode(&outside), 0o600, "links are not followed");
    }

    #[test]
    fn a_cache_that_is_too_large_is_emptied() {
        for (bytes, entries, is_kept) in [(1 << 20, 2, true), (1 << 20, 1, false), (1, 9, false)] {
            let (directory, shared) = cache(None);
            hand_on_one(&shared, "store", Size { bytes, entries }).unwrap();
            let store = directory.path().join("store");
            assert_eq!(store.join("inner/file").exists(), is_kept, "{bytes} {entries}");
            assert!(store.exists());
        }
    }

    #[test]
    fn a_missing_cache_is_ignored() {
        let (directory, shared) = cache(None);
        fs::remove_dir_all(directory.path().join("store")).unwrap();
        hand_on(&shared);
    }
}
