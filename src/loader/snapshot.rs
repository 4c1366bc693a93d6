//! All files of a plugins directory, as they were at one moment.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat};
use thiserror::Error;

pub use super::source::Unreadable;
pub(super) use super::source::{Extent, Source};
use super::{
    source::{Links, MAX_ALL},
    stamp::{Opened, directory_flags, names, switch},
};

/// How often a directory that changes while it is read is read again.
const ATTEMPTS: usize = 20;

/// Most directories that a key of a ConfigMap volume may lie in.
const MAX_DEPTH: usize = 8;

/// Why a directory is not read. It is not the same as an empty one.
#[derive(Debug, Error)]
pub enum NoSnapshot {
    /// It is not there, or may not be listed.
    #[error("{path}: cannot list the plugins directory: {error}")]
    List {
        /// The directory.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// It never holds still.
    #[error("{path}: the plugins directory changes faster than it can be read")]
    Restless {
        /// The directory.
        path: PathBuf,
    },
}

impl NoSnapshot {
    /// Whether there is no such directory.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::List { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads the files of a directory that are YAML or JSON, by name: looks, reads,
/// and looks again whether anything moved.
///
/// Files that are read while kubelet removes them are missing or none at all,
/// and a list of files that is read while they are written is of no moment.
pub(super) fn read(directory: &Path) -> Result<Vec<Source>, NoSnapshot> {
    let list = |error| NoSnapshot::List { path: directory.to_owned(), error };
    for attempt in 1..=ATTEMPTS {
        let opened = match Opened::new(directory) {
            // The link of a volume led to what was removed just now.
            Err(_) if attempt < ATTEMPTS && directory.is_dir() => continue,
            opened => opened.map_err(list)?,
        };
        let is_volume = opened.stamp.is_volume();
        let sources = sources(opened.files.as_fd(), is_volume);
        let unmoved = Opened::new(directory).is_ok_and(|after| after.stamp == opened.stamp);
        if unmoved {
            return sources.map_err(list);
        }
    }
    Err(NoSnapshot::Restless { path: directory.to_owned() })
}

/// Reads one file outside the directory. If there is none, that is no file of
/// the volume which is shown.
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

fn sources(files: BorrowedFd<'_>, is_volume: bool) -> io::Result<Vec<Source>> {
    let links = if is_volume { Links::None } else { Links::Inside };
    let mut room = MAX_ALL;
    let mut sources = Vec::new();
    for name in names(files)? {
        if is_definition(&name) {
            sources.push(Source::of(files, &name, links, &mut room));
        } else if is_volume {
            below(files, &name, &mut room, &mut sources)?;
        }
    }
    Ok(sources)
}

/// Reads what lies in a directory of a volume: `items` of a ConfigMap may have
/// paths of several components. Goes deeper without recursion.
fn below(
    files: BorrowedFd<'_>,
    name: &str,
    room: &mut u64,
    sources: &mut Vec<Source>,
) -> io::Result<()> {
    let mut rest = vec![name.to_owned()];
    while let Some(path) = rest.pop() {
        let about = statat(files, &path, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_directory = FileType::from_raw_mode(about.st_mode).is_dir();
        if !is_directory || path.split('/').count() > MAX_DEPTH {
            continue;
        }
        let flags = directory_flags() | OFlags::NOFOLLOW;
        let directory = openat(files, &path, flags, Mode::empty())?;
        for name in names(directory.as_fd())? {
            let inner = format!("{path}/{name}");
            if is_definition(&name) {
                sources.push(Source::of(directory.as_fd(), &inner, Links::None, room));
            } else {
                rest.push(inner);
            }
        }
    }
    Ok(())
}

fn is_definition(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml" | "json"))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        os::unix::fs::symlink,
    };

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        read(directory).unwrap().into_iter().map(|source| source.name).collect()
    }

    fn only(directory: &Path) -> Result<Vec<u8>, Unreadable> {
        let mut sources = read(directory).unwrap();
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
    fn a_configmap_volume_is_read_behind_its_link() {
        let directory = tempfile::tempdir().unwrap();
        let generation = directory.path().join("..2026_01");
        fs::create_dir_all(generation.join("team/one")).unwrap();
        fs::write(generation.join("new.yaml"), "text").unwrap();
        fs::write(generation.join("team/one/a.yaml"), "text").unwrap();
        symlink("..2026_01", directory.path().join("..data")).unwrap();
        // The visible links are behind: one is gone already, one not yet there.
        symlink("..data/gone.yaml", directory.path().join("gone.yaml")).unwrap();
        let sources = read(directory.path()).unwrap();
        let texts = sources.iter().map(|s| s.text.as_deref().unwrap());
        assert!(texts.eq([b"text", b"text"]));
        assert_eq!(names(directory.path()), ["new.yaml", "team/one/a.yaml"]);
    }

    #[test]
    fn a_volume_whose_link_leads_out_of_it_is_not_read() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("a.yaml"), "text").unwrap();
        symlink(elsewhere.path(), directory.path().join("..data")).unwrap();
        assert!(matches!(read(directory.path()), Err(NoSnapshot::List { .. })));
    }

    #[test]
    fn what_is_no_file_is_told_and_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("d.yaml")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, directory.path().join("f.yaml"), 0o600.into())
            .unwrap();
        let _socket =
            std::os::unix::net::UnixListener::bind(directory.path().join("s.yaml")).unwrap();
        let sources = read(directory.path()).unwrap();
        assert!(sources.iter().all(|source| matches!(source.text, Err(Unreadable::Kind))));
        assert_eq!(sources.len(), 3);
    }

    #[test]
    fn links_are_followed_as_long_as_they_stay_inside() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("text"), "text").unwrap();
        symlink("text", directory.path().join("a.yaml")).unwrap();
        assert_eq!(only(directory.path()).unwrap(), b"text");
    }

    #[test]
    fn links_that_lead_out_or_round_are_refused() {
        for target in ["/etc/passwd", "../../etc/passwd", "a.yaml", "/proc/self/environ"] {
            let directory = tempfile::tempdir().unwrap();
            symlink(target, directory.path().join("a.yaml")).unwrap();
            assert!(matches!(only(directory.path()), Err(Unreadable::Link)), "{target}");
        }
    }

    #[test]
    fn behind_the_link_of_a_volume_no_link_is_followed() {
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
        let sources = read(directory.path()).unwrap();
        let full = sources.iter().filter(|s| matches!(s.text, Err(Unreadable::Full)));
        assert_eq!(full.count(), 4);
    }

    #[test]
    fn a_crowded_directory_is_not_read_in_part() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..=1000 {
            File::create(directory.path().join(format!("{number}.yaml"))).unwrap();
        }
        assert!(matches!(read(directory.path()), Err(NoSnapshot::List { .. })));
    }

    #[test]
    fn a_missing_directory_is_no_empty_one() {
        let missing = read(Path::new("/nowhere")).unwrap_err();
        assert!(missing.is_missing());
    }
}
