//! Accesses that the kernel refused to the processes of an observed command.

#![expect(clippy::too_many_arguments, reason = "of the code that prost derives")]

use std::collections::BTreeSet;

use nix::errno::Errno;
use prost::{Message, Oneof};

/// Most refusals of a command that are kept. Programs rarely meet more than ten.
pub(crate) const MAX_REFUSALS: usize = 256;

/// Most ports that are reported as used.
pub(crate) const MAX_PORTS: usize = 64;

/// Most caches that are reported as used. Fewer are known.
const MAX_CACHES: usize = 32;

/// Longest path of a refusal in bytes.
pub(crate) const MAX_PATH: usize = 1024;

/// Longest news in bytes. A worker sends no longer ones, even if its path has bytes that
/// are not UTF-8, which take three times as many.
const MAX_NEWS: usize = 16 << 10;

/// An access that the kernel refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The access.
    pub attempt: Attempt,
    /// The kernel's reason.
    pub errno: i32,
    /// Name of the program that tried.
    pub program: String,
    /// The process that tried has failed.
    pub has_failed: bool,
}

/// A refused access. Paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// To read a file or directory.
    Read(String),
    /// To change or create a file or directory.
    Write(String),
    /// To execute a file.
    Execute(String),
    /// To connect to a TCP port.
    Connect(u16),
    /// To listen on a TCP port; 0 for any.
    Listen(u16),
    /// To connect to a socket file, or to create one.
    SocketFile(String),
    /// To create a socket for the internet.
    Internet,
    /// To create a Unix socket.
    UnixSocket,
    /// To use more than the kernel allows.
    Limit(KernelLimit),
}

/// A limit that the kernel enforces while a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelLimit {
    /// Processes and threads of a request.
    Processes,
    /// Memory of a process.
    Memory,
    /// Size of a file.
    FileSize,
    /// CPU time of a process.
    Cpu,
}

/// The observations of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The refusals, in their order.
    pub refusals: Vec<Refusal>,
    /// Most processes and threads at a time; 0 if nothing was observed.
    pub processes: u64,
    /// TCP ports that it connected to.
    pub ports: BTreeSet<u16>,
    /// It created internet sockets.
    pub is_online: bool,
    /// Variables of tools for the caches that it filled in its HOME.
    pub caches: BTreeSet<String>,
    /// Refusals that were not kept, and processes that were not observed.
    pub lost: u64,
}

/// News about an observed command.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct News {
    #[prost(oneof = "NewsKind", tags = "1, 2, 3, 4, 5, 6")]
    pub(crate) what: Option<NewsKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum NewsKind {
    /// An access was refused. Repeated if its process failed later.
    #[prost(message, tag = "1")]
    Refused(Refused),
    /// Numbers so far, or of the whole command.
    #[prost(message, tag = "2")]
    Totals(Totals),
    /// A program of this name was found and executed. Where else it was looked for
    /// does not matter.
    #[prost(string, tag = "3")]
    Found(String),
    /// It connects to this TCP port.
    #[prost(uint32, tag = "4")]
    Connects(u32),
    /// It has created an internet socket.
    #[prost(bool, tag = "5")]
    IsOnline(bool),
    /// It fills the cache of this variable in its HOME.
    #[prost(string, tag = "6")]
    Caches(String),
}

/// Numbers of a command.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Totals {
    #[prost(uint64, tag = "1")]
    pub(crate) processes: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) lost: u64,
}

/// Encoded form of [`Refusal`].
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Refused {
    #[prost(enumeration = "AttemptKind", tag = "1")]
    pub(crate) kind: i32,
    #[prost(string, tag = "2")]
    pub(crate) path: String,
    #[prost(uint32, tag = "3")]
    pub(crate) port: u32,
    #[prost(int32, tag = "4")]
    pub(crate) errno: i32,
    #[prost(string, tag = "5")]
    pub(crate) program: String,
    #[prost(bool, tag = "6")]
    pub(crate) has_failed: bool,
}

/// Kind of an [`Attempt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
pub(crate) enum AttemptKind {
    Read = 0,
    Write = 1,
    Execute = 2,
    Connect = 3,
    Listen = 4,
    SocketFile = 5,
    Internet = 6,
    UnixSocket = 7,
    Processes = 8,
    Memory = 9,
    FileSize = 10,
    Cpu = 11,
}

impl Observed {
    /// Adds news of a worker, which are as untrusted as its command.
    pub(crate) fn add(&mut self, news: News) {
        if news.encoded_len() > MAX_NEWS {
            self.lost = self.lost.saturating_add(1);
            return;
        }
        match news.what {
            Some(NewsKind::Refused(refused)) => self.refused(refused.into()),
            Some(NewsKind::Totals(Totals { processes, lost })) => {
                (self.processes, self.lost) = (processes, self.lost.saturating_add(lost));
            }
            Some(NewsKind::Found(name)) => {
                self.refusals.retain(|refusal| !refusal.attempt.looks_for(&name));
            }
            Some(NewsKind::Connects(port)) if self.ports.len() < MAX_PORTS => {
                self.ports.extend(u16::try_from(port));
            }
            Some(NewsKind::IsOnline(is_online)) => self.is_online = is_online,
            Some(NewsKind::Caches(variable)) if self.caches.len() < MAX_CACHES => {
                self.caches.insert(variable);
            }
            Some(NewsKind::Connects(_) | NewsKind::Caches(_)) | None => {}
        }
    }

    fn refused(&mut self, refusal: Refusal) {
        let is_full = self.refusals.len() >= MAX_REFUSALS;
        let is_same = |known: &&mut Refusal| known.attempt == refusal.attempt;
        match self.refusals.iter_mut().find(is_same) {
            Some(known) => known.has_failed |= refusal.has_failed,
            None if is_full => self.lost = self.lost.saturating_add(1),
            None => self.refusals.push(refusal),
        }
    }
}

impl Refusal {
    /// True if the file was not there.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        self.errno == Errno::ENOENT as i32
    }

    /// True if the file system was read-only.
    #[must_use]
    pub fn is_write_protected(&self) -> bool {
        self.errno == Errno::EROFS as i32
    }
}

impl Attempt {
    /// True if a search for a program of this name makes this attempt.
    pub(crate) fn looks_for(&self, name: &str) -> bool {
        match self {
            // Not by its last part, which a worker could make as long as it likes.
            Self::Read(path) | Self::Execute(path) => {
                let directory = path.strip_suffix(name);
                directory.is_some_and(|directory| directory.ends_with('/'))
            }
            Self::Write(_)
            | Self::Connect(_)
            | Self::Listen(_)
            | Self::SocketFile(_)
            | Self::Internet
            | Self::UnixSocket
            | Self::Limit(_) => false,
        }
    }
}

impl From<&Refusal> for Refused {
    fn from(refusal: &Refusal) -> Self {
        let (kind, path, port) = match &refusal.attempt {
            Attempt::Read(path) => (AttemptKind::Read, path.as_str(), 0),
            Attempt::Write(path) => (AttemptKind::Write, path.as_str(), 0),
            Attempt::Execute(path) => (AttemptKind::Execute, path.as_str(), 0),
            Attempt::SocketFile(path) => (AttemptKind::SocketFile, path.as_str(), 0),
            Attempt::Connect(port) => (AttemptKind::Connect, "", *port),
            Attempt::Listen(port) => (AttemptKind::Listen, "", *port),
            Attempt::Internet => (AttemptKind::Internet, "", 0),
            Attempt::UnixSocket => (AttemptKind::UnixSocket, "", 0),
            Attempt::Limit(KernelLimit::Processes) => (AttemptKind::Processes, "", 0),
            Attempt::Limit(KernelLimit::Memory) => (AttemptKind::Memory, "", 0),
            Attempt::Limit(KernelLimit::FileSize) => (AttemptKind::FileSize, "", 0),
            Attempt::Limit(KernelLimit::Cpu) => (AttemptKind::Cpu, "", 0),
        };
        Self {
            kind: kind.into(),
            path: path.to_owned(),
            port: port.into(),
            errno: refusal.errno,
            program: refusal.program.clone(),
            has_failed: refusal.has_failed,
        }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        let kind = refused.kind();
        let Refused { path, port, errno, program, has_failed, .. } = refused;
        let port = u16::try_from(port).unwrap_or_default();
        let attempt = match kind {
            AttemptKind::Read => Attempt::Read(path),
            AttemptKind::Write => Attempt::Write(path),
            AttemptKind::Execute => Attempt::Execute(path),
            AttemptKind::SocketFile => Attempt::SocketFile(path),
            AttemptKind::Connect => Attempt::Connect(port),
            AttemptKind::Listen => Attempt::Listen(port),
            AttemptKind::Internet => Attempt::Internet,
            AttemptKind::UnixSocket => Attempt::UnixSocket,
            AttemptKind::Processes => Attempt::Limit(KernelLimit::Processes),
            AttemptKind::Memory => Attempt::Limit(KernelLimit::Memory),
            AttemptKind::FileSize => Attempt::Limit(KernelLimit::FileSize),
            AttemptKind::Cpu => Attempt::Limit(KernelLimit::Cpu),
        };
        Self { attempt, errno, program, has_failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(attempt: Attempt, has_failed: bool) -> Refusal {
        Refusal { attempt, errno: 13, program: "x".to_owned(), has_failed }
    }

    fn told(refusal: &Refusal) -> News {
        News { what: Some(NewsKind::Refused(refusal.into())) }
    }

    #[test]
    fn attempts_of_all_kinds_arrive_as_sent() {
        let path = || "/a".to_owned();
        for attempt in [
            Attempt::Read(path()),
            Attempt::Write(path()),
            Attempt::Execute(path()),
            Attempt::SocketFile(path()),
            Attempt::Connect(65535),
            Attempt::Listen(0),
            Attempt::Internet,
            Attempt::UnixSocket,
            Attempt::Limit(KernelLimit::Processes),
            Attempt::Limit(KernelLimit::Memory),
            Attempt::Limit(KernelLimit::FileSize),
            Attempt::Limit(KernelLimit::Cpu),
        ] {
            let sent = refusal(attempt, false);
            assert_eq!(Refusal::from(Refused::from(&sent)), sent);
        }
    }

    #[test]
    fn a_refusal_is_kept_once_and_remembers_a_failure() {
        let mut observed = Observed::default();
        for has_failed in [false, true, false] {
            observed.add(told(&refusal(Attempt::Connect(1), has_failed)));
        }
        assert_eq!(observed.refusals, [refusal(Attempt::Connect(1), true)]);
    }

    #[test]
    fn the_search_for_a_program_that_is_found_does_not_matter() {
        let mut observed = Observed::default();
        for path in ["/root/bin/helm", "/root/helm/x"] {
            observed.add(told(&refusal(Attempt::Read(path.to_owned()), true)));
        }
        observed.add(News { what: Some(NewsKind::Found("helm".to_owned())) });
        let left = refusal(Attempt::Read("/root/helm/x".to_owned()), true);
        assert_eq!(observed.refusals, [left]);
    }

    #[test]
    fn a_worker_cannot_fill_the_list() {
        let mut observed = Observed::default();
        for number in 0..MAX_REFUSALS + 5 {
            observed.add(told(&refusal(Attempt::Read(number.to_string()), false)));
        }
        observed.add(News { what: Some(NewsKind::Totals(Totals { processes: 3, lost: 1 })) });
        assert_eq!(observed.refusals.len(), MAX_REFUSALS);
        assert_eq!((observed.processes, observed.lost), (3, 6));
    }

    #[test]
    fn a_worker_cannot_send_long_texts() {
        let mut observed = Observed::default();
        let long = "x".repeat(MAX_NEWS);
        observed.add(told(&refusal(Attempt::Read(long.clone()), false)));
        observed.add(News { what: Some(NewsKind::Caches(long)) });
        assert_eq!(observed, Observed { lost: 2, ..Observed::default() });
        let most = char::REPLACEMENT_CHARACTER.to_string().repeat(MAX_PATH);
        observed.add(told(&refusal(Attempt::Read(most), false)));
        assert_eq!(observed.refusals.len(), 1);
    }
}
