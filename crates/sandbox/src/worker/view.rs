//! A request's private view of a cache.
//!
//! Programs set modes explicitly, and some write files in place. In a shared
//! directory, a request could not write to a directory that another one has just
//! created with mode 0755, and would read files that are half written. Each
//! request therefore works in directories of its own, with copies of small files
//! of the cache and hard links to large ones. New files move into the cache when
//! the request has ended.
//!
//! Everything here runs as the request's UID, so it can change only what the
//! request's processes could have changed themselves.

mod size;

use std::{
    ffi::{CStr, CString},
    fs::{File, Permissions},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    path::Path,
    time::{Duration, SystemTime},
};

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, OFlag, open, openat, readlinkat, renameat},
    sys::{
        stat::{
            FchmodatFlags, FileStat, Mode, SFlag, UtimensatFlags, fchmod, fchmodat, fstat, fstatat,
            mkdirat, utimensat,
        },
        time::TimeSpec,
    },
    unistd::{Gid, UnlinkatFlags, fchown, geteuid, linkat, symlinkat, unlinkat},
};
use rustix::fs::{StatxFlags, statx};

use self::size::{Size, Space};
use super::{
    MADE, Tenant, VIEWS, WorkerContext,
    remove::{self, Pause},
    share,
};
use crate::{
    kernel::{
        entries::{HANDLE, LIST, is_dots, kind},
        full::is_full,
    },
    wire::shared::{self, SharedCaches},
};

/// Deepest level. Each level needs descriptors.
const MAX_DEPTH: usize = 64;

/// The kernel's time of a change is the one of its last tick.
const TICK: Duration = Duration::from_millis(10);

/// Flags to read a file. Another request may have replaced it by a FIFO.
const READ: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_NOFOLLOW).union(OFlag::O_NONBLOCK).union(OFlag::O_CLOEXEC);

/// The directories that views are made of. In the root of a request, caches and workspaces
/// are on different mounts, which hard links cannot cross, so they are opened
/// before.
#[derive(Debug)]
pub(super) struct ViewSources {
    group: Option<Gid>,
    /// Caches that are larger have no views.
    largest: Size,
    /// Directory of all workspaces.
    root: OwnedFd,
    /// The caches, by name.
    caches: Vec<(String, OwnedFd)>,
}

impl ViewSources {
    /// Opens the caches of a tenant, if it has some.
    pub(super) fn open(context: &WorkerContext<'_>, tenant: &Tenant) -> Option<Self> {
        let shared = tenant.shared.as_ref()?;
        let cache = |name: &String| {
            let opened = open(&shared.directory.join(name), HANDLE, Mode::empty());
            Some((name.clone(), opened.ok()?))
        };
        let caches = shared.names.iter().filter_map(cache).collect();
        // An init has copies of the spawner's mounts.
        let root = open(context.root_path, HANDLE, Mode::empty()).ok()?;
        Some(Self { group: shared.group, largest: Size::within(tenant.limits), root, caches })
    }

    /// Makes the views in a workspace, unless an earlier worker did. The request
    /// uses a cache directly if its view cannot be made, for example because it is
    /// too large.
    pub(super) fn make(&self, workspace: &Path) -> Result<(), Errno> {
        let workspace = workspace.file_name().ok_or(Errno::EINVAL)?;
        let workspace = openat(&self.root, workspace, HANDLE, Mode::empty())?;
        match mkdirat(&workspace, VIEWS, Mode::S_IRWXU) {
            Err(Errno::EEXIST) => return Ok(()),
            made => made?,
        }
        let views = openat(&workspace, VIEWS, LIST, Mode::empty())?;
        for (name, cache) in &self.caches {
            let mut left = self.largest;
            // Files cannot be moved between file systems.
            let is_near = fstat(cache)?.st_dev == fstat(&views)?.st_dev;
            if !is_near || left.count(cache.as_fd(), MAX_DEPTH).is_err() {
                continue;
            }
            let made = make_top(&views, name, self.group).and_then(|view| {
                let space = Space::of(views.as_fd());
                let mut left = Left { size: self.largest, space };
                left.fill(view.as_fd(), cache.as_fd(), MAX_DEPTH)
            });
            if made.is_err() {
                remove::contents(&views, name, &mut || Ok(()))?;
                unlinkat(&views, name.as_str(), UnlinkatFlags::RemoveDir)?;
            }
        }
        let create = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        openat(&workspace, MADE, create, Mode::S_IRUSR).map(drop)
    }
}

/// Size that a view may still have. The cache can grow while the view is made.
struct Left<'v> {
    size: Size,
    space: Space<'v>,
}

/// Creates the top directory of a view, with the same properties as a cache.
fn make_top(views: &OwnedFd, name: &str, group: Option<Gid>) -> Result<OwnedFd, Errno> {
    mkdirat(views, name, Mode::S_IRWXU)?;
    let view = openat(views, name, LIST, Mode::empty())?;
    if group.is_some() {
        fchown(&view, None, group)?;
        fchmod(&view, Mode::from_bits_truncate(shared::MODE))?;
        shared::open_new_files(&view);
    }
    Ok(view)
}

impl Left<'_> {
    /// Adds the entries of a directory of the cache. Those that are gone meanwhile are
    /// left out.
    fn fill(
        &mut self,
        view: BorrowedFd<'_>,
        cache: BorrowedFd<'_>,
        depth: usize,
    ) -> Result<(), Errno> {
        let depth = depth.checked_sub(1).ok_or(Errno::E2BIG)?;
        let filled = each(cache, &mut |entry| {
            self.size.take(entry.about)?;
            match kind(entry.about) {
                SFlag::S_IFDIR => {
                    if let Ok(inner) = entry.open(LIST) {
                        mkdirat(view, entry.name, Mode::S_IRWXU | Mode::S_IRWXG)?;
                        let made = openat(view, entry.name, LIST, Mode::empty())?;
                        self.fill(made.as_fd(), inner.as_fd(), depth)?;
                    }
                    Ok(())
                }
                SFlag::S_IFREG => self.add_file(view, entry),
                SFlag::S_IFLNK => {
                    let _ = readlinkat(cache, entry.name)
                        .and_then(|target| symlinkat(&*target, view, entry.name))
                        .and_then(|()| keep_time(view, entry));
                    Ok(())
                }
                _ => Ok(()),
            }
        });
        match filled {
            // The directory cannot be listed, or is gone.
            Err(Errno::EACCES | Errno::ENOENT) => Ok(()),
            filled => filled,
        }
    }

    /// A view without a file that the cache has would be half of it, which is worse
    /// than none.
    fn add_file(&mut self, view: BorrowedFd<'_>, entry: Entry<'_>) -> Result<(), Errno> {
        let Entry { parent, name, about } = entry;
        if self.space.copies(about) {
            match copy(view, entry) {
                Ok(()) => return Ok(()),
                Err(error) if is_full(&error) => self.space.end(),
                Err(_unreadable) => {}
            }
            let _ = unlinkat(view, name, UnlinkatFlags::NoRemoveDir);
        }
        match linkat(parent, name, view, name, AtFlags::empty()) {
            Err(Errno::ENOENT) => Ok(()),
            linked => linked,
        }
    }
}

fn copy(view: BorrowedFd<'_>, entry: Entry<'_>) -> io::Result<()> {
    let mut from = File::from(entry.open(READ)?);
    let create = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    let mut into = File::from(openat(view, entry.name, create, Mode::S_IRWXU)?);
    io::copy(&mut io::Read::take(&mut from, entry.about.st_size.unsigned_abs()), &mut into)?;
    into.set_permissions(Permissions::from_mode(entry.about.st_mode & 0o777))?;
    Ok(keep_time(view, entry)?)
}

/// Tells copies from files that the request has changed. A time in the future, as after
/// the clock was set back, would count as a change.
fn keep_time(view: BorrowedFd<'_>, Entry { name, about, .. }: Entry<'_>) -> Result<(), Errno> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let latest = TimeSpec::from(now.saturating_sub(TICK));
    let modified = TimeSpec::new(about.st_mtime, about.st_mtime_nsec).min(latest);
    utimensat(view, name, &modified, &modified, UtimensatFlags::NoFollowSymlink)
}

/// Moves files of the views in `workspace`, a directory in `root`, that the request
/// made or changed into the caches. Its only error is that of `pause`: others only
/// make the next request slower.
pub(crate) fn merge(
    shared: &SharedCaches,
    root: &OwnedFd,
    workspace: &str,
    pause: &mut Pause<'_>,
) -> Result<(), Errno> {
    let open = |name| openat(root, &Path::new(workspace).join(name), HANDLE, Mode::empty());
    let (Ok(workspace), Ok(views)) = (open(""), open(VIEWS)) else { return Ok(()) };
    // The request can only make this time later, and then loses its own files.
    let Some(made) = born(workspace.as_fd(), &CString::new(MADE).unwrap_or_default()) else {
        return Ok(());
    };
    let mut merge = Merge { made, pause };
    for name in &shared.names {
        let view = openat(&views, name.as_str(), LIST, Mode::empty());
        let cache = openat(AT_FDCWD, &shared.directory.join(name), LIST, Mode::empty());
        if let (Ok(view), Ok(cache)) = (view, cache)
            && share::open_tree(&view, shared.group, merge.pause)?
        {
            merge.add(cache.as_fd(), view.as_fd())?;
        }
    }
    Ok(())
}

struct Merge<'p, 'f> {
    /// The time at which the views were complete.
    made: SystemTime,
    pause: &'p mut Pause<'f>,
}

impl Merge<'_, '_> {
    /// Moves the entries of one directory. Their modes were opened before, so that
    /// nobody meets a closed one in the cache. Entries that cannot be moved are
    /// lost.
    fn add(&mut self, cache: BorrowedFd<'_>, view: BorrowedFd<'_>) -> Result<(), Errno> {
        let added = each(view, &mut |entry| {
            (self.pause)()?;
            if entry.about.st_uid != geteuid().as_raw() {
                return Ok(());
            }
            match kind(entry.about) {
                SFlag::S_IFDIR => self.add_directory(cache, entry),
                SFlag::S_IFREG | SFlag::S_IFLNK if self.is_news(cache, entry) => {
                    let _ = renameat(view, entry.name, cache, entry.name);
                    Ok(())
                }
                _ => Ok(()),
            }
        });
        if added == Err(remove::STOPPED) { added } else { Ok(()) }
    }

    fn add_directory(&mut self, cache: BorrowedFd<'_>, entry: Entry<'_>) -> Result<(), Errno> {
        let Entry { parent, name, about } = entry;
        // Its owner needs the right to write to move it, and to move its entries.
        let mode = Mode::from_bits_truncate(about.st_mode & 0o7777);
        if !mode.contains(Mode::S_IRWXU) {
            let _ = fchmodat(parent, name, mode | Mode::S_IRWXU, FchmodatFlags::NoFollowSymlink);
        }
        // Fails if the cache has this directory and it is not empty.
        if renameat(parent, name, cache, name).is_ok() {
            return Ok(());
        }
        match (openat(cache, name, LIST, Mode::empty()), entry.open(LIST)) {
            (Ok(cache), Ok(view)) => self.add(cache.as_fd(), view.as_fd()),
            _ => Ok(()),
        }
    }

    /// Returns false for a file that came from the cache and is unchanged: another
    /// request may have replaced it there meanwhile. A new file may have an old time
    /// of modification, as `tar` and `curl -R` set it, and an old one a time in the future.
    fn is_news(&self, cache: BorrowedFd<'_>, entry: Entry<'_>) -> bool {
        let Entry { parent, name, about } = entry;
        let modified = share::time(about.st_mtime, about.st_mtime_nsec);
        (self.made..=SystemTime::now()).contains(&modified)
            || born(parent, name).is_some_and(|born| born > self.made)
            || fstatat(cache, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_err()
    }
}

/// The time at which a file was created, which nobody can set. On file systems
/// without it, the time at which its properties changed last.
fn born(directory: BorrowedFd<'_>, name: &CStr) -> Option<SystemTime> {
    let wanted = StatxFlags::BTIME | StatxFlags::CTIME;
    let about = statx(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW, wanted).ok()?;
    let has_birth = StatxFlags::from_bits_retain(about.stx_mask).contains(StatxFlags::BTIME);
    let time = if has_birth { about.stx_btime } else { about.stx_ctime };
    Some(share::time(time.tv_sec, time.tv_nsec.into()))
}

/// An entry of a directory.
#[derive(Clone, Copy)]
struct Entry<'e> {
    parent: BorrowedFd<'e>,
    name: &'e CStr,
    about: &'e FileStat,
}

impl Entry<'_> {
    fn open(&self, flags: OFlag) -> Result<OwnedFd, Errno> {
        openat(self.parent, self.name, flags, Mode::empty())
    }
}

/// Calls `act` for each entry of a directory.
fn each(
    parent: BorrowedFd<'_>,
    act: &mut dyn FnMut(Entry<'_>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut listing = Dir::openat(parent, c".", LIST, Mode::empty())?;
    for entry in listing.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if is_dots(name) {
            continue;
        }
        if let Ok(about) = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            act(Entry { parent, name, about: &about })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
