//! Makes and merges views in a temporary directory.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink},
    path::PathBuf,
    thread,
    time::Duration,
};

use nix::unistd::getegid;
use tempfile::TempDir;

use super::{
    size::{MAX_COPIED, MAX_ENTRIES},
    *,
};
use crate::wire::message::RequestLimits;

/// A cache with the file `d/old`, and an empty workspace.
struct Place {
    directory: TempDir,
    shared: SharedCaches,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        fs::create_dir_all(path.join("helm/d")).unwrap();
        fs::write(path.join("helm/d/old"), "old").unwrap();
        fs::create_dir(path.join("w")).unwrap();
        let names = vec!["helm".to_owned()];
        let shared = SharedCaches { group: Some(getegid()), directory: path, names };
        Self { directory, shared }
    }

    fn cache(&self, name: &str) -> PathBuf {
        self.directory.path().join("helm").join(name)
    }

    fn view(&self, name: &str) -> PathBuf {
        self.directory.path().join("w").join(VIEWS).join("helm").join(name)
    }

    fn root(&self) -> OwnedFd {
        File::open(self.directory.path()).unwrap().into()
    }

    fn make(&self) {
        self.make_within(RequestLimits::default());
    }

    fn make_within(&self, limits: RequestLimits) {
        let cache = open(&self.cache(""), HANDLE, Mode::empty()).unwrap();
        let caches = vec![("helm".to_owned(), cache)];
        let sources = ViewSources {
            group: Some(getegid()),
            largest: Size::within(limits),
            root: self.root(),
            caches,
        };
        sources.make(Path::new("/anywhere/w")).unwrap();
    }

    fn merge(&self) {
        merge(&self.shared, &self.root(), "w", &mut || Ok(())).unwrap();
    }
}

/// Sets the time of an old file's last change.
fn age(path: &Path) {
    set_time(path, SystemTime::UNIX_EPOCH + Duration::from_hours(1));
}

fn set_time(path: &Path, time: SystemTime) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

#[test]
fn a_view_has_the_files_of_the_cache_and_new_ones_move_into_it() {
    let place = Place::new();
    symlink("old", place.cache("d/link")).unwrap();
    place.make();
    assert_eq!(fs::read(place.view("d/link")).unwrap(), b"old");
    fs::write(place.view("d/new"), "new").unwrap();
    fs::create_dir_all(place.view("e/f")).unwrap();
    fs::write(place.view("e/f/deep"), "deep").unwrap();
    for path in ["e/f/deep", "e/f", "e"] {
        fs::set_permissions(place.view(path), Permissions::from_mode(0o4700)).unwrap();
    }
    assert!(!place.cache("d/new").exists() && !place.cache("e").exists());
    place.merge();
    assert_eq!(fs::read(place.cache("d/new")).unwrap(), b"new");
    assert_eq!(fs::read(place.cache("d/old")).unwrap(), b"old");
    let mode = |path| fs::metadata(place.cache(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode("e") & 0o777, mode("e/f/deep")), (0o770, 0o770), "not set-user-ID");
}

#[test]
fn changes_reach_the_cache_whole_and_old_copies_do_not() {
    let place = Place::new();
    fs::write(place.cache("d/other"), "old").unwrap();
    age(&place.cache("d/old"));
    age(&place.cache("d/other"));
    fs::write(place.cache("d/recent"), "old").unwrap();
    fs::write(place.cache("d/future"), "old").unwrap();
    set_time(&place.cache("d/future"), SystemTime::now() + Duration::from_hours(1));
    place.make();
    fs::write(place.view("d/old"), "changed").unwrap();
    assert_eq!(fs::read(place.cache("d/old")).unwrap(), b"old", "until the end");
    for name in ["d/other", "d/recent", "d/future"] {
        fs::write(place.cache(name), "newer").unwrap();
    }
    place.merge();
    assert_eq!(fs::read(place.cache("d/old")).unwrap(), b"changed");
    for name in ["d/other", "d/recent", "d/future"] {
        assert_eq!(fs::read(place.cache(name)).unwrap(), b"newer", "{name}");
    }
}

#[test]
fn a_new_file_with_an_old_time_reaches_the_cache() {
    let place = Place::new();
    place.make();
    // Longer than the clock of the file system ticks.
    thread::sleep(Duration::from_millis(50));
    fs::write(place.view("d/fetched"), "changed").unwrap();
    age(&place.view("d/fetched"));
    fs::rename(place.view("d/fetched"), place.view("d/old")).unwrap();
    place.merge();
    assert_eq!(fs::read(place.cache("d/old")).unwrap(), b"changed");
}

#[test]
fn large_files_are_links() {
    let place = Place::new();
    File::create(place.cache("large")).unwrap().set_len(MAX_COPIED + 1).unwrap();
    place.make();
    let inode = |path: PathBuf| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(place.view("large")), inode(place.cache("large")));
    assert_ne!(inode(place.view("d/old")), inode(place.cache("d/old")));
}

#[test]
fn a_planted_entry_neither_replaces_a_directory_nor_leads_out_of_the_cache() {
    let place = Place::new();
    let outside = place.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    place.make();
    fs::remove_dir_all(place.view("d")).unwrap();
    symlink(&outside, place.view("d")).unwrap();
    nix::unistd::mkfifo(&place.view("fifo"), Mode::S_IRWXU).unwrap();
    fs::create_dir(place.view("through")).unwrap();
    fs::write(place.view("through/planted"), "x").unwrap();
    symlink(&outside, place.cache("through")).unwrap();
    place.merge();
    assert!(fs::symlink_metadata(place.cache("d")).unwrap().is_dir());
    assert_eq!(fs::read(place.cache("d/old")).unwrap(), b"old");
    assert!(!place.cache("fifo").exists());
    assert!(fs::symlink_metadata(place.view("fifo")).unwrap().file_type().is_fifo());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn a_cache_that_is_too_large_is_used_directly() {
    let none = RequestLimits::default;
    for (limits, has_view) in [
        (RequestLimits { files: Some(16), ..none() }, true),
        (RequestLimits { files: Some(15), ..none() }, false),
        (RequestLimits { disk: Some(1 << 30), ..none() }, true),
        (RequestLimits { disk: Some(1), ..none() }, false),
    ] {
        let place = Place::new();
        place.make_within(limits);
        assert_eq!(place.view("").exists(), has_view, "{limits:?}");
        place.merge();
    }
    assert_eq!(Size::within(none()).entries, MAX_ENTRIES);
}

#[test]
fn a_view_that_became_too_deep_is_dropped() {
    let place = Place::new();
    place.make();
    fs::create_dir_all(place.view(&"x/".repeat(MAX_DEPTH + 3))).unwrap();
    fs::write(place.view("new"), "x").unwrap();
    place.merge();
    assert!(!place.cache("new").exists() && !place.cache("x").exists());
}
