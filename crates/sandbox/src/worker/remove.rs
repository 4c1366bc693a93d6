//! Removes a directory's contents, whatever permissions and depth they have.
//!
//! Directories are emptied in place. Moving them elsewhere may fail: a full disk has
//! no room for another name, and a tenant can make directories that cannot leave
//! their parent, such as subvolumes of btrfs.

use std::{
    ffi::{CStr, CString},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use nix::{
    dir::{Dir, Entry, Type},
    errno::Errno,
    fcntl::{openat, renameat},
    sys::stat::{FchmodatFlags, FileStat, Mode, fchmod, fchmodat, fstat},
    unistd::{UnlinkatFlags, unlinkat},
};
use rand::RngExt;

use crate::kernel::entries::{LIST, identity, is_dots};

/// Most entries to list before they are removed. It bounds memory for
/// directories with many files.
const BATCH: usize = 4096;

/// Names of directories to hold before fewer entries are listed at a time.
const MANY: usize = 4 * BATCH;

/// Entries to list at a time while many names are held.
const FEW: usize = 512;

/// Most times that a removal goes on at the top because its way back was lost. In a
/// cache, another request may move directories meanwhile.
const RESTARTS: u32 = 16;

/// Levels after which directories are moved to the top if possible. The kernel keeps
/// all directories above an open one in memory, and Landlock searches them for rules.
const DEEP: usize = 64;

/// Called between two steps, so that a removal can wait for others. Its only error
/// is [`STOPPED`], which ends the removal.
pub(crate) type Pause<'p> = dyn FnMut() -> Result<(), Errno> + 'p;

/// The error of a [`Pause`]: the spawner is gone.
pub(crate) const STOPPED: Errno = Errno::EPIPE;

/// Removes everything in `name`, a directory in `root`. A missing directory is
/// no error. If something cannot be removed, everything else is, and the first
/// error is returned.
///
/// Depth needs neither stack nor descriptors: two directories are open, and the way
/// back leads through `..`.
pub(crate) fn contents(root: impl AsFd, name: &str, pause: &mut Pause<'_>) -> Result<(), Errno> {
    let name = CString::new(name).map_err(|_nul| Errno::EINVAL)?;
    let (top, about) = match open(root.as_fd(), &name) {
        Err(Errno::ENOENT) => return Ok(()),
        opened => opened?,
    };
    let removal = Removal {
        here: openat(&top, c".", LIST, Mode::empty())?,
        top,
        levels: vec![Level::new(name, &about)],
        held: 0,
        fresh: FreshNames::new(),
        restarts: 0,
        failed: None,
    };
    removal.go(pause)
}

/// A walk that removes what it meets.
struct Removal {
    top: OwnedFd,
    /// The directory of the last level.
    here: OwnedFd,
    /// The directories from the top to this one: [`DEEP`] at most while moves succeed, and
    /// otherwise no more than the files that a request may have.
    levels: Vec<Level>,
    /// Number of names in all levels.
    held: usize,
    fresh: FreshNames,
    /// Times that the way back was lost.
    restarts: u32,
    /// The first error.
    failed: Option<Errno>,
}

/// A directory that is being emptied.
struct Level {
    name: CString,
    identity: (u64, u64),
    /// Its directories to enter.
    inner: Vec<CString>,
    /// Nothing is left to be listed.
    is_whole: bool,
    /// An entry was removed since it was listed last.
    has_shrunk: bool,
}

impl Removal {
    fn go(mut self, pause: &mut Pause<'_>) -> Result<(), Errno> {
        while let Some(level) = self.levels.last_mut() {
            if let Some(name) = level.inner.pop() {
                self.held -= 1;
                if let Err(error) = self.enter(name) {
                    self.failed.get_or_insert(error);
                }
            } else if level.is_whole || !level.has_shrunk {
                if let Err(error) = self.leave() {
                    self.failed.get_or_insert(error);
                    self.restart()?;
                }
            } else {
                pause()?;
                self.list();
            }
        }
        self.failed.map_or(Ok(()), Err)
    }

    /// Removes the entries of this directory, or a batch of them, except directories
    /// that are not empty.
    fn list(&mut self) {
        let Some(level) = self.levels.last_mut() else { return };
        let most = if self.held < MANY { BATCH } else { FEW };
        let entries = list(self.here.as_fd(), most).unwrap_or_else(|error| {
            self.failed.get_or_insert(error);
            Vec::new()
        });
        level.is_whole = entries.len() < most;
        level.has_shrunk = false;
        for entry in &entries {
            match remove(self.here.as_fd(), entry) {
                Ok(true) => level.has_shrunk = true,
                Ok(false) => level.inner.push(entry.file_name().to_owned()),
                Err(error) => drop(self.failed.get_or_insert(error)),
            }
        }
        self.held += level.inner.len();
    }

    /// Goes down to a directory, or moves it to the top.
    fn enter(&mut self, name: CString) -> Result<(), Errno> {
        let (directory, about) = match open(self.here.as_fd(), &name) {
            Err(Errno::ENOENT) => {
                self.shrunk();
                return Ok(());
            }
            opened => opened?,
        };
        if self.levels.len().is_multiple_of(DEEP) {
            let moved = renameat(&self.here, name.as_c_str(), &self.top, &*self.fresh.next());
            if moved.is_ok() {
                self.shrunk();
                self.top_again();
                return Ok(());
            }
        }
        self.levels.push(Level::new(name, &about));
        self.here = directory;
        Ok(())
    }

    /// Goes up and removes the directory that was left. In a cache, another request may
    /// have moved it meanwhile.
    fn leave(&mut self) -> Result<(), Errno> {
        let (Some(left), Some(level)) = (self.levels.pop(), self.levels.last()) else {
            return Ok(());
        };
        let parent = openat(&self.here, c"..", LIST, Mode::empty())?;
        if identity(&fstat(&parent)?) != level.identity {
            return Err(Errno::ESTALE);
        }
        self.here = parent;
        match unlinkat(&self.here, &*left.name, UnlinkatFlags::RemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => self.shrunk(),
            Err(error) => drop(self.failed.get_or_insert(error)),
        }
        Ok(())
    }

    /// Notes that an entry of this directory is gone.
    fn shrunk(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.has_shrunk = true;
        }
    }

    /// Goes on at the top, because the way back is lost. Returns the first error when
    /// that has happened [`RESTARTS`] times.
    fn restart(&mut self) -> Result<(), Errno> {
        self.restarts += 1;
        if self.restarts > RESTARTS {
            return self.failed.map_or(Ok(()), Err);
        }
        self.here = openat(&self.top, c".", LIST, Mode::empty())?;
        self.levels.truncate(1);
        self.held = self.levels.first().map_or(0, |top| top.inner.len());
        self.top_again();
        Ok(())
    }

    /// Has the top listed once more.
    fn top_again(&mut self) {
        if let Some(top) = self.levels.first_mut() {
            (top.is_whole, top.has_shrunk) = (false, true);
        }
    }
}

impl Level {
    fn new(name: CString, about: &FileStat) -> Self {
        let (inner, is_whole, has_shrunk) = (Vec::new(), false, true);
        Self { name, identity: identity(about), inner, is_whole, has_shrunk }
    }
}

/// Removes an entry. Returns false if it is a directory to enter first. A mount point
/// is busy instead.
fn remove(directory: BorrowedFd<'_>, entry: &Entry) -> Result<bool, Errno> {
    let name = entry.file_name();
    if entry.file_type() != Some(Type::Directory) {
        match unlinkat(directory, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => return Ok(true),
            // Some file systems do not report the type of an entry.
            Err(Errno::EISDIR | Errno::EPERM) if entry.file_type().is_none() => {}
            Err(error) => return Err(error),
        }
    }
    match unlinkat(directory, name, UnlinkatFlags::RemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(true),
        // Its entries may be removable even if it is not.
        Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::EACCES | Errno::EPERM) => Ok(false),
        Err(error) => Err(error),
    }
}

fn list(directory: BorrowedFd<'_>, most: usize) -> Result<Vec<Entry>, Errno> {
    let mut listing = Dir::openat(directory, c".", LIST, Mode::empty())?;
    let real = |entry: &Result<Entry, Errno>| {
        entry.as_ref().map_or(true, |entry| !is_dots(entry.file_name()))
    };
    listing.iter().filter(real).take(most).collect()
}

/// Opens a directory for emptying, after adding permissions if necessary.
fn open(parent: BorrowedFd<'_>, name: &CStr) -> Result<(OwnedFd, FileStat), Errno> {
    let open = || openat(parent, name, LIST, Mode::empty());
    let directory = match open() {
        Err(Errno::EACCES) => {
            permit(parent, name)?;
            open()?
        }
        opened => opened?,
    };
    let about = fstat(&directory)?;
    if !Mode::from_bits_truncate(about.st_mode).contains(Mode::S_IRWXU) {
        fchmod(&directory, Mode::S_IRWXU)?;
    }
    Ok((directory, about))
}

/// In a cache, another request may replace the directory by a link meanwhile.
fn permit(parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    fchmodat(parent, name, Mode::S_IRWXU, FchmodatFlags::NoFollowSymlink)
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
mod tests;
