//! Reads all files of a plugins directory as they were at one moment.
//!
//! `serve` and all other commands read a plugins directory with this code, so
//! they agree on its files.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use cmp_sandbox::{CURRENT_FILES, DEFINITIONS};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, readlinkat, statat};
use thiserror::Error;

pub use super::source::Unreadable;
pub(crate) use super::source::{Extent, MAX_FILE, Source};
use super::{
    ignored::{Exclusion, Ignored},
    source::{Links, MAX_ALL},
    stamp::{MAX_ENTRIES, Opened, crowded, directory_flags, names, switch},
};

/// Most attempts to read a directory that changes at the same time.
const ATTEMPTS: usize = 20;

/// Most levels of directories in a ConfigMap volume.
const MAX_DEPTH: usize = 8;

/// The files and the ignored entries of a plugins directory at one moment.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// Files that should contain definitions, sorted by name; includes unreadable
    /// ones.
    pub(crate) files: Vec<Source>,
    /// Entries that are ignored.
    pub(crate) ignored: Vec<Ignored>,
}

/// Treatment of an entry of a plugins directory.
enum Role {
    Definition,
    Directory,
    Ignored(Exclusion),
}

/// A plugins directory could not be read. This is different from an empty one.
#[derive(Debug, Error)]
pub enum NoSnapshot {
    /// It is missing or cannot be listed.
    #[error("{path}: cannot list the plugins directory: {error}")]
    List {
        /// The directory.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// It changed during every attempt to read it.
    #[error("{path}: the plugins directory changes faster than it can be read")]
    Changing {
        /// The directory.
        path: PathBuf,
    },
}

impl NoSnapshot {
    /// True if the directory does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::List { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}

impl Snapshot {
    /// The files that are text, each with its name.
    pub(super) fn texts(&self) -> Vec<(String, String)> {
        let text = |source: &Source| {
            let text = cmp_yaml::utf8(source.text.as_ref().ok()?);
            Some((source.name.clone(), String::from_utf8(text.into_owned()).ok()?))
        };
        self.files.iter().filter_map(text).collect()
    }

    /// Reads a directory between two equal stamps, so that all files are from
    /// the same moment.
    ///
    /// While kubelet updates a volume, files can be missing or empty, and a list
    /// of files can mix two versions.
    pub(crate) fn read(directory: &Path) -> Result<Self, NoSnapshot> {
        let list = |error| NoSnapshot::List { path: directory.to_owned(), error };
        for attempt in 1..=ATTEMPTS {
            let opened = match Opened::new(directory) {
                // kubelet has just removed the target of the volume's link.
                Err(_) if attempt < ATTEMPTS && directory.is_dir() => continue,
                opened => opened.map_err(list)?,
            };
            let snapshot = Self::of(&opened);
            let is_unchanged =
                Opened::new(directory).is_ok_and(|after| after.stamp == opened.stamp);
            if is_unchanged {
                return snapshot.map_err(list);
            }
        }
        Err(NoSnapshot::Changing { path: directory.to_owned() })
    }

    /// Reads an open directory and, in a ConfigMap volume, its subdirectories.
    fn of(opened: &Opened) -> io::Result<Self> {
        let is_volume = opened.volume.is_some();
        let links = if is_volume { Links::None } else { Links::Inside };
        let mut snapshot = Self::default();
        let (mut room, mut entries) = (MAX_ALL, 0);
        let mut rest = vec![String::new()];
        while let Some(path) = rest.pop() {
            let directory = below(opened.files.as_fd(), &path)?;
            let names = names(directory.as_fd())?;
            entries += names.len();
            if entries > MAX_ENTRIES {
                return Err(crowded());
            }
            for name in names {
                let inner = Path::new(&path).join(&name).to_string_lossy().into_owned();
                match role(directory.as_fd(), &name, is_volume, &path) {
                    Role::Definition => {
                        let source = Source::of(directory.as_fd(), inner, links, &mut room);
                        snapshot.files.push(source);
                    }
                    Role::Directory => rest.push(inner),
                    Role::Ignored(reason) => snapshot.ignored.push(Ignored { name: inner, reason }),
                }
            }
        }
        if let Some(root) = &opened.volume {
            snapshot.ignored.extend(unmanaged(root.as_fd())?);
        }
        snapshot.files.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(snapshot)
    }
}

/// Opens a directory below another; the empty path opens the directory itself.
fn below(files: BorrowedFd<'_>, path: &str) -> io::Result<OwnedFd> {
    let path = if path.is_empty() { "." } else { path };
    Ok(openat(files, path, directory_flags() | OFlags::NOFOLLOW, Mode::empty())?)
}

/// Decides how an entry is treated. `items` of a ConfigMap can have paths with
/// several components, so directories of a volume are read.
fn role(directory: BorrowedFd<'_>, name: &OsStr, is_volume: bool, path: &str) -> Role {
    let Some(text) = name.to_str() else { return Role::Ignored(Exclusion::Encoding) };
    if text.starts_with("..") {
        return Role::Ignored(Exclusion::Reserved);
    }
    if is_definition(text) {
        return Role::Definition;
    }
    let flags = if is_volume { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
    let about = statat(directory, name, flags);
    if !about.is_ok_and(|about| FileType::from_raw_mode(about.st_mode).is_dir()) {
        return Role::Ignored(Exclusion::Extension);
    }
    match (is_volume, Path::new(path).components().count() < MAX_DEPTH) {
        (false, _) => Role::Ignored(Exclusion::Directory),
        (true, false) => Role::Ignored(Exclusion::Depth),
        (true, true) => Role::Directory,
    }
}

/// Entries next to the link of a volume that kubelet did not create.
fn unmanaged(root: BorrowedFd<'_>) -> io::Result<Vec<Ignored>> {
    let is_managed = |name: &OsStr| {
        let behind = Path::new(CURRENT_FILES).join(name);
        let target = readlinkat(root, name, Vec::new());
        name.as_encoded_bytes().starts_with(b"..")
            || target.is_ok_and(|target| target.to_bytes() == behind.as_os_str().as_encoded_bytes())
    };
    let names = names(root)?.into_iter().filter(|name| !is_managed(name));
    let ignored = |name: OsString| Ignored {
        name: name.to_string_lossy().into_owned(),
        reason: Exclusion::Unmanaged,
    };
    Ok(names.map(ignored).collect())
}

/// True if a file of this name is read as definitions.
pub(crate) fn is_definition(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| DEFINITIONS.contains(&extension))
}

/// Reads one file outside the directory. While kubelet switches a volume, a
/// missing file is read again.
pub(super) fn one(path: &Path) -> Source {
    let directory = path.parent().unwrap_or(path);
    let mut source = Source::alone(path);
    for _ in 1..ATTEMPTS {
        let before = switch(directory);
        if source.text.is_ok() || before.is_none() {
            break;
        }
        source = Source::alone(path);
        if switch(directory) == before {
            break;
        }
    }
    source
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        os::unix::fs::symlink,
    };

    use super::*;

    fn read(directory: &Path) -> Snapshot {
        Snapshot::read(directory).unwrap()
    }

    fn names(directory: &Path) -> Vec<String> {
        read(directory).files.into_iter().map(|source| source.name).collect()
    }

    fn only(directory: &Path) -> Result<Vec<u8>, Unreadable> {
        let mut sources = read(directory).files;
        assert_eq!(sources.len(), 1, "{sources:?}");
        sources.remove(0).text
    }

    #[test]
    fn only_yaml_and_json_are_definitions() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b.yaml", "a.yml", "c.json", "generate.sh", "..hidden.yaml"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        assert_eq!(names(directory.path()), ["a.yml", "b.yaml", "c.json"]);
    }

    #[test]
    fn a_configmap_volume_is_read_through_its_data_link() {
        let directory = tempfile::tempdir().unwrap();
        let generation = directory.path().join("..2026_01");
        fs::create_dir_all(generation.join("team/one")).unwrap();
        fs::write(generation.join("new.yaml"), "text").unwrap();
        fs::write(generation.join("team/one/a.yaml"), "text").unwrap();
        symlink("..2026_01", directory.path().join("..data")).unwrap();
        // kubelet has not updated the visible links yet: one is outdated, one missing.
        symlink("..data/gone.yaml", directory.path().join("gone.yaml")).unwrap();
        let sources = read(directory.path()).files;
        let texts = sources.iter().map(|s| s.text.as_deref().unwrap());
        assert!(texts.eq([b"text", b"text"]));
        assert_eq!(names(directory.path()), ["new.yaml", "team/one/a.yaml"]);
    }

    #[test]
    fn a_volume_whose_link_leaves_it_is_an_error() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("a.yaml"), "text").unwrap();
        symlink(elsewhere.path(), directory.path().join("..data")).unwrap();
        assert!(matches!(Snapshot::read(directory.path()), Err(NoSnapshot::List { .. })));
    }

    #[test]
    fn special_files_are_errors_and_do_not_block() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("d.yaml")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, directory.path().join("f.yaml"), 0o600.into())
            .unwrap();
        let _socket =
            std::os::unix::net::UnixListener::bind(directory.path().join("s.yaml")).unwrap();
        let sources = read(directory.path()).files;
        assert!(sources.iter().all(|source| matches!(source.text, Err(Unreadable::Kind))));
        assert_eq!(sources.len(), 3);
    }

    #[test]
    fn links_inside_the_directory_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("text"), "text").unwrap();
        symlink("text", directory.path().join("a.yaml")).unwrap();
        assert_eq!(only(directory.path()).unwrap(), b"text");
    }

    #[test]
    fn links_that_leave_the_directory_or_loop_are_refused() {
        for target in ["/etc/passwd", "../../etc/passwd", "a.yaml", "/proc/self/environ"] {
            let directory = tempfile::tempdir().unwrap();
            symlink(target, directory.path().join("a.yaml")).unwrap();
            assert!(matches!(only(directory.path()), Err(Unreadable::Link)), "{target}");
        }
    }

    #[test]
    fn links_inside_a_configmap_volume_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let generation = directory.path().join("..2026_01");
        fs::create_dir(&generation).unwrap();
        fs::write(generation.join("text"), "text").unwrap();
        symlink("text", generation.join("a.yaml")).unwrap();
        symlink("..2026_01", directory.path().join("..data")).unwrap();
        assert!(matches!(only(directory.path()), Err(Unreadable::Link)));
    }

    #[test]
    fn a_huge_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("huge.yaml")).unwrap();
        file.set_len(1024 * 1024 + 1).unwrap();
        assert!(matches!(only(directory.path()), Err(Unreadable::Large)));
    }

    #[test]
    fn many_large_files_do_not_fill_the_memory() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..20 {
            let file = File::create(directory.path().join(format!("{number:02}.yaml"))).unwrap();
            file.set_len(1024 * 1024).unwrap();
        }
        let sources = read(directory.path()).files;
        let full = sources.iter().filter(|s| matches!(s.text, Err(Unreadable::Full)));
        assert_eq!(full.count(), 4);
    }

    #[test]
    fn a_directory_with_too_many_entries_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..=1000 {
            File::create(directory.path().join(format!("{number}.yaml"))).unwrap();
        }
        assert!(matches!(Snapshot::read(directory.path()), Err(NoSnapshot::List { .. })));
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        let missing = Snapshot::read(Path::new("/nowhere")).unwrap_err();
        assert!(missing.is_missing());
    }
}
