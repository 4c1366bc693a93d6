//! Walks a directory tree that may change during the walk.
//!
//! The walk keeps the upper directories open, so that a tenant that moves
//! directories cannot mislead it. A tenant's tree may have a hundred thousand
//! levels; from the deeper ones, the walk returns through `..` and checks that it
//! arrives in the directory it came from.

use std::{
    collections::HashSet,
    ffi::{CStr, CString},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, open, openat},
    sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstat, fstatat},
    unistd::{Uid, geteuid},
};

use super::{
    Earlier, Subject,
    totals::{Excess, Totals},
};
use crate::kernel::entries::{BLOCK, HANDLE, LIST, identity, is_dots, kind};

/// Most bytes of memory for names of directories still to be visited.
const MAX_HELD: usize = 16 << 20;

/// Most directories to keep open.
const MAX_OPEN: usize = 1024;

/// Most directories to remember. Others may be counted twice if they are moved.
const MAX_REMEMBERED: usize = 500_000;

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
    /// Files to count; `None` to count all.
    only: Option<Only<'t>>,
    levels: Vec<Level>,
    /// Directories that were listed. A moved one may be met again.
    listed: HashSet<(u64, u64)>,
    /// NUL-terminated names of directories still to be visited, grouped by
    /// level.
    names: Vec<u8>,
}

/// Seconds and nanoseconds after the epoch.
type Stamp = (i64, i64);

/// The files in a cache that count for a request.
#[derive(Clone, Copy, Debug)]
struct Only<'e> {
    user: Uid,
    /// Earliest change of the request's own files.
    since: Stamp,
    earlier: &'e Earlier,
}

#[derive(Debug)]
struct Level {
    identity: (u64, u64),
    /// The directory, if the walk is below it and it is kept open.
    handle: Option<OwnedFd>,
    /// Number of its directories still to be visited.
    left: usize,
}

impl<'t> TreeWalk<'t> {
    /// Counts everything in a workspace.
    pub(super) fn workspace(
        subject: &'t Subject<'_>,
        totals: &'t mut Totals,
    ) -> Result<(), Excess> {
        let Ok(name) = CString::new(subject.workspace) else { return Ok(()) };
        let mut walk = Self::new(subject, None, totals);
        let top = walk.enter(subject.root.as_fd(), &name);
        walk.start(top)
    }

    /// Counts files in caches that this request created or changed. Only
    /// possible with separate UIDs.
    pub(super) fn caches(subject: &'t Subject<'_>, totals: &'t mut Totals) -> Result<(), Excess> {
        let Some((shared, identity)) = subject.shared.zip(subject.identity) else { return Ok(()) };
        let since = stamp(subject.since.checked_sub(TICK).unwrap_or(UNIX_EPOCH));
        let only = Some(Only { user: identity.tenant, since, earlier: &subject.earlier });
        for path in shared.paths() {
            Self::new(subject, only, totals).start(open_top(&path))?;
        }
        Ok(())
    }

    fn new<'w>(
        subject: &Subject<'_>,
        only: Option<Only<'w>>,
        totals: &'w mut Totals,
    ) -> TreeWalk<'w> {
        let user = subject.identity.map_or_else(geteuid, |identity| identity.tenant);
        let (levels, listed, names) = (Vec::new(), HashSet::new(), Vec::new());
        TreeWalk { totals, user, only, levels, listed, names }
    }

    /// Walks as far as possible. If something is unreadable, the totals know it.
    fn start(&mut self, top: Result<Option<OwnedFd>, Stop>) -> Result<(), Excess> {
        let walked = match top {
            Ok(Some(top)) => self.go(top),
            Ok(None) => Ok(()),
            Err(stop) => Err(stop),
        };
        match walked {
            Err(Stop::Excess) => Err(Excess),
            Err(Stop::Unreadable) => {
                self.totals.blind();
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn go(&mut self, top: OwnedFd) -> Result<(), Stop> {
        let mut here = top;
        self.list(here.as_fd())?;
        while let Some(level) = self.levels.last_mut() {
            if level.left > 0 {
                level.left -= 1;
                let name = self.next_name()?;
                if let Some(inner) = self.readable(here.as_fd(), &name)? {
                    let outer = std::mem::replace(&mut here, inner);
                    self.keep(outer);
                    self.list(here.as_fd())?;
                }
                continue;
            }
            self.levels.pop();
            let Some(outer) = self.levels.last_mut() else { break };
            here = match outer.handle.take() {
                Some(handle) => handle,
                None => leave(here.as_fd(), outer.identity)?,
            };
        }
        Ok(())
    }

    /// Keeps the directory of the last level open.
    fn keep(&mut self, directory: OwnedFd) {
        let has_room = self.levels.len() <= MAX_OPEN;
        if let Some(level) = self.levels.last_mut().filter(|_| has_room) {
            level.handle = Some(directory);
        }
    }

    /// Opens a directory. If it cannot be opened or listed, the totals know it.
    fn readable(&mut self, parent: BorrowedFd<'_>, name: &CStr) -> Result<Option<OwnedFd>, Stop> {
        match self.enter(parent, name) {
            Err(Stop::Unreadable) => {
                self.totals.blind();
                Ok(None)
            }
            entered => entered,
        }
    }

    /// Opens a directory, after adding permissions if it belongs to the tenant.
    /// `None` if it is gone, was listed already, or is another tenant's and not
    /// accessible.
    fn enter(&mut self, parent: BorrowedFd<'_>, name: &CStr) -> Result<Option<OwnedFd>, Stop> {
        let directory = match openat(parent, name, HANDLE, Mode::empty()) {
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(None),
            directory => directory.map_err(unreadable)?,
        };
        let about = fstat(&directory).map_err(unreadable)?;
        let has_room = self.listed.len() < MAX_REMEMBERED;
        if has_room && !self.listed.insert(identity(&about)) {
            return Ok(None);
        }
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
    fn list(&mut self, directory: BorrowedFd<'_>) -> Result<(), Stop> {
        let about = fstat(directory).map_err(unreadable)?;
        let mut listing = Dir::openat(directory, c".", LIST, Mode::empty()).map_err(unreadable)?;
        let mut left = 0;
        for entry in listing.iter() {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            if is_dots(name) {
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
        self.levels.push(Level { identity: identity(&about), handle: None, left });
        let held = self.names.len() + self.levels.len() * size_of::<Level>();
        if held > MAX_HELD { Err(Stop::Unreadable) } else { Ok(()) }
    }

    fn count(&mut self, about: &FileStat) -> Result<(), Stop> {
        if !self.only.is_none_or(|only| only.includes(about)) {
            return Ok(());
        }
        let bytes = BLOCK.saturating_mul(u64::try_from(about.st_blocks).unwrap_or_default());
        // A file with several names is met once for each; the link count of
        // directories means something else.
        let names = if kind(about) == SFlag::S_IFDIR { 1 } else { wide(about.st_nlink).max(1) };
        Ok(self.totals.file(bytes.div_ceil(names))?)
    }

    fn next_name(&mut self) -> Result<CString, Stop> {
        self.names.pop();
        let start = self.names.iter().rposition(|byte| *byte == 0).map_or(0, |nul| nul + 1);
        CString::new(self.names.split_off(start)).map_err(|_nul| Stop::Unreadable)
    }
}

/// The type of a link count depends on the processor: 32 bits on arm64.
fn wide(number: impl Into<u64>) -> u64 {
    number.into()
}

impl Only<'_> {
    fn includes(&self, about: &FileStat) -> bool {
        let Earlier { since, current } = self.earlier;
        if about.st_uid == self.user.as_raw() {
            return (about.st_ctime, about.st_ctime_nsec) >= self.since;
        }
        // Only the owner could set another time of modification. The time of
        // change is also that of opening the file to the group.
        let modified = (about.st_mtime, about.st_mtime_nsec);
        kind(about) == SFlag::S_IFREG
            && modified >= stamp(*since)
            && !current.contains(&about.st_uid)
    }
}

/// Reasons why a walk does not go on.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// A limit is exceeded.
    Excess,
    /// Something cannot be read.
    Unreadable,
}

impl From<Excess> for Stop {
    fn from(_: Excess) -> Self {
        Self::Excess
    }
}

/// Returns to the parent and checks that it is the directory the walk came
/// from.
fn leave(directory: BorrowedFd<'_>, outer: (u64, u64)) -> Result<OwnedFd, Stop> {
    let parent = openat(directory, c"..", HANDLE, Mode::empty()).map_err(unreadable)?;
    let about = fstat(&parent).map_err(unreadable)?;
    if identity(&about) == outer { Ok(parent) } else { Err(Stop::Unreadable) }
}

/// Adds permissions for the owner, through the descriptor. The name may be a
/// link by now.
fn permit(directory: BorrowedFd<'_>, about: &FileStat) -> Result<(), Stop> {
    let path = cmp_procfs::descriptor_path(&directory);
    let mode = Mode::from_bits_truncate(about.st_mode) | Mode::S_IRWXU;
    fchmodat(AT_FDCWD, path.as_str(), mode, FchmodatFlags::FollowSymlink).map_err(unreadable)
}

fn open_top(path: &Path) -> Result<Option<OwnedFd>, Stop> {
    match open(path, HANDLE, Mode::empty()) {
        Err(Errno::ENOENT) => Ok(None),
        top => top.map(Some).map_err(unreadable),
    }
}

/// Converts a time to that of a file.
fn stamp(time: SystemTime) -> Stamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs().cast_signed(), since.subsec_nanos().into())
}

fn unreadable(_unseen: Errno) -> Stop {
    Stop::Unreadable
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;

    #[test]
    fn a_changed_file_of_an_earlier_request_counts() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let about = nix::sys::stat::stat(file.path()).unwrap();
        let owner = about.st_uid;
        let modified = fs::metadata(file.path()).unwrap().modified().unwrap();
        let counts = |since, current: &[u32]| {
            let earlier = Earlier { since, current: current.iter().copied().collect() };
            let user = Uid::from_raw(owner + 1);
            Only { user, since: stamp(since), earlier: &earlier }.includes(&about)
        };
        assert!(counts(modified, &[owner + 1]));
        assert!(!counts(modified + TICK, &[owner + 1]), "that request may have changed it");
        assert!(!counts(modified, &[owner, owner + 1]), "it counts for its owner");
        let none = Earlier { since: modified, current: BTreeSet::new() };
        let own = |since| Only { user: Uid::from_raw(owner), since, earlier: &none };
        assert!(own(stamp(UNIX_EPOCH)).includes(&about));
        assert!(!own((i64::MAX, 0)).includes(&about), "an earlier request had the same UID");
        let directory = tempfile::tempdir().unwrap();
        let about = nix::sys::stat::stat(directory.path()).unwrap();
        let only = Only { user: Uid::from_raw(owner + 1), since: (0, 0), earlier: &none };
        assert!(!only.includes(&about), "new files change a directory");
    }
}
