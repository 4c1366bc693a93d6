//! A directory of the cgroup file system.

use std::{
    io::{self, Read, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, openat},
    sys::stat::{Mode, mkdirat},
    unistd::{Pid, UnlinkatFlags, unlinkat},
};
use rustix::fs::{FlockOperation, flock};

/// Longest content of a file that is read. A line of `cgroup.procs` is short, and
/// no cgroup here has more processes than this file has bytes.
const MAX_FILE: u64 = 1 << 20;

/// An open cgroup. It stays the same cgroup, even if another one gets its name.
#[derive(Debug)]
pub(super) struct Directory(OwnedFd);

impl Directory {
    pub(super) fn at(path: &Path) -> Result<Self, Errno> {
        openat(AT_FDCWD, path, FLAGS, Mode::empty()).map(Self)
    }

    /// A cgroup below this one; the path is relative.
    pub(super) fn below(&self, path: &(impl nix::NixPath + ?Sized)) -> Result<Self, Errno> {
        openat(&self.0, path, FLAGS, Mode::empty()).map(Self)
    }

    pub(super) fn make(&self, name: &str, mode: Mode) -> Result<(), Errno> {
        mkdirat(&self.0, name, mode)
    }

    /// Removes a cgroup without processes.
    pub(super) fn remove(&self, name: &str) -> Result<(), Errno> {
        unlinkat(&self.0, name, UnlinkatFlags::RemoveDir)
    }

    pub(super) fn has(&self, file: &str) -> bool {
        self.open(file, OFlag::O_RDONLY).is_ok()
    }

    pub(super) fn read(&self, file: &str) -> io::Result<String> {
        let mut text = String::new();
        self.open(file, OFlag::O_RDONLY)?.take(MAX_FILE).read_to_string(&mut text)?;
        Ok(text)
    }

    /// A number in a file, or after a key in a file of lines.
    pub(super) fn number(&self, file: &str, key: Option<&str>) -> Option<u64> {
        let text = self.read(file).ok()?;
        key.map_or_else(|| text.trim().parse().ok(), |key| after(&text, key))
    }

    /// Numbers after keys in a file of lines; 0 for those that are not there. The
    /// file is read once, because the kernel adds up its numbers each time.
    pub(super) fn numbers<const N: usize>(&self, file: &str, keys: [&str; N]) -> [u64; N] {
        let text = self.read(file).unwrap_or_default();
        keys.map(|key| after(&text, key).unwrap_or_default())
    }

    pub(super) fn write(&self, file: &str, text: &str) -> io::Result<()> {
        self.open(file, OFlag::O_WRONLY)?.write_all(text.as_bytes())
    }

    /// Its own processes, without those of cgroups below. Processes of other PID
    /// namespaces are left out.
    pub(super) fn processes(&self) -> io::Result<Vec<Pid>> {
        let text = self.read("cgroup.procs")?;
        let pids = text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0);
        Ok(pids.map(Pid::from_raw).collect())
    }

    /// Names of the cgroups directly below.
    pub(super) fn children(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let mut list = nix::dir::Dir::openat(&self.0, ".", FLAGS, Mode::empty())?;
        for entry in list.iter() {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy();
            let is_directory = entry.file_type() == Some(nix::dir::Type::Directory);
            if is_directory && !matches!(name.as_ref(), "." | "..") {
                names.push(name.into_owned());
            }
        }
        Ok(names)
    }

    /// Locks it until this value and all copies of its descriptor are closed.
    pub(super) fn lock(&self) -> io::Result<()> {
        Ok(flock(&self.0, FlockOperation::NonBlockingLockExclusive)?)
    }

    fn open(&self, file: &str, flags: OFlag) -> io::Result<std::fs::File> {
        Ok(openat(&self.0, file, flags | OFlag::O_CLOEXEC, Mode::empty())?.into())
    }
}

impl From<OwnedFd> for Directory {
    fn from(directory: OwnedFd) -> Self {
        Self(directory)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

const FLAGS: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// The number after a key at the beginning of a line.
fn after(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok())
}
