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

use std::{
    ffi::CStr,
    fs::{File, Permissions},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    path::Path,
    time::SystemTime,
};

use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, OFlag, open, openat, readlinkat, renameat},
    sys::{
        stat::{FileStat, Mode, SFlag, UtimensatFlags, fchmod, fstatat, mkdirat, utimensat},
        time::TimeSpec,
    },
    unistd::{Gid, UnlinkatFlags, fchown, geteuid, linkat, symlinkat, unlinkat},
};

use super::{
    Tenant, VIEWS, WorkerContext,
    remove::{self, Pause},
    share,
};
use crate::wire::{
    message::RequestLimits,
    shared::{self, SharedCaches},
};

/// Most entries of a cache with views. A view costs time for each entry.
const MAX_ENTRIES: u64 = 10_000;

/// A cache with views may also have at most this part of a request's limits of
/// disk and files, because its view counts.
const LIMIT_PART: u64 = 8;

/// Most bytes of a cache to copy. Further files become hard links.
const MAX_COPIED: u64 = 32 << 20;

/// Deepest level. Each level needs descriptors.
const MAX_DEPTH: usize = 64;

const HANDLE: OFlag =
    OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

const LIST: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Flags to read a file. Another request may have replaced it by a FIFO.
const READ: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_NOFOLLOW).union(OFlag::O_NONBLOCK).union(OFlag::O_CLOEXEC);

/// The directories that views are made of. In namespaces, caches and workspaces
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
        let root = context.root.try_clone_to_owned().ok()?;
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
            if left.count(cache.as_fd(), MAX_DEPTH).is_err() {
                continue;
            }
            let made = make_top(&views, name, self.group).and_then(|view| {
                let mut left = MAX_COPIED;
                fill(view.as_fd(), cache.as_fd(), &mut left)
            });
            if made.is_err() {
                remove::contents(&views, name, &mut || Ok(()))?;
                unlinkat(&views, name.as_str(), UnlinkatFlags::RemoveDir)?;
            }
        }
        Ok(())
    }
}

/// Size that a cache may still have.
#[derive(Clone, Copy, Debug)]
struct Size {
    entries: u64,
    bytes: u64,
}

impl Size {
    fn within(limits: RequestLimits) -> Self {
        let part = |limit: Option<u64>| limit.map_or(u64::MAX, |limit| limit / LIMIT_PART);
        Self { entries: MAX_ENTRIES.min(part(limits.files)), bytes: part(limits.disk) }
    }

    /// Fails if a directory is larger or deeper. Counting is cheaper than a view
    /// that is removed again.
    fn count(&mut self, cache: BorrowedFd<'_>, depth: usize) -> Result<(), Errno> {
        let depth = depth.checked_sub(1).ok_or(Errno::E2BIG)?;
        each(cache, &mut |name, about| {
            let bytes = u64::try_from(about.st_size).unwrap_or_default();
            let left = self.entries.checked_sub(1).zip(self.bytes.checked_sub(bytes));
            (self.entries, self.bytes) = left.ok_or(Errno::E2BIG)?;
            let inner = (share::kind(about) == SFlag::S_IFDIR)
                .then(|| openat(cache, name, LIST, Mode::empty()).ok());
            inner.flatten().map_or(Ok(()), |inner| self.count(inner.as_fd(), depth))
        })
    }
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

/// Adds the entries of a directory of the cache. The request creates those again
/// that cannot be added.
fn fill(view: BorrowedFd<'_>, cache: BorrowedFd<'_>, left: &mut u64) -> Result<(), Errno> {
    each(cache, &mut |name, about| {
        match share::kind(about) {
            SFlag::S_IFDIR => {
                if let Ok(inner) = openat(cache, name, LIST, Mode::empty()) {
                    mkdirat(view, name, Mode::S_IRWXU | Mode::S_IRWXG)?;
                    let made = openat(view, name, LIST, Mode::empty())?;
                    fill(made.as_fd(), inner.as_fd(), left)?;
                }
            }
            SFlag::S_IFREG => add_file(view, cache, (name, about), left),
            SFlag::S_IFLNK => {
                let _ = readlinkat(cache, name)
                    .and_then(|target| symlinkat(&*target, view, name))
                    .and_then(|()| keep_time(view, name, about));
            }
            _ => {}
        }
        Ok(())
    })
}

fn add_file(
    view: BorrowedFd<'_>,
    cache: BorrowedFd<'_>,
    (name, about): (&CStr, &FileStat),
    left: &mut u64,
) {
    let size = u64::try_from(about.st_size).unwrap_or(u64::MAX);
    let copied = left.checked_sub(size).filter(|_| {
        let copied = copy(view, cache, (name, about));
        if copied.is_err() {
            let _ = unlinkat(view, name, UnlinkatFlags::NoRemoveDir);
        }
        copied.is_ok()
    });
    match copied {
        Some(rest) => *left = rest,
        None => drop(linkat(cache, name, view, name, AtFlags::empty())),
    }
}

fn copy(
    view: BorrowedFd<'_>,
    cache: BorrowedFd<'_>,
    (name, about): (&CStr, &FileStat),
) -> io::Result<()> {
    let mut from = File::from(openat(cache, name, READ, Mode::empty())?);
    let create = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    let mut into = File::from(openat(view, name, create, Mode::S_IRWXU)?);
    io::copy(&mut io::Read::take(&mut from, about.st_size.unsigned_abs()), &mut into)?;
    into.set_permissions(Permissions::from_mode(about.st_mode & 0o777))?;
    Ok(keep_time(view, name, about)?)
}

/// Tells copies from files that the request has changed.
fn keep_time(view: BorrowedFd<'_>, name: &CStr, about: &FileStat) -> Result<(), Errno> {
    let modified = TimeSpec::new(about.st_mtime, about.st_mtime_nsec);
    utimensat(view, name, &modified, &modified, UtimensatFlags::NoFollowSymlink)
}

/// Moves files of the views in `workspace`, a directory in `root`, that were
/// changed at or after `since` into the caches. An error only makes the next
/// request slower, unless `pause` returned it.
pub(crate) fn merge(
    shared: &SharedCaches,
    (root, workspace): (&OwnedFd, &str),
    since: Option<SystemTime>,
    pause: &mut Pause<'_>,
) -> Result<(), Errno> {
    let path = Path::new(workspace).join(VIEWS);
    let Ok(views) = openat(root, &path, HANDLE, Mode::empty()) else { return Ok(()) };
    let mut merge = Merge { since, pause };
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
    since: Option<SystemTime>,
    pause: &'p mut Pause<'f>,
}

impl Merge<'_, '_> {
    /// Moves the entries of one directory. Their modes were opened before, so that
    /// nobody meets a closed one in the cache. Entries that cannot be moved are
    /// lost.
    fn add(&mut self, cache: BorrowedFd<'_>, view: BorrowedFd<'_>) -> Result<(), Errno> {
        each(view, &mut |name, about| {
            (self.pause)()?;
            if about.st_uid != geteuid().as_raw() {
                return Ok(());
            }
            match share::kind(about) {
                // Fails if the cache has this directory and it is not empty.
                SFlag::S_IFDIR if renameat(view, name, cache, name).is_err() => {
                    let inner = |outer| openat(outer, name, LIST, Mode::empty());
                    if let (Ok(cache), Ok(view)) = (inner(cache), inner(view)) {
                        self.add(cache.as_fd(), view.as_fd())?;
                    }
                }
                SFlag::S_IFREG | SFlag::S_IFLNK if self.is_news(cache, name, about) => {
                    let _ = renameat(view, name, cache, name);
                }
                _ => {}
            }
            Ok(())
        })
    }

    /// Returns false for a file that came from the cache. Another request may have
    /// replaced it meanwhile.
    fn is_news(&self, cache: BorrowedFd<'_>, name: &CStr, about: &FileStat) -> bool {
        let is_old = self
            .since
            .is_some_and(|since| share::time(about.st_mtime, about.st_mtime_nsec) < since);
        !is_old || fstatat(cache, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_err()
    }
}

/// Calls `act` for each entry of a directory.
fn each(
    directory: BorrowedFd<'_>,
    act: &mut dyn FnMut(&CStr, &FileStat) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut listing = Dir::openat(directory, c".", LIST, Mode::empty())?;
    for entry in listing.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if let Ok(about) = fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            act(name, &about)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
