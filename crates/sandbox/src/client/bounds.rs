//! What a command may reach and use, as its plugin's definition has it.

use std::path::PathBuf;

use crate::wire::{
    message::{Grants, RequestLimits},
    plan::{CacheTask, Plan, Task},
};

/// Bounds of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Paths to read besides what every request may.
    pub read: Vec<PathBuf>,
    /// Directories to write to besides the workspace.
    pub caches: Caches,
    /// What to connect to.
    pub network: Network,
    /// Bytes of memory for each process, and for the request as a whole; `None`
    /// for no limit, as for those below.
    pub memory: Option<u64>,
    /// Processes at a time. Only counted where requests have users of their own.
    pub processes: Option<u64>,
    /// Bytes of each file.
    pub file_size: Option<u64>,
    /// Bytes that all files of a request take on disk.
    pub disk: Option<u64>,
    /// Files and directories of a request.
    pub files: Option<u64>,
    /// Seconds of processor time for each process.
    pub cpu_seconds: Option<u64>,
}

/// Directories that some requests share: those with the same `owner`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    /// Whoever has another one reaches none of them. A file name.
    pub owner: String,
    /// The directories.
    pub list: Vec<Cache>,
}

/// A directory that requests share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// What it is called. A file name.
    pub name: String,
    /// The variable that tells a command where it is.
    pub variable: String,
}

/// What may be connected to. Where there is a network at all, no kernel yet
/// keeps datagrams (UDP) to some ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// Nothing: there are no internet sockets, for datagrams neither.
    None,
    /// These TCP ports, wherever.
    Ports(Vec<u16>),
    /// All, this Pod's own included.
    Any,
}

impl Default for Network {
    fn default() -> Self {
        Self::Ports(Vec::new())
    }
}

impl Bounds {
    pub(super) fn plan(&self, task: Task) -> Plan {
        let (ports, any_port) = match &self.network {
            Network::Ports(ports) => (ports.iter().copied().map(u32::from).collect(), false),
            Network::None => (Vec::new(), false),
            Network::Any => (Vec::new(), true),
        };
        Plan {
            task: Some(task),
            caches: self.caches.list.iter().map(CacheTask::from).collect(),
            ports,
            any_port,
            no_internet: self.network == Network::None,
            max_memory: self.memory,
            max_processes: self.processes,
            max_file_size: self.file_size,
            max_cpu_seconds: self.cpu_seconds,
        }
    }

    /// What a request may take in all.
    pub(super) fn limits(&self) -> RequestLimits {
        let Self { memory, disk, files, file_size, .. } = *self;
        RequestLimits { memory, disk, files, file_size }
    }

    /// What the spawner has to see to: it takes more rights than a worker has.
    pub(super) fn grants(&self) -> Grants {
        Grants {
            read: self.read.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
            owner: self.caches.owner.clone(),
            caches: self.caches.list.iter().map(|cache| cache.name.clone()).collect(),
            limits: self.limits(),
        }
    }
}

impl From<&Cache> for CacheTask {
    fn from(cache: &Cache) -> Self {
        Self { name: cache.name.clone(), variable: cache.variable.clone() }
    }
}
