//! Leaving a cache to the next request, which has another user.
//!
//! Programs make files with modes of their own choice, which no umask changes:
//! a directory that was made with 0755 is closed to the next user. Once all of
//! a request's processes are gone, what they made is given to the group.
//!
//! This runs as the request's user. Whatever its processes made of the cache,
//! nothing can be changed here that they could not have changed themselves.

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

/// Largest cache: one that grows beyond it begins anew. Nobody else keeps what
/// is never removed from filling the volume, and with it the Pod. To look at so
/// many entries takes a second or less.
const LARGEST: Size = Size { bytes: 4 << 30, entries: 200_000 };

/// Deepest directory that is looked into; each costs a descriptor.
const MAX_DEPTH: usize = 64;

/// What a directory needs to be the group's: the last bit has what is made in
/// it belong to the group, too.
const DIRECTORY: u32 = 0o2070;
/// What a file needs.
const FILE: u32 = 0o060;
/// What a file does not keep.
const SET_ID: u32 = 0o6000;
/// What a file's owner may execute, the group may.
const EXECUTE: u32 = 0o100;

/// Gives what this user made in the caches to their group, and empties those
/// that are too large. What fails costs the next request some of its speed.
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

/// There is more than a cache may hold.
struct Full;

/// What there is in a cache.
#[derive(Clone, Copy)]
struct Size {
    bytes: u64,
    entries: u64,
}

struct CacheWalk {
    group: Option<Gid>,
    /// How much more there may be.
    left: Size,
}

impl CacheWalk {
    fn enter(&mut self, mut directory: Dir, depth: usize) -> Result<(), Full> {
        // A copy: reading entries and using the descriptor are both wanted.
        let Ok(here) = directory.as_fd().try_clone_to_owned() else { return Ok(()) };
        for entry in directory.iter() {
            // One that cannot be read further is as good as at its end.
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
            // A file that cannot be shared is made anew by whoever misses it.
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

/// Gives one entry to the group. Links and devices are nothing to be given.
fn give(parent: BorrowedFd<'_>, name: &CStr, about: &FileStat, group: Gid) -> Result<(), Errno> {
    let mode = about.st_mode & 0o7777;
    let wanted = match kind(about) {
        SFlag::S_IFDIR => mode | DIRECTORY,
        SFlag::S_IFREG => (mode | FILE | ((mode & EXECUTE) >> 3)) & !SET_ID,
        _ => return Ok(()),
    };
    if about.st_gid != group.as_raw() {
        // First, for it takes bits of the mode away.
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

    /// A cache with a directory in it, in which there is a file.
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
    fn what_is_closed_becomes_the_groups() {
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
    fn a_cache_that_is_not_there_is_let_be() {
        let (directory, shared) = cache(None);
        fs::remove_dir_all(directory.path().join("store")).unwrap();
        hand_on(&shared);
    }
}
