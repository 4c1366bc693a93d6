//! Creates the directories that requests of one plugin share.
//!
//! Each owner of caches has its own group from the end of the UID range. Only
//! members can enter, whatever names and modes the files inside have. The group
//! is read from the directory, so caches survive a restart and never get
//! another owner.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use nix::{
    libc,
    unistd::{Gid, geteuid, setfsgid},
};
use thiserror::Error;

use super::{root, uid_pool::UidPool};
use crate::{
    kernel::unwritable::directory_remedy,
    wire::{
        message::Grants,
        shared::{self, SharedCaches, is_file_name},
    },
};

/// Name of the directory of all caches, below the work directory.
pub const CACHES: &str = "_cmp_caches";

/// Everybody may enter, because all owners' directories are inside; nobody may
/// list it.
pub(super) const MODE: u32 = 0o711;

/// Mode of an owner's directory: the group may enter and list it.
const OWNER_MODE: u32 = 0o750;

/// Mode of all directories in tiers without separate UIDs, which have no
/// groups.
const PRIVATE_MODE: u32 = 0o700;

/// Time between two measurements of the caches of an owner. A measurement reads
/// the attributes of every file.
const MEASURE_AGAIN: Duration = Duration::from_secs(10);

/// Reasons why there are no caches.
#[derive(Debug, Error)]
pub(super) enum NoCache {
    #[error("`{0}` cannot be part of a cache's path")]
    Name(String),
    #[error("{path}: {error}: {}", directory_remedy(.error, "--work-dir"))]
    Io { path: PathBuf, error: io::Error },
    #[error(
        "{path} belongs to UID {uid} and GID {gid}, not to this supervisor: remove it, or choose \
         another --work-dir"
    )]
    Foreign { path: PathBuf, uid: u32, gid: u32 },
    #[error("no group is left for {owner}'s caches: choose a longer --uid-range")]
    NoGroup { owner: String },
}

/// The directory of all caches.
#[derive(Debug)]
pub(super) struct CacheRoot {
    pub(super) path: PathBuf,
    /// Last measurements, by directory of the owner.
    measured: BTreeMap<PathBuf, Instant>,
    /// Times at which requests last ended, by directory of the owner.
    left: BTreeMap<PathBuf, SystemTime>,
    /// Groups that were given, by directory of the owner. While a directory cannot be
    /// created, each request of its owner would need another group.
    given: BTreeMap<PathBuf, Gid>,
}

impl CacheRoot {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, measured: BTreeMap::new(), left: BTreeMap::new(), given: BTreeMap::new() }
    }

    /// Returns true if the caches of an owner were not measured lately. They
    /// count as measured then.
    pub(super) fn take_due(&mut self, shared: &SharedCaches, now: Instant) -> bool {
        let last = self.measured.get(&shared.directory);
        let is_due = last.is_none_or(|last| now - *last >= MEASURE_AGAIN);
        if is_due {
            self.measured.insert(shared.directory.clone(), now);
        }
        is_due
    }

    /// A request with these caches has ended.
    pub(super) fn leave(&mut self, shared: &SharedCaches) {
        self.left.insert(shared.directory.clone(), SystemTime::now());
    }

    /// The time at which a request with these caches last ended.
    pub(super) fn left(&self, shared: &SharedCaches) -> Option<SystemTime> {
        self.left.get(&shared.directory).copied()
    }

    /// Creates missing directories of the grants and returns the caches. `uids`
    /// is `None` in tiers without separate UIDs.
    pub(super) fn prepare(
        &mut self,
        grants: &Grants,
        uids: Option<&mut UidPool>,
    ) -> Result<SharedCaches, NoCache> {
        let Grants { owner, caches, .. } = grants;
        if let Some(bad) = caches.iter().chain([owner]).find(|name| !is_file_name(name)) {
            return Err(NoCache::Name(bad.clone()));
        }
        let directory = self.path.join(owner);
        if uids.is_none() {
            // A tenant has the same UID and may have closed them.
            root::open_ways(&directory);
            for name in caches {
                root::open_ways(&directory.join(name));
            }
        }
        self.renew()?;
        let group = uids.map(|uids| self.group(owner, &directory, uids)).transpose()?;
        as_member(group, || {
            let (outer, inner) = match group {
                Some(_) => (OWNER_MODE, shared::MODE),
                None => (PRIVATE_MODE, PRIVATE_MODE),
            };
            make(&directory, outer, group)?;
            caches.iter().try_for_each(|name| make(&directory.join(name), inner, group))
        })?;
        Ok(SharedCaches { group, directory, names: caches.clone() })
    }

    /// Creates the directory again if it was removed.
    fn renew(&self) -> Result<(), NoCache> {
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(&self.path, MODE, None),
            // Another problem shows in the directories of the owner.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The group of an owner's directory. If there is no directory, the group that the
    /// owner was given before, or a free one.
    fn group(&mut self, owner: &str, directory: &Path, uids: &mut UidPool) -> Result<Gid, NoCache> {
        let io = |error| NoCache::Io { path: directory.to_owned(), error };
        match fs::symlink_metadata(directory) {
            Ok(about) => uids.group(about.gid()).ok_or_else(|| NoCache::Foreign {
                path: directory.to_owned(),
                uid: about.uid(),
                gid: about.gid(),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(group) = self.given.get(directory) {
                    return Ok(*group);
                }
                let taken = groups(&self.path).map_err(io)?;
                let none = || NoCache::NoGroup { owner: owner.to_owned() };
                let group = uids.free_group(&taken).ok_or_else(none)?;
                self.given.insert(directory.to_owned(), group);
                Ok(group)
            }
            Err(error) => Err(io(error)),
        }
    }
}

/// The groups of all owners of caches; none if the directory does not exist.
pub(super) fn groups(path: &Path) -> io::Result<BTreeSet<u32>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    entries.map(|entry| Ok(entry?.metadata()?.gid())).collect()
}

/// Runs `act` with a group as the file system GID, so that new files get it.
fn as_member<T>(group: Option<Gid>, act: impl FnOnce() -> T) -> T {
    let before = group.map(setfsgid);
    let result = act();
    if let Some(before) = before {
        setfsgid(before);
    }
    result
}

impl NoCache {
    /// The error of a directory of caches. If access is denied because another isolation
    /// created it, the owner says more.
    fn of(path: &Path, error: io::Error) -> Self {
        let user = geteuid().as_raw();
        let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
        // The directory may be below one that denies access.
        let near = path.ancestors().take(3).find_map(|near| Some((near, fs::metadata(near).ok()?)));
        match near.filter(|(_, about)| is_denied && about.uid() != user) {
            Some((near, about)) => {
                Self::Foreign { path: near.to_owned(), uid: about.uid(), gid: about.gid() }
            }
            None => Self::Io { path: path.to_owned(), error },
        }
    }
}

/// Creates a directory, or restores the mode of an existing one.
fn make(path: &Path, mode: u32, group: Option<Gid>) -> Result<(), NoCache> {
    let io = |error| NoCache::of(path, error);
    match fs::DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io(error)),
        Ok(()) | Err(_) => {}
    }
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let directory = File::options().read(true).custom_flags(flags).open(path).map_err(io)?;
    let about = directory.metadata().map_err(io)?;
    let (uid, gid) = (about.uid(), about.gid());
    if uid != geteuid().as_raw() || group.is_some_and(|group| group.as_raw() != gid) {
        return Err(NoCache::Foreign { path: path.to_owned(), uid, gid });
    }
    if about.mode() & 0o7777 != mode {
        directory.set_permissions(Permissions::from_mode(mode)).map_err(io)?;
        if mode == shared::MODE {
            shared::open_new_files(&directory);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::lacks_root;

    fn grants(owner: &str, caches: &[&str]) -> Grants {
        let caches = caches.iter().map(|name| (*name).to_owned()).collect();
        Grants { owner: owner.to_owned(), caches, ..Grants::default() }
    }

    #[test]
    fn existing_caches_are_kept() {
        let work = tempfile::tempdir().unwrap();
        let mut caches = CacheRoot::new(work.path().to_owned());
        let shared = caches.prepare(&grants("helm", &["one", "two"]), None).unwrap();
        let one = shared.path("one").unwrap();
        fs::write(one.join("file"), "kept").unwrap();
        assert_eq!(caches.prepare(&grants("helm", &["one"]), None).unwrap().names, ["one"]);
        assert_eq!(fs::read(one.join("file")).unwrap(), b"kept");
        assert_eq!(shared.path("three"), None);
    }

    #[test]
    fn an_owner_keeps_its_group_while_its_directory_cannot_be_created() {
        if lacks_root() {
            return;
        }
        let work = tempfile::tempdir().unwrap();
        let mut caches = CacheRoot::new(work.path().join("missing/caches"));
        let mut uids = UidPool::claim(u32::MAX - 1200, 16, 2, BTreeSet::new()).unwrap();
        for _ in 0..20 {
            let refused = caches.prepare(&grants("helm", &["one"]), Some(&mut uids));
            assert!(matches!(refused, Err(NoCache::Io { .. })), "{refused:?}");
        }
        fs::create_dir(work.path().join("missing")).unwrap();
        let helm = caches.prepare(&grants("helm", &["one"]), Some(&mut uids)).unwrap();
        let other = caches.prepare(&grants("other", &["one"]), Some(&mut uids)).unwrap();
        assert!(helm.group.is_some() && helm.group != other.group, "{helm:?} {other:?}");
        uids.leave().unwrap();
    }

    #[test]
    fn a_directory_of_all_caches_that_was_removed_is_created_again() {
        let work = tempfile::tempdir().unwrap();
        let mut caches = CacheRoot::new(work.path().join("caches"));
        let grants = grants("helm", &["one"]);
        for _ in 0..2 {
            let one = caches.prepare(&grants, None).unwrap().path("one").unwrap();
            assert!(one.is_dir());
            assert_eq!(fs::metadata(&caches.path).unwrap().permissions().mode() & 0o7777, MODE);
            fs::remove_dir_all(&caches.path).unwrap();
        }
    }

    #[test]
    fn closed_caches_are_opened_again() {
        let work = tempfile::tempdir().unwrap();
        let mut caches = CacheRoot::new(work.path().join("caches"));
        fs::create_dir(&caches.path).unwrap();
        let grants = grants("helm", &["one"]);
        let one = caches.prepare(&grants, None).unwrap().path("one").unwrap();
        for path in [&one, &caches.path.join("helm"), &caches.path] {
            fs::set_permissions(path, Permissions::from_mode(0o0)).unwrap();
        }
        caches.prepare(&grants, None).unwrap();
        assert_eq!(fs::metadata(one).unwrap().permissions().mode() & 0o7777, PRIVATE_MODE);
    }

    #[test]
    fn a_cache_gets_its_mode_back_and_one_of_another_group_is_refused() {
        let work = tempfile::tempdir().unwrap();
        let path = work.path().join("cache");
        make(&path, OWNER_MODE, None).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        make(&path, OWNER_MODE, None).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, OWNER_MODE);
        let other = Gid::from_raw(fs::metadata(&path).unwrap().gid() + 1);
        let refused = make(&path, OWNER_MODE, Some(other));
        assert!(matches!(refused, Err(NoCache::Foreign { .. })), "{refused:?}");
    }

    #[test]
    fn many_requests_measure_a_cache_once() {
        let shared =
            |owner: &str| SharedCaches { group: None, directory: owner.into(), names: Vec::new() };
        let mut caches = CacheRoot::new(PathBuf::new());
        let now = Instant::now();
        assert!(caches.take_due(&shared("helm"), now));
        assert!((0..70).all(|_| !caches.take_due(&shared("helm"), now)));
        assert!(caches.take_due(&shared("kustomize"), now));
        assert!(caches.take_due(&shared("helm"), now + MEASURE_AGAIN));
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        let work = tempfile::tempdir().unwrap();
        let mut caches = CacheRoot::new(work.path().to_owned());
        for (owner, name) in [("..", "a"), ("a", ".."), ("a/b", "c"), ("a", "/etc")] {
            let refused = caches.prepare(&grants(owner, &[name]), None);
            assert!(matches!(refused, Err(NoCache::Name(_))), "{owner} {name}");
        }
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_in_place_of_a_cache_is_not_followed() {
        let (work, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut caches = CacheRoot::new(work.path().to_owned());
        std::os::unix::fs::symlink(elsewhere.path(), work.path().join("helm")).unwrap();
        assert!(caches.prepare(&grants("helm", &["one"]), None).is_err());
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
}
