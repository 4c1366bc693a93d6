//! Copies of files that their modes close to the UIDs of requests.
//!
//! A Secret of mode 0400 or 0440 can be read by this process and not by a tenant. In
//! its own mount namespace, a request gets a copy at the same path. No other
//! request can see it.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use nix::mount::{MntFlags, MsFlags, umount2};

use super::mounts::{bind, make_file, remount, scratch};
use crate::worker::contents::{CURRENT_FILES, Contents, Cut, Entry, Kind, MAX_DEPTH, MAX_ENTRIES};

/// Options of the file system of copies: room for each entry and a page of it, of 64 KiB on
/// some processors, and for all bytes.
const VOLUME: &str = "size=72m,nr_inodes=2k,mode=755";

/// Most bytes of the files of one path. Kubernetes limits a Secret to 1 MiB.
const MAX_BYTES: u64 = 1024 * 1024 + 64 * 1024;

/// Attempts to read a volume that changes meanwhile.
const ATTEMPTS: u32 = 3;

/// Name of the copy of a single file.
const ONLY: &str = "file";

/// A file, or all that is in a directory, each directory before its entries.
#[derive(Debug)]
pub(super) enum Copy {
    File(Vec<u8>),
    Directory(Vec<(PathBuf, Piece)>),
}

#[derive(Debug)]
pub(super) enum Piece {
    File(Vec<u8>),
    Directory,
    Link(PathBuf),
}

impl Copy {
    /// Reads the files, which this process must be able to. The result is whole.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        if path.is_file() {
            let text = read(path, &mut { MAX_BYTES });
            return text.map(Self::File).map_err(|error| explained(path, error));
        }
        for _ in 0..ATTEMPTS {
            let current = fs::read_link(path.join(CURRENT_FILES)).ok();
            let pieces = pieces(path)?;
            // The kubelet replaces all files in one step.
            if fs::read_link(path.join(CURRENT_FILES)).ok() == current {
                return Ok(Self::Directory(pieces));
            }
        }
        Err(not_copied(path, "its files are replaced again and again"))
    }

    /// Puts the copy below the new root; `volumes` is an empty directory there.
    pub(super) fn put(&self, target: &Path, volumes: &Path) -> io::Result<()> {
        match self {
            Self::Directory(pieces) => {
                fs::create_dir_all(target)?;
                scratch(target, VOLUME)?;
                for (name, piece) in pieces {
                    piece.put(&target.join(name))?;
                }
                remount(target, MsFlags::MS_RDONLY)
            }
            Self::File(text) => {
                make_file(target)?;
                fs::create_dir_all(volumes)?;
                scratch(volumes, VOLUME)?;
                let file = volumes.join(ONLY);
                fs::write(&file, text)?;
                bind(&file, target, MsFlags::MS_RDONLY)?;
                umount2(volumes, MntFlags::MNT_DETACH)?;
                fs::remove_dir(volumes)
            }
        }
    }
}

impl Piece {
    fn read(entry: &Entry, left: &mut u64) -> io::Result<Self> {
        match entry.kind {
            Kind::File => read(&entry.path, left).map(Self::File),
            Kind::Directory => Ok(Self::Directory),
            Kind::Link => fs::read_link(&entry.path).map(Self::Link),
        }
    }

    fn put(&self, target: &Path) -> io::Result<()> {
        match self {
            Self::File(text) => fs::write(target, text),
            Self::Directory => fs::create_dir(target),
            Self::Link(value) => symlink(value, target),
        }
    }
}

/// All that is in a directory. What is removed meanwhile is not.
fn pieces(directory: &Path) -> io::Result<Vec<(PathBuf, Piece)>> {
    let (mut pieces, mut left) = (Vec::new(), MAX_BYTES);
    let contents = Contents::of(directory).map_err(|error| explained(directory, error))?;
    for entry in contents {
        let entry = entry.map_err(|cut| refused(directory, cut))?;
        match Piece::read(&entry, &mut left) {
            Ok(piece) => {
                let name = entry.path.strip_prefix(directory).map_err(io::Error::other)?;
                pieces.push((name.to_owned(), piece));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(explained(&entry.path, error)),
        }
    }
    Ok(pieces)
}

fn refused(directory: &Path, cut: Cut) -> io::Error {
    match cut {
        Cut::Entries => {
            not_copied(directory, &format!("it has more than {MAX_ENTRIES} files and directories"))
        }
        Cut::Depth(path) => {
            not_copied(&path, &format!("it is the {MAX_DEPTH}th directory inside another one"))
        }
        Cut::Unreadable(path, error) => not_copied(&path, &error.to_string()),
    }
}

/// A path that is gone keeps its kind of error.
fn explained(path: &Path, error: io::Error) -> io::Error {
    let is_gone = error.kind() == io::ErrorKind::NotFound;
    if is_gone { error } else { not_copied(path, &error.to_string()) }
}

/// The error of a request that would lose a file.
fn not_copied(path: &Path, reason: &str) -> io::Error {
    let path = path.display();
    io::Error::other(format!(
        "cannot copy `{path}`, which its mode closes to requests: {reason}: set defaultMode: 0444 \
         for the volume, or name single files in spec.sandbox.read"
    ))
}

fn read(path: &Path, left: &mut u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let length = File::open(path)?.take(*left + 1).read_to_end(&mut text)? as u64;
    let too_large =
        || io::Error::other(format!("together, its files have more than {MAX_BYTES} bytes"));
    *left = left.checked_sub(length).ok_or_else(too_large)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A volume as the kubelet makes it, with this many keys and a key in a subdirectory.
    fn volume(keys: usize) -> tempfile::TempDir {
        let volume = tempfile::tempdir().unwrap();
        fs::create_dir_all(volume.path().join("..1/sub/more")).unwrap();
        symlink("..1", volume.path().join(CURRENT_FILES)).unwrap();
        let names = (0..keys).map(|key| format!("k{key:04}"));
        for name in names.clone().chain(["sub/more/id".to_owned()]) {
            fs::write(volume.path().join("..1").join(name), "text").unwrap();
        }
        for name in names.chain(["sub".to_owned()]) {
            symlink(Path::new(CURRENT_FILES).join(&name), volume.path().join(name)).unwrap();
        }
        volume
    }

    #[test]
    fn all_files_of_a_volume_are_copied() {
        let volume = volume(200);
        let Copy::Directory(pieces) = Copy::read(volume.path()).unwrap() else { panic!("a file") };
        let text = |name: &str| {
            let found = pieces.iter().find(|(path, _)| path == Path::new(name));
            matches!(found, Some((_, Piece::File(text))) if text == b"text")
        };
        for key in 0..200 {
            assert!(text(&format!("k{key:04}")), "{key}");
        }
        assert!(text("sub/more/id"));
        let place = |name: &str| pieces.iter().position(|(path, _)| path == Path::new(name));
        assert!(place("sub") < place("sub/more") && place("sub/more") < place("sub/more/id"));
        assert_eq!(pieces.len(), 203, "nothing has two names");
    }

    #[test]
    fn what_cannot_be_copied_whole_is_refused_with_the_number() {
        let refused = |path: &Path| Copy::read(path).unwrap_err().to_string();
        let many = refused(volume(MAX_ENTRIES).path());
        assert!(many.contains("it has more than 1024 files and directories"), "{many}");
        assert!(many.contains("set defaultMode: 0444"), "{many}");
        let large = volume(2);
        fs::write(large.path().join("k0001"), vec![0; 2 << 20]).unwrap();
        let large = refused(large.path());
        assert!(large.contains("its files have more than 1114112 bytes"), "{large}");
        let deep = volume(1);
        fs::create_dir_all(deep.path().join("sub").join("d/".repeat(MAX_DEPTH))).unwrap();
        let deep = refused(deep.path());
        assert!(deep.contains("it is the 16th directory inside another one"), "{deep}");
    }

    #[test]
    fn a_link_to_what_is_elsewhere_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        for (name, target) in [("up", ".."), ("sub/self", "."), ("gone", "nowhere")] {
            symlink(target, directory.path().join(name)).unwrap();
        }
        let Copy::Directory(mut pieces) = Copy::read(directory.path()).unwrap() else {
            panic!("a file")
        };
        pieces.sort_by(|(one, _), (other, _)| one.cmp(other));
        let names: Vec<_> = pieces.iter().map(|(path, _)| path.to_str().unwrap()).collect();
        assert_eq!(names, ["gone", "sub", "sub/self", "up"]);
        assert!(matches!(&pieces[2].1, Piece::Link(target) if target == Path::new(".")));
    }
}
