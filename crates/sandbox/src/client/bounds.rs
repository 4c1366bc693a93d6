//! The access and the limits of a command, from its plugin's definition.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use prost::Message;

use super::{
    handle::{Unconfined, cannot},
    setup::utf8,
};
use crate::wire::{
    message::{Grants, RequestLimits},
    plan::{Cache, Plan, Task},
};

/// Longest encoded grants in bytes. Longer ones would not fit into an order.
const MAX_GRANTS: usize = 12 * 1024;

/// Access and limits of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Paths that the command may read, in addition to those that all commands
    /// may read.
    pub read: Vec<PathBuf>,
    /// Further paths that the command may read. It fails if their modes close them to it.
    pub named: Vec<PathBuf>,
    /// Secrets of the container that nobody named. The command does without those
    /// that are no longer mounted.
    pub secrets: Vec<PathBuf>,
    /// Directories that the command may write to, in addition to its workspace.
    pub caches: Caches,
    /// Network access.
    pub network: Network,
    /// Bytes of memory for each process, and for the request as a whole; `None`
    /// for no limit, as for those below.
    pub memory: Option<u64>,
    /// Limit of processes and threads at one time. The kernel enforces it if each
    /// request has its own UID; otherwise the spawner counts them.
    pub processes: Option<u64>,
    /// Limit of each file's size in bytes.
    pub file_size: Option<u64>,
    /// Limit of disk space in bytes for all files of a request.
    pub disk: Option<u64>,
    /// Limit of files and directories of a request.
    pub files: Option<u64>,
    /// Limit of CPU time in seconds for each process.
    pub cpu_seconds: Option<u64>,
    /// Time between SIGTERM and SIGKILL for a command that must end; `None`
    /// for 5 s.
    pub stop_grace: Option<Duration>,
    /// The command may not change its repository.
    pub is_read_only: bool,
}

/// Directories that all requests with the same `owner` share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    /// Name of the owner, valid as a file name. Requests of other owners cannot
    /// access these directories.
    pub owner: String,
    /// The directories.
    pub list: Vec<Cache>,
}

/// Network access of a command. The kernel cannot restrict UDP to some ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// No IPv4 or IPv6 sockets at all, UDP included.
    None,
    /// TCP connections to these ports of any host.
    Ports(Vec<u16>),
    /// Connections to any port, including those of this Pod.
    Any,
}

impl Default for Network {
    fn default() -> Self {
        Self::Ports(Vec::new())
    }
}

impl Bounds {
    /// All paths that the command may read, in addition to those that all commands
    /// may read.
    pub fn readable(&self) -> impl Iterator<Item = &Path> {
        let paths = self.read.iter().chain(&self.named).chain(&self.secrets);
        paths.map(PathBuf::as_path)
    }

    /// The bounds of a lease under which no command runs: only the limits, and the owner,
    /// who gets no more than a share of the UIDs.
    #[must_use]
    pub fn for_unpacking(&self) -> Self {
        let Self { memory, processes, file_size, disk, files, cpu_seconds, .. } = *self;
        let caches = Caches { owner: self.caches.owner.clone(), list: Vec::new() };
        Self { caches, memory, processes, file_size, disk, files, cpu_seconds, ..Self::default() }
    }

    pub(super) fn plan(&self, task: Task) -> Plan {
        let (ports, any_port) = match &self.network {
            Network::Ports(ports) => (ports.iter().copied().map(u32::from).collect(), false),
            Network::None => (Vec::new(), false),
            Network::Any => (Vec::new(), true),
        };
        Plan {
            task: Some(task),
            caches: self.caches.list.clone(),
            ports,
            any_port,
            no_internet: self.network == Network::None,
            max_memory: self.memory,
            max_processes: self.processes,
            max_file_size: self.file_size,
            max_cpu_seconds: self.cpu_seconds,
        }
    }

    /// The limits for the request as a whole.
    pub(super) fn limits(&self) -> RequestLimits {
        let Self { memory, disk, files, file_size, processes, .. } = *self;
        RequestLimits { memory, disk, files, file_size, processes, watches: None }
    }

    /// The part that the spawner has to set up, because a worker lacks the
    /// rights, with the lease whose `repository` is read. An error if an order cannot hold
    /// it.
    pub(super) fn grants(&self, repository: Option<u64>) -> Result<Grants, Unconfined> {
        let paths = |list: &[PathBuf]| {
            let texts = list.iter().map(|path| utf8(path)).collect::<Result<_, _>>();
            texts.map_err(cannot("start a worker"))
        };
        let grants = Grants {
            read: paths(&self.read)?,
            named: paths(&self.named)?,
            secrets: paths(&self.secrets)?,
            owner: self.caches.owner.clone(),
            caches: self.caches.list.iter().map(|cache| cache.name.clone()).collect(),
            limits: self.limits(),
            repository,
        };
        if grants.encoded_len() > MAX_GRANTS {
            return Err(cannot("start a worker")("its paths to read are too many or too long"));
        }
        Ok(grants)
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    use super::*;

    #[test]
    fn a_lease_without_commands_has_the_limits_and_the_owner() {
        let list = vec![Cache::default()];
        let caches = Caches { owner: "owner".to_owned(), list };
        let read = vec![PathBuf::from("/read")];
        let bounds = Bounds { caches, read, files: Some(7), ..Bounds::default() };
        let grants = bounds.for_unpacking().grants(None).unwrap();
        assert_eq!((grants.owner.as_str(), grants.limits.files), ("owner", Some(7)));
        assert!(grants.caches.is_empty() && grants.read.is_empty());
    }

    #[test]
    fn a_path_that_an_order_cannot_hold_is_refused() {
        let read = vec![PathBuf::from(OsStr::from_bytes(b"/r\xff"))];
        let error = Bounds { read, ..Bounds::default() }.grants(None).unwrap_err().to_string();
        assert!(error.contains("/r\u{fffd} is not UTF-8"), "{error}");
    }
}
