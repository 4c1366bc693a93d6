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
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, SystemTime},
};

use nix::{
    dir::{Dir, Type},
    errno::Errno,
    fcntl::AtFlags,
    sys::{
        stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstat, fstatat},
        statvfs::fstatvfs,
    },
    unistd::{Gid, fchownat, geteuid},
};

use super::remove::{self, Pause};
use crate::{
    kernel::entries::{BLOCK, LIST, is_dots, kind},
    wire::shared::SharedCaches,
};

/// A cache that exceeds this size is emptied. Otherwise caches would grow until
/// the volume is full.
const LARGEST: Size = Size { bytes: 4 << 30, entries: 200_000 };

/// A cache may also take at most this part of its volume.
const VOLUME_PART: u64 = 4;

/// Deepest level. Each level needs a descriptor, so a cache with more levels
/// counts as too large.
const MAX_DEPTH: usize = 64;

/// Entries to visit between two pauses.
const STEP: u64 = 256;

/// Permissions that the group needs for a directory. With the set-group-ID bit,
/// new files inside get the group too. The owner needs permissions to work
/// inside.
const DIRECTORY: u32 = 0o2770;
/// Bits that are removed from directories: only owners could remove entries.
const STICKY: u32 = 0o1000;
/// Permissions that the group needs for a file.
const FILE: u32 = 0o060;
/// Bits that are removed from files.
const SET_ID: u32 = 0o6000;
/// If the owner may execute a file, the group may too.
const EXECUTE: u32 = 0o100;

/// Part of the caches to visit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Visit files only in directories that have changed since then.
    pub(crate) since: Option<SystemTime>,
    /// Visit all files and measure the cache.
    pub(crate) measure: bool,
}

/// Gives this UID's files in the caches to their group, and empties caches that
/// are too large. An error only makes the next request slower, unless `pause`
/// returned it.
pub(crate) fn hand_on(
    shared: &SharedCaches,
    extent: Extent,
    pause: &mut Pause<'_>,
) -> Result<(), Errno> {
    for name in &shared.names {
        pause()?;
        let _ = hand_on_one(shared, name, (extent, LARGEST), pause);
    }
    Ok(())
}

/// Gives this UID's files in a tree to the group. Returns false if the tree is
/// too large for a cache. `pause` returns the only error.
pub(super) fn open_tree(
    tree: &OwnedFd,
    group: Option<Gid>,
    pause: &mut Pause<'_>,
) -> Result<bool, Errno> {
    let Ok(top) = Dir::openat(tree, c".", LIST, Mode::empty()) else { return Ok(false) };
    let extent = Extent { since: None, measure: false };
    let mut walk = CacheWalk { group, extent, left: LARGEST, visited: 0, pause };
    match walk.enter(top, 0) {
        Ok(()) => Ok(true),
        Err(Stop::Full) => Ok(false),
        Err(Stop::Paused(error)) => Err(error),
    }
}

fn hand_on_one(
    shared: &SharedCaches,
    name: &str,
    (extent, largest): (Extent, Size),
    pause: &mut Pause<'_>,
) -> io::Result<()> {
    let owner = File::open(&shared.directory)?;
    let cache = Dir::openat(&owner, name, LIST, Mode::empty())?;
    let left = largest.in_volume(cache.as_fd());
    let mut walk = CacheWalk { group: shared.group, extent, left, visited: 0, pause };
    match walk.enter(cache, 0) {
        Ok(()) => Ok(()),
        Err(Stop::Full) => Ok(remove::contents(&owner, name, pause)?),
        Err(Stop::Paused(error)) => Err(error.into()),
    }
}

/// The reason why a walk ends early.
enum Stop {
    /// The cache is too large.
    Full,
    /// The spawner is gone.
    Paused(Errno),
}

/// Size of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    bytes: u64,
    entries: u64,
}

impl Size {
    /// Not more than a part of the volume of this directory.
    fn in_volume(self, directory: BorrowedFd<'_>) -> Self {
        let Ok(volume) = fstatvfs(directory) else { return self };
        let part = |all: u64, unit: u64| match all.saturating_mul(unit) / VOLUME_PART {
            // Some file systems have no limit and report 0.
            0 => u64::MAX,
            part => part,
        };
        let bytes = self.bytes.min(part(volume.blocks(), volume.fragment_size()));
        Self { bytes, entries: self.entries.min(part(volume.files(), 1)) }
    }
}

struct CacheWalk<'p, 'f> {
    group: Option<Gid>,
    extent: Extent,
    /// Size that is still allowed.
    left: Size,
    visited: u64,
    pause: &'p mut Pause<'f>,
}

impl CacheWalk<'_, '_> {
    fn enter(&mut self, mut directory: Dir, depth: usize) -> Result<(), Stop> {
        // Copied, because the iterator borrows the directory.
        let Ok(here) = directory.as_fd().try_clone_to_owned() else { return Ok(()) };
        let is_wanted = self.extent.measure || self.has_changed(here.as_fd());
        for entry in directory.iter() {
            // An unreadable directory counts as ended.
            let Ok(entry) = entry else { return Ok(()) };
            self.rest()?;
            let is_file = entry.file_type().is_some_and(|kind| kind != Type::Directory);
            if !is_dots(entry.file_name()) && (is_wanted || !is_file) {
                self.look(here.as_fd(), entry.file_name(), depth)?;
            }
        }
        Ok(())
    }

    /// Lets others work from time to time.
    fn rest(&mut self) -> Result<(), Stop> {
        self.visited += 1;
        if self.visited.is_multiple_of(STEP) {
            (self.pause)().map_err(Stop::Paused)
        } else {
            Ok(())
        }
    }

    /// Returns true if an entry may have been added to a directory. Nobody can
    /// set the time of the last change of its attributes.
    fn has_changed(&self, directory: BorrowedFd<'_>) -> bool {
        let (Some(since), Ok(about)) = (self.extent.since, fstat(directory)) else { return true };
        time(about.st_ctime, about.st_ctime_nsec) >= since
    }

    fn look(&mut self, parent: BorrowedFd<'_>, name: &CStr, depth: usize) -> Result<(), Stop> {
        let Ok(about) = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW) else { return Ok(()) };
        self.count(&about)?;
        if let Some(group) = self.group.filter(|_| about.st_uid == geteuid().as_raw()) {
            // Programs create a file again if they cannot read it.
            let _ = give(parent, name, &about, group);
        }
        if kind(&about) != SFlag::S_IFDIR {
            return Ok(());
        }
        if depth >= MAX_DEPTH {
            return Err(Stop::Full);
        }
        match Dir::openat(parent, name, LIST, Mode::empty()) {
            Ok(inner) => self.enter(inner, depth + 1),
            Err(_) => Ok(()),
        }
    }

    /// Counts an entry. If the cache is not measured, the result is too small.
    fn count(&mut self, about: &FileStat) -> Result<(), Stop> {
        let Size { bytes, entries } = self.left;
        let taken = BLOCK * u64::try_from(about.st_blocks).unwrap_or_default();
        let (bytes, entries) = (bytes.checked_sub(taken), entries.checked_sub(1));
        self.left = Size { bytes: bytes.ok_or(Stop::Full)?, entries: entries.ok_or(Stop::Full)? };
        Ok(())
    }
}

/// Gives one entry to the group. Links and devices are skipped.
fn give(parent: BorrowedFd<'_>, name: &CStr, about: &FileStat, group: Gid) -> Result<(), Errno> {
    let mode = about.st_mode & 0o7777;
    let wanted = match kind(about) {
        SFlag::S_IFDIR => (mode | DIRECTORY) & !STICKY,
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

/// A time of a file's attributes; those before the epoch count as the epoch.
pub(super) fn time(seconds: i64, nanos: i64) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    SystemTime::UNIX_EPOCH + seconds + Duration::from_nanos(nanos.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
        path::Path,
    };

    use nix::unistd::getegid;
    use tempfile::TempDir;

    use super::*;

    const ALL: Extent = Extent { since: None, measure: true };

    fn hand_on_all(shared: &SharedCaches) {
        hand_on(shared, ALL, &mut || Ok(())).unwrap();
    }

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
        hand_on_all(&shared);
        assert_eq!((mode(&inner), mode(&file)), (0o2770, 0o770));
        assert_eq!(mode(&outside), 0o600, "links are not followed");
    }

    #[test]
    fn a_cache_that_is_too_large_is_emptied() {
        for (bytes, entries, is_kept) in [(1 << 20, 2, true), (1 << 20, 1, false), (1, 9, false)] {
            let (directory, shared) = cache(None);
            let largest = Size { bytes, entries };
            hand_on_one(&shared, "store", (ALL, largest), &mut || Ok(())).unwrap();
            let store = directory.path().join("store");
            assert_eq!(store.join("inner/file").exists(), is_kept, "{bytes} {entries}");
            assert!(store.exists());
        }
    }

    #[test]
    fn closed_directories_are_opened_and_counted() {
        let (directory, shared) = cache(Some(getegid()));
        let store = directory.path().join("store");
        let inner = store.join("inner");
        for path in [&inner, &store] {
            fs::set_permissions(path, Permissions::from_mode(0o1000)).unwrap();
        }
        fs::set_permissions(&store, Permissions::from_mode(0o2770)).unwrap();
        hand_on_all(&shared);
        assert_eq!(mode(&inner), 0o2770);
        assert_eq!(mode(&inner.join("file")), 0o664);
    }

    #[test]
    fn a_cache_that_is_too_deep_is_emptied() {
        let (directory, shared) = cache(None);
        let store = directory.path().join("store");
        fs::create_dir_all(store.join("d/".repeat(MAX_DEPTH))).unwrap();
        hand_on_all(&shared);
        assert!(store.join("d").exists());
        fs::create_dir_all(store.join("d/".repeat(MAX_DEPTH + 2))).unwrap();
        hand_on_all(&shared);
        assert_eq!(fs::read_dir(&store).unwrap().count(), 0);
    }

    #[test]
    fn files_of_unchanged_directories_are_not_visited() {
        let (directory, shared) = cache(Some(getegid()));
        let file = directory.path().join("store/inner/file");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let later = SystemTime::now() + Duration::from_hours(1);
        let extent = Extent { since: Some(later), measure: false };
        hand_on(&shared, extent, &mut || Ok(())).unwrap();
        assert_eq!(mode(&file), 0o600);
        let earlier = SystemTime::now() - Duration::from_hours(1);
        let extent = Extent { since: Some(earlier), measure: false };
        hand_on(&shared, extent, &mut || Ok(())).unwrap();
        assert_eq!(mode(&file), 0o660);
    }

    #[test]
    fn a_cache_may_take_a_part_of_its_volume() {
        let directory = tempfile::tempdir().unwrap();
        let opened = File::open(directory.path()).unwrap();
        let all = Size { bytes: u64::MAX, entries: u64::MAX };
        let part = all.in_volume(opened.as_fd());
        let volume = fstatvfs(&opened).unwrap();
        assert_eq!(part.bytes, volume.blocks() * volume.fragment_size() / VOLUME_PART);
        let small = Size { bytes: 1, entries: 1 };
        assert_eq!(small.in_volume(opened.as_fd()), small);
    }

    #[test]
    fn a_missing_cache_is_ignored() {
        let (directory, shared) = cache(None);
        fs::remove_dir_all(directory.path().join("store")).unwrap();
        hand_on_all(&shared);
    }
}
