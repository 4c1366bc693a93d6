//! All files of a plugins directory, as they were at one moment.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Largest definition in bytes: a ConfigMap as a whole holds no more.
const MAX_FILE: u64 = 1024 * 1024;

/// Most files in a directory that are looked at.
const MAX_FILES: usize = 1000;

/// How often a directory that changes while it is read is read again.
const ATTEMPTS: usize = 10;

/// Name of the link that a ConfigMap volume is switched with.
const DATA: &str = "..data";

/// A file that may hold a definition.
#[derive(Debug)]
pub(super) struct Source {
    /// Its name in the directory.
    pub(super) name: String,
    /// What is in it.
    pub(super) text: Result<Vec<u8>, Unreadable>,
    /// How much of it counts.
    pub(super) extent: Extent,
}

/// How much of a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The first document, as argocd-cmp-server does.
    First,
    /// Every definition in it.
    All,
}

/// Why a file's text is not had.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The operating system says no.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    /// A directory, a FIFO, a device.
    #[error("not a regular file")]
    Kind,
    /// Longer than a definition may be.
    #[error("larger than {MAX_FILE} bytes")]
    Large,
}

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

/// Reads a directory. Files appear by name; those that are not YAML or JSON, or
/// begin with two dots, are nobody's definitions.
pub(super) fn read(directory: &Path) -> Result<Vec<Source>, NoSnapshot> {
    for _ in 0..ATTEMPTS {
        let before = generation(directory);
        let sources = list(directory, before.as_deref());
        if generation(directory) == before {
            let path = directory.to_owned();
            return sources.map_err(|error| NoSnapshot::List { path, error });
        }
    }
    Err(NoSnapshot::Restless { path: directory.to_owned() })
}

/// Reads one file outside the directory, whose name is its path.
pub(super) fn one(path: &Path) -> Source {
    Source { name: path.display().to_string(), text: text(path), extent: Extent::First }
}

/// What a ConfigMap volume shows at the moment; `None` for other directories.
fn generation(directory: &Path) -> Option<PathBuf> {
    fs::read_link(directory.join(DATA)).ok()
}

fn list(directory: &Path, generation: Option<&Path>) -> io::Result<Vec<Source>> {
    // Behind the link, all files are of one generation; the visible names are
    // links that come and go one by one.
    let directory = generation.map_or(directory.to_owned(), |data| directory.join(data));
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory)?.take(MAX_FILES) {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        if is_definition(&name) {
            names.push(name);
        }
    }
    names.sort_unstable();
    let source =
        |name: String| Source { text: text(&directory.join(&name)), name, extent: Extent::All };
    Ok(names.into_iter().map(source).collect())
}

fn is_definition(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    !name.starts_with("..") && matches!(extension, Some("yaml" | "yml" | "json"))
}

fn text(path: &Path) -> Result<Vec<u8>, Unreadable> {
    let file = open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(Unreadable::Kind);
    }
    let mut text = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut text)?;
    if about.size() > MAX_FILE || text.len() as u64 > MAX_FILE {
        return Err(Unreadable::Large);
    }
    Ok(text)
}

/// Does not wait for somebody to write into a FIFO.
fn open(path: &Path) -> io::Result<File> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(nonblocking).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        read(directory).unwrap().into_iter().map(|source| source.name).collect()
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
        fs::create_dir(&generation).unwrap();
        fs::write(generation.join("new.yaml"), "text").unwrap();
        symlink("..2026_01", directory.path().join("..data")).unwrap();
        // The visible links are behind: one is gone already, one not yet there.
        symlink("..data/gone.yaml", directory.path().join("gone.yaml")).unwrap();
        let sources = read(directory.path()).unwrap();
        assert_eq!(sources.len(), 1);
        assert_eq!(sources[0].text.as_ref().unwrap(), b"text");
    }

    #[test]
    fn what_is_no_file_is_told_and_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("d.yaml")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, directory.path().join("f.yaml"), 0o600.into())
            .unwrap();
        let sources = read(directory.path()).unwrap();
        assert!(sources.iter().all(|source| matches!(source.text, Err(Unreadable::Kind))));
        assert_eq!(sources.len(), 2);
    }

    #[test]
    fn a_huge_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("huge.yaml")).unwrap();
        file.set_len(MAX_FILE + 1).unwrap();
        assert!(matches!(read(directory.path()).unwrap()[0].text, Err(Unreadable::Large)));
    }

    #[test]
    fn a_missing_directory_is_no_empty_one() {
        assert!(matches!(read(Path::new("/nowhere")), Err(NoSnapshot::List { .. })));
    }
}
