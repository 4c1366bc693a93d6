//! What a command may reach and use, as its plugin's definition has it.

use std::path::PathBuf;

use super::plan::{Plan, Task};

/// Bounds of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Paths to read besides what every request may.
    pub read: Vec<PathBuf>,
    /// Directories to write to besides the workspace.
    pub write: Vec<PathBuf>,
    /// What to connect to.
    pub network: Network,
    /// Bytes of memory for each process; 0 for no limit, as for those below.
    pub memory: u64,
    /// Processes at a time. Only counted where requests have users of their own.
    pub processes: u64,
    /// Bytes of each file.
    pub file_size: u64,
    /// Seconds of processor time for each process.
    pub cpu_seconds: u64,
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
        let texts = |paths: &[PathBuf]| {
            paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
        };
        let (ports, any_port) = match &self.network {
            Network::Ports(ports) => (ports.iter().copied().map(u32::from).collect(), false),
            Network::None => (Vec::new(), false),
            Network::Any => (Vec::new(), true),
        };
        Plan {
            task: Some(task),
            read: texts(&self.read),
            write: texts(&self.write),
            ports,
            any_port,
            no_internet: self.network == Network::None,
            max_memory: self.memory,
            max_processes: self.processes,
            max_file_size: self.file_size,
            max_cpu_seconds: self.cpu_seconds,
        }
    }
}
