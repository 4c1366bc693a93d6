//! Compares the index with a real directory into which the archive is unpacked.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use cmp_discovery::FileIndex;
use proptest::prelude::*;

use crate::agreement::{Entry, compare, entries, path, pattern};
use crate::naive::{self, Files, Kind};

/// A directory whose parents have names that no entry has, so a path out of the
/// directory and back never exists by accident.
struct Disk {
    _above: tempfile::TempDir,
    root: PathBuf,
}

impl Disk {
    fn new() -> Self {
        let above = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(above.path()).unwrap().join("1/2/3/4/5/6");
        fs::create_dir_all(&root).unwrap();
        Self { _above: above, root }
    }

    fn at(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    fn add(&self, entry: &Entry) -> io::Result<()> {
        let name = clean(b"", entry.name.as_bytes())?;
        if name.is_empty() {
            return Ok(());
        }
        let path = self.at(&name);
        let directory = path.parent().unwrap();
        match entry.kind {
            Kind::Directory => fs::create_dir_all(path),
            Kind::File => {
                fs::create_dir_all(directory)?;
                fs::OpenOptions::new().write(true).create(true).truncate(true).open(path).map(drop)
            }
            Kind::Link => {
                let parent = directory.strip_prefix(&self.root).unwrap();
                let target = clean(parent.as_os_str().as_bytes(), entry.target.as_bytes())?;
                if parent.ancestors().any(|above| self.root.join(above).is_symlink()) {
                    return Err(io::Error::other("below a link"));
                }
                fs::create_dir_all(directory)?;
                match fs::metadata(self.at(&target)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
                let value = naive::relative(parent.as_os_str().as_bytes(), &target);
                std::os::unix::fs::symlink(OsStr::from_bytes(&value), path)
            }
        }
    }
}

fn clean(base: &[u8], path: &[u8]) -> io::Result<Vec<u8>> {
    if path.starts_with(b"/") && !base.is_empty() {
        return clean(base, &clean(b"", path)?);
    }
    let mut cleaned = PathBuf::from(OsStr::from_bytes(base));
    for part in Path::new(OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path))) {
        match part.as_bytes() {
            b"." | b"/" => {}
            b".." if cleaned.pop() => {}
            b".." => return Err(io::Error::other("outside")),
            _ => cleaned.push(part),
        }
    }
    Ok(cleaned.into_os_string().into_vec())
}

fn kind(metadata: io::Result<fs::Metadata>) -> Option<Kind> {
    let kind = metadata.ok()?.file_type();
    Some(if kind.is_dir() {
        Kind::Directory
    } else if kind.is_symlink() {
        Kind::Link
    } else {
        Kind::File
    })
}

impl Files for Disk {
    fn lstat(&self, path: &[u8]) -> Option<Kind> {
        kind(fs::symlink_metadata(self.at(path)))
    }

    fn stat(&self, path: &[u8]) -> Option<Kind> {
        kind(fs::metadata(self.at(path)))
    }

    fn read_link(&self, path: &[u8]) -> Option<Vec<u8>> {
        fs::read_link(self.at(path)).ok().map(|value| value.into_os_string().into_vec())
    }

    fn list(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let Ok(entries) = fs::read_dir(self.at(path)) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().file_name().into_vec()).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_index_equals_a_file_system(
        entries in entries(),
        app in path(),
        patterns in prop::collection::vec(pattern(), 8),
    ) {
        let (mut index, disk) = (FileIndex::default(), Disk::new());
        for entry in &entries {
            let (name, target) = (entry.name.as_bytes(), entry.target.as_bytes());
            let added = match entry.kind {
                Kind::Directory => index.add_directory(name),
                Kind::File => index.add_file(name),
                Kind::Link => index.add_symlink(name, target),
            };
            let on_disk = disk.add(entry);
            prop_assert_eq!(added.is_ok(), on_disk.is_ok(), "{:?}: {:?} {:?}", entry, added, on_disk);
            if added.is_err() {
                break;
            }
        }
        compare(&index, &disk, (&app, &patterns))?;
    }
}
