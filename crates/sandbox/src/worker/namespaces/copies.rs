//! Copies of files that their modes close to the UIDs of requests.
//!
//! A Secret of mode 0400 or 0440 can be read by this process and not by a tenant. In
//! its own mount namespace, a request gets a copy at the same path. No other
//! request can see it.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use nix::mount::{MntFlags, MsFlags, umount2};

use super::mounts::{bind, make_file, remount, scratch};
use crate::worker::modes;

/// Options of the file system of copies. Kubernetes limits a Secret to 1 MiB.
const VOLUME: &str = "size=2m,nr_inodes=128,mode=755";

/// Most bytes of the files of one path.
const MAX_BYTES: u64 = 1024 * 1024 + 64 * 1024;

/// Name of the copy of a single file.
const ONLY: &str = "file";

/// A file, or the files of a directory.
#[derive(Debug)]
pub(super) enum Copy {
    File(Vec<u8>),
    Directory(Vec<(OsString, Vec<u8>)>),
}

impl Copy {
    /// Reads the files, which this process must be able to.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let mut left = MAX_BYTES;
        if path.is_file() {
            return Ok(Self::File(read(path, &mut left)?));
        }
        let named = |path: &Path| Some((path.file_name()?.to_owned(), read(path, &mut left)));
        let files = modes::files(path);
        let files = files.iter().map(AsRef::as_ref).filter_map(named);
        let files = files.map(|(name, text)| Ok((name, text?)));
        files.collect::<io::Result<_>>().map(Self::Directory)
    }

    /// Puts the copy below the new root; `volumes` is an empty directory there.
    pub(super) fn put(&self, target: &Path, volumes: &Path) -> io::Result<()> {
        match self {
            Self::Directory(files) => {
                fs::create_dir_all(target)?;
                scratch(target, VOLUME)?;
                for (name, text) in files {
                    fs::write(target.join(name), text)?;
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

fn read(path: &Path, left: &mut u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let length = File::open(path)?.take(*left + 1).read_to_end(&mut text)? as u64;
    *left = left.checked_sub(length).ok_or(io::ErrorKind::FileTooLarge)?;
    Ok(text)
}
