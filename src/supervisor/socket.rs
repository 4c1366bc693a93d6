//! The socket of a served plugin, and the condition in which it was found.

use std::{
    fmt,
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use thiserror::Error;

/// A file's identity, which does not change if the file is renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// The file at a path; for a symbolic link, the link itself.
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self::from(&fs::symlink_metadata(path)?))
    }
}

impl From<&Metadata> for FileIdentity {
    fn from(about: &Metadata) -> Self {
        Self { device: about.dev(), inode: about.ino() }
    }
}

/// Reasons why clients do not reach the socket of a plugin.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LostSocket {
    /// There is no file.
    #[error("another process removed its socket")]
    Missing,
    /// The file is another one, and no process serves it.
    #[error("another process replaced its socket and does not serve it")]
    Dead,
    /// Another process serves the path. The newest server of a path keeps it:
    /// two that take it from each other would fail the requests of both.
    #[error(
        "{0} serves its socket: stop the other server, or give each its own directory of sockets"
    )]
    Taken(Peer),
    /// The path cannot be examined.
    #[error("its socket cannot be reached: {0}")]
    Hidden(String),
}

/// The process at the other end of a socket, as far as the kernel names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its ID; `None` in another PID namespace.
    pub pid: Option<i32>,
    /// Its UID.
    pub uid: u32,
    /// Its program's name, if it may be read.
    pub program: Option<String>,
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, &self.program) {
            (Some(pid), Some(program)) => write!(formatter, "`{program}` (PID {pid}, ")?,
            (Some(pid), None) => write!(formatter, "another process (PID {pid}, ")?,
            (None, _) => formatter.write_str("a process of another container (")?,
        }
        write!(formatter, "UID {})", self.uid)
    }
}
