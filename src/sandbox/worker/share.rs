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
use crate::sandbox::shared::Shared;

/// Largest cache in bytes: one that grows beyond it begins anew. Nobody else
/// keeps what is never removed from filling the volume, and with it the Pod.
const MAX_BYTES: u64 = 4 << 30;

/// Most entries of a cache, counted likewise. To look at so many takes a third
/// of a second.
const MAX_ENTRIES: u64 = 200_000;

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
pub(in crate::sandbox) fn hand_on(shared: &Shared) {
    for name in &shared.names {
        let _ = hand_on_one(shared, name);
    }
}

fn hand_on_one(shared: &Shared, name: &str) -> io::Result<()> {
    let owner = File::open(&shared.directory)?;
    let cache = open(owner.as_fd(), Path::new(name))?;
    let mut walk = Walk { group: shared.group, bytes: 0, entries: 0 };
    match walk.enter(cache, 0) {
        Ok(()) => Ok(()),
        Err(Full) => Ok(remove::contents(&owner.into(), name)?),
    }
}

/// There is more than a cache may hold.
struct Full;

struct Walk {
    group: Option<Gid>,
    bytes: u64,
    entries: u64,
}

impl Walk {
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
        self.entries += 1;
        self.bytes += 512 * u64::try_from(about.st_blocks).unwrap_or_default();
        if self.entries > MAX_ENTRIES || self.bytes > MAX_BYTES { Err(Full) } else { Ok(()) }
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
