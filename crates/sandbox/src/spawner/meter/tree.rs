//! Walks a directory tree that may change during the walk.
//!
//! A tenant's tree may have a hundred thousand levels, and nothing may be moved
//! while commands run. The walk therefore returns through `..` and checks that
//! it arrives in the directory it came from.

use std::{
    ffi::{CStr, CString},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, OFlag, open, openat},
    sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstat, fstatat},
    unistd::{Uid, geteuid},
};

use super::{
    Subject,
    totals::{MeterError, Totals},
};

/// Size in bytes of the unit of `st_blocks`, on every file system.
pub(super) const BLOCK: u64 = 512;

/// Most bytes of memory for names of directories still to be visited.
const MAX_HELD: usize = 16 << 20;

const HANDLE: OFlag =
    OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

const LIST: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Resolution of file timestamps: one tick of the kernel.
const TICK: Duration = Duration::from_millis(20);

/// Permissions needed to list and enter a directory.
const READ_ENTER: u32 = 0o500;

/// A walk and its totals.
#[derive(Debug)]
pub(super) struct TreeWalk<'t> {
    totals: &'t mut Totals,
    /// UID of the walk. It can change modes only of this UID's directories.
    user: Uid,
    /// UID and earliest time of files to count; `None` to count all.
    only: Option<(Uid, (i64, i64))>,
    levels: Vec<Level>,
    /// NUL-terminated names of directories still to be visited, grouped by
    /// level.
    names: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    identity: (u64, u64),
    /// Number of its directories still to be visited.
    left: usize,
}

impl<'t> TreeWalk<'t> {
    /// Counts everything in a workspace.
    pub(super) fn workspace(
        subject: &Subject<'_>,
        totals: &'t mut Totals,
    ) -> Result<(), MeterError> {
        let name = CString::new(subject.workspace).map_err(|_nul| MeterError::Unreadable)?;
        let mut walk = Self::new(subject, None, totals);
        match walk.enter(subject.root.as_fd(), &name)? {
            Some(top) => walk.go(top),
            None => Ok(()),
        }
    }

    /// Counts files in caches that this request created or changed. Only
    /// possible with separate UIDs.
    pub(super) fn caches(subject: &Subject<'_>, totals: &'t mut Totals) -> Result<(), MeterError> {
        let Some((shared, identity)) = subject.shared.zip(subject.identity) else { return Ok(()) };
        let only = Some((identity.tenant, stamp(subject.since)));
        for path in shared.paths() {
            let mut walk = Self::new(subject, only, totals);
            if let Some(top) = open_top(&path)? {
                walk.go(top)?;
            }
        }
        Ok(())
    }

    fn new<'w>(
        subject: &Subject<'_>,
        only: Option<(Uid, (i64, i64))>,
        totals: &'w mut Totals,
    ) -> TreeWalk<'w> {
        let user = subject.identity.map_or_else(geteuid, |identity| identity.tenant);
        TreeWalk { totals, user, only, levels: Vec::new(), names: Vec::new() }
    }

    fn go(&mut self, top: OwnedFd) -> Result<(), MeterError> {
        let mut here = top;
        self.list(here.as_fd())?;
        while let Some(level) = self.levels.last_mut() {
            if level.left > 0 {
                level.left -= 1;
                let name = self.next_name()?;
                if let Some(inner) = self.enter(here.as_fd(), &name)? {
                    here = inner;
                    self.list(here.as_fd())?;
                }
                continue;
            }
            self.levels.pop();
            let Some(outer) = self.levels.last() else { break };
            here = leave(here.as_fd(), outer.identity)?;
        }
        Ok(())
    }

    /// Opens a directory, after adding permissions if it belongs to the tenant.
    /// `None` if it is gone, or another tenant's and not accessible.
    fn enter(&self, parent: BorrowedFd<'_>, name: &CStr) -> Result<Option<OwnedFd>, MeterError> {
        let directory = match openat(parent, name, HANDLE, Mode::empty()) {
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(None),
            directory => directory.map_err(unreadable)?,
        };
        let about = fstat(&directory).map_err(unreadable)?;
        let is_own = about.st_uid == self.user.as_raw();
        if is_own && about.st_mode & READ_ENTER != READ_ENTER {
            permit(directory.as_fd(), &about)?;
        }
        // If it is closed to this tenant, it has no files of this tenant.
        let is_open = || openat(&directory, c".", LIST, Mode::empty()).is_ok();
        if self.only.is_some() && !is_own && !is_open() {
            return Ok(None);
        }
        Ok(Some(directory))
    }

    /// Counts the entries of a directory and stores the names of its
    /// directories.
    fn list(&mut self, directory: BorrowedFd<'_>) -> Result<(), MeterError> {
        let about = fstat(directory).map_err(unreadable)?;
        let mut listing = Dir::openat(directory, c".", LIST, Mode::empty()).map_err(unreadable)?;
        let mut left = 0;
        for entry in listing.iter() {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let about = match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
                Err(Errno::ENOENT) => continue,
                about => about.map_err(unreadable)?,
            };
            self.count(&about)?;
            if kind(&about) == SFlag::S_IFDIR {
                self.names.extend_from_slice(name.to_bytes_with_nul());
                left += 1;
            }
        }
        self.levels.push(Level { identity: identity(&about), left });
        let held = self.names.len() + self.levels.len() * size_of::<Level>();
        if held > MAX_HELD { Err(MeterError::Unreadable) } else { Ok(()) }
    }

    fn count(&mut self, about: &FileStat) -> Result<(), MeterError> {
        let changed = (about.st_ctime, about.st_ctime_nsec);
        let is_counted =
            |(user, since): (Uid, (i64, i64))| about.st_uid == user.as_raw() && changed >= since;
        if !self.only.is_none_or(is_counted) {
            return Ok(());
        }
        let bytes = BLOCK.saturating_mul(u64::try_from(about.st_blocks).unwrap_or_default());
        // A file with several names is met once for each; the link count of
        // directories means something else.
        let names = if kind(about) == SFlag::S_IFDIR { 1 } else { about.st_nlink.max(1) };
        self.totals.file(bytes.div_ceil(names))
    }

    fn next_name(&mut self) -> Result<CString, MeterError> {
        self.names.pop();
        let start = self.names.iter().rposition(|byte| *byte == 0).map_or(0, |nul| nul + 1);
        CString::new(self.names.split_off(start)).map_err(|_nul| MeterError::Unreadable)
    }
}

/// Returns to the parent and checks that it is the directory the walk came
/// from.
fn leave(directory: BorrowedFd<'_>, outer: (u64, u64)) -> Result<OwnedFd, MeterError> {
    let parent = openat(directory, c"..", HANDLE, Mode::empty()).map_err(unreadable)?;
    let about = fstat(&parent).map_err(unreadable)?;
    if identity(&about) == outer { Ok(parent) } else { Err(MeterError::Unreadable) }
}

/// Adds permissions for the owner, through the descriptor. The name may be a
/// link by now.
fn permit(directory: BorrowedFd<'_>, about: &FileStat) -> Result<(), MeterError> {
    let path = cmp_procfs::descriptor_path(&directory);
    let mode = Mode::from_bits_truncate(about.st_mode) | Mode::S_IRWXU;
    fchmodat(AT_FDCWD, path.as_str(), mode, FchmodatFlags::FollowSymlink).map_err(unreadable)
}

fn open_top(path: &Path) -> Result<Option<OwnedFd>, MeterError> {
    match open(path, HANDLE, Mode::empty()) {
        Err(Errno::ENOENT) => Ok(None),
        top => top.map(Some).map_err(unreadable),
    }
}

/// Converts a time to a file timestamp, minus one tick because file clocks are
/// coarse.
fn stamp(time: SystemTime) -> (i64, i64) {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(TICK);
    (since.as_secs().cast_signed(), since.subsec_nanos().into())
}

fn identity(about: &FileStat) -> (u64, u64) {
    (about.st_dev, about.st_ino)
}

fn kind(about: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT
}

fn unreadable(_unseen: Errno) -> MeterError {
    MeterError::Unreadable
}
