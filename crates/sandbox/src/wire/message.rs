//! Messages between the supervisor and the spawner.
//!
//! The spawner has privileges, so it learns as little as possible: the lease,
//! the kind of job, times, and the limits, paths and caches that the definition grants.
//! Commands, environments and the paths in them go directly to the worker.

#![expect(clippy::too_many_arguments, reason = "of the code that prost derives")]

use prost::{Message, Oneof};

use super::{
    exceeded::{ExceededLimit, LimitExceeded},
    plan::Exited,
    quarantine::Quarantined,
    shortage::Unfitness,
    tier::{Demand, Tier},
    usage::{TotalLimits, UsageReport},
};

/// Message from the supervisor to the spawner.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Order {
    #[prost(oneof = "OrderKind", tags = "1, 2, 3, 4, 5, 6, 7, 12")]
    pub(crate) what: Option<OrderKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum OrderKind {
    /// Lease a free UID and fork the first worker. The order carries its socket
    /// and the pipe of the archive.
    #[prost(message, tag = "1")]
    Lease(LeaseOrder),
    /// Fork another worker, for a command. The order carries its socket.
    #[prost(message, tag = "2")]
    Start(StartOrder),
    /// Send SIGTERM to all processes of a lease.
    #[prost(uint64, tag = "3")]
    Stop(u64),
    /// Kill all processes of a lease, remove its files, and free its slot.
    #[prost(message, tag = "4")]
    Release(ReleaseOrder),
    /// A command runs: start to measure its usage.
    #[prost(uint64, tag = "6")]
    Watch(u64),
    /// Limits of all requests together, which replace the earlier ones.
    #[prost(message, tag = "7")]
    LimitTotal(TotalLimits),
    /// Answer with the same number, to prove that orders are executed.
    #[prost(uint64, tag = "12")]
    Beat(u64),
    /// The first order; sent once.
    #[prost(message, tag = "5")]
    Setup(SetupOrder),
}

/// Configuration of the spawner.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SetupOrder {
    /// Tiers in order of preference. The first one that is fully available is
    /// used.
    #[prost(enumeration = "Tier", repeated, tag = "1")]
    pub(crate) tiers: Vec<i32>,
    /// First UID to lease, and number of UIDs.
    #[prost(uint32, tag = "2")]
    pub(crate) first_uid: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) uid_count: u32,
    /// Most leases at one time.
    #[prost(uint32, tag = "4")]
    pub(crate) leases: u32,
    /// Directory in which the spawner creates the directory of workspaces.
    #[prost(string, tag = "5")]
    pub(crate) work_dir: String,
    /// UID that the spawner switches to if it is root and the tier has no
    /// separate UIDs.
    #[prost(uint32, tag = "6")]
    pub(crate) shared_uid: u32,
    /// Paths that no tenant may access, even if something else allows it.
    #[prost(string, repeated, tag = "7")]
    pub(crate) hidden: Vec<String>,
    /// Directories of programs, which every tenant may read.
    #[prost(string, repeated, tag = "8")]
    pub(crate) programs: Vec<String>,
    /// Accept separate UIDs as the only isolation if the kernel has no
    /// Landlock.
    #[prost(bool, tag = "9")]
    pub(crate) accept_no_landlock: bool,
    /// Directories of secrets. A tenant reads a file in them only if it is named.
    #[prost(string, repeated, tag = "10")]
    pub(crate) secret: Vec<String>,
    /// Files in the paths above that every tenant may read.
    #[prost(string, repeated, tag = "11")]
    pub(crate) shown: Vec<String>,
    /// Directories of definitions; every tenant may read the other files there.
    #[prost(string, repeated, tag = "12")]
    pub(crate) scripts: Vec<String>,
    /// HOME directories of the image.
    #[prost(string, repeated, tag = "13")]
    pub(crate) homes: Vec<String>,
    /// Files in them that tools look up.
    #[prost(message, repeated, tag = "14")]
    pub(crate) home_parts: Vec<HomePartOrder>,
    /// Demand for a cgroup for each request.
    #[prost(enumeration = "Demand", tag = "20")]
    pub(crate) request_cgroups: i32,
    /// Report accesses that the kernel refuses to commands.
    #[prost(bool, tag = "21")]
    pub(crate) observes: bool,
}

/// See [`HomePart`](super::skeleton::HomePart).
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HomePartOrder {
    #[prost(string, tag = "1")]
    pub(crate) source: String,
    #[prost(string, tag = "2")]
    pub(crate) target: String,
    #[prost(uint32, tag = "3")]
    pub(crate) depth: u32,
    #[prost(bool, tag = "4")]
    pub(crate) opens: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseOrder {
    /// Chosen by the supervisor. The answer repeats it, and so does the report
    /// that the lease's first worker ended.
    #[prost(uint64, tag = "1")]
    pub(crate) job: u64,
    /// Kind of the first worker.
    #[prost(enumeration = "JobKind", tag = "2")]
    pub(crate) kind: i32,
    #[prost(message, required, tag = "3")]
    pub(crate) grants: Grants,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StartOrder {
    #[prost(uint64, tag = "1")]
    pub(crate) lease: u64,
    /// Chosen by the supervisor and repeated when the worker ends.
    #[prost(uint64, tag = "2")]
    pub(crate) job: u64,
    #[prost(message, required, tag = "3")]
    pub(crate) grants: Grants,
}

/// Access and limits in addition to the defaults. The operator sets them in
/// definitions and flags; tenants cannot.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Grants {
    /// Paths to read.
    #[prost(string, repeated, tag = "1")]
    pub(crate) read: Vec<String>,
    /// Owner of the caches, valid as a file name.
    #[prost(string, tag = "2")]
    pub(crate) owner: String,
    /// File names of the caches.
    #[prost(string, repeated, tag = "3")]
    pub(crate) caches: Vec<String>,
    /// Limits of the request as a whole.
    #[prost(message, required, tag = "4")]
    pub(crate) limits: RequestLimits,
    /// Paths to read whose modes must allow it.
    #[prost(string, repeated, tag = "5")]
    pub(crate) named: Vec<String>,
    /// Paths to read that may be missing.
    #[prost(string, repeated, tag = "6")]
    pub(crate) secrets: Vec<String>,
    /// Lease that holds the repository to read, instead of one of its own.
    #[prost(uint64, optional, tag = "7")]
    pub(crate) repository: Option<u64>,
}

/// Limits of all processes and files of a request together; `None` for no
/// limit.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct RequestLimits {
    /// Memory in bytes.
    #[prost(uint64, optional, tag = "1")]
    pub(crate) memory: Option<u64>,
    /// Disk space in bytes.
    #[prost(uint64, optional, tag = "2")]
    pub(crate) disk: Option<u64>,
    /// Number of files and directories.
    #[prost(uint64, optional, tag = "3")]
    pub(crate) files: Option<u64>,
    /// Size of each file in bytes, which the kernel enforces. A file whose size
    /// cannot be measured counts with this size.
    #[prost(uint64, optional, tag = "4")]
    pub(crate) file_size: Option<u64>,
    /// Number of processes and threads. A cgroup enforces it, or the kernel where
    /// requests have separate UIDs; otherwise it is measured.
    #[prost(uint64, optional, tag = "5")]
    pub(crate) processes: Option<u64>,
    /// Number of descriptors that instances of epoll watch. The spawner sets it where
    /// requests have no separate UIDs.
    #[prost(uint64, optional, tag = "6")]
    pub(crate) watches: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ReleaseOrder {
    #[prost(uint64, tag = "1")]
    pub(crate) lease: u64,
    /// Time between SIGTERM and SIGKILL; 0 for SIGKILL at once.
    #[prost(uint32, tag = "2")]
    pub(crate) grace_ms: u32,
    /// No command has ended by itself, or the last one has not: its files may be half written.
    #[prost(bool, tag = "3")]
    pub(crate) is_cut_off: bool,
}

/// Kind of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
pub(crate) enum JobKind {
    /// Unpacks an archive and then becomes the first command.
    Unpack = 0,
    /// Becomes another command.
    Run = 1,
    /// Attacks what a tenant must not access, and reports the attacks that
    /// succeeded.
    Canary = 2,
}

/// Message from the spawner to the supervisor.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SpawnerReport {
    #[prost(oneof = "SpawnerEvent", tags = "1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 14")]
    pub(crate) event: Option<SpawnerEvent>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum SpawnerEvent {
    /// The spawner is ready for orders.
    #[prost(message, tag = "1")]
    Ready(Ready),
    /// The spawner cannot be set up as configured, and ends.
    #[prost(message, tag = "2")]
    NotReady(Unfitness),
    /// Answers [`OrderKind::Lease`].
    #[prost(message, tag = "3")]
    Leased(Leased),
    /// A worker ended, or could not be started.
    #[prost(message, tag = "4")]
    WorkerEnded(WorkerEnded),
    /// A lease has been released, perhaps after it was quarantined.
    #[prost(uint64, tag = "5")]
    Released(u64),
    /// A lease cannot be ended yet; reported once. The spawner tries again.
    #[prost(message, tag = "12")]
    Quarantined(Quarantined),
    /// Answers [`OrderKind::Beat`].
    #[prost(uint64, tag = "13")]
    Beat(u64),
    /// Number of ended processes since the start whose parent had ended before them.
    /// Sent with an answered heartbeat if it has changed.
    #[prost(uint64, tag = "14")]
    Orphans(u64),
    /// Path, from the directory of workspaces, of a leftover of an earlier start that cannot be
    /// removed.
    #[prost(string, tag = "6")]
    Left(String),
    /// A request exceeded a limit; reported once.
    #[prost(message, tag = "7")]
    LimitExceeded(LimitExceeded),
    /// Usage of requests, after they were measured.
    #[prost(message, tag = "8")]
    Usage(UsageReport),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Ready {
    /// Most leases at one time.
    #[prost(uint32, tag = "1")]
    pub(crate) leases: u32,
    /// The isolation tier in use.
    #[prost(enumeration = "Tier", tag = "2")]
    pub(crate) tier: i32,
    /// Version of Landlock that the kernel enforces; 0 for none.
    #[prost(int32, tag = "3")]
    pub(crate) landlock: i32,
    /// Reasons why stronger tiers are not available, one sentence each.
    #[prost(string, repeated, tag = "4")]
    pub(crate) missing: Vec<String>,
    /// Directory of all workspaces.
    #[prost(string, tag = "5")]
    pub(crate) root: String,
    /// The kernel does not enforce `RLIMIT_NPROC`.
    #[prost(bool, tag = "6")]
    pub(crate) unlimited: bool,
    /// Files of the image that requests look up and their modes hide.
    #[prost(string, repeated, tag = "7")]
    pub(crate) closed: Vec<String>,
    /// Reason why requests have no cgroups; absent if they have.
    #[prost(string, optional, tag = "20")]
    pub(crate) no_cgroups: Option<String>,
    /// Consequence of sockets that cannot be listed; absent if they can.
    #[prost(string, optional, tag = "21")]
    pub(crate) unlisted_sockets: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Leased {
    #[prost(uint64, tag = "1")]
    pub(crate) job: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) lease: u64,
    #[prost(uint32, tag = "3")]
    pub(crate) uid: u32,
    /// No guard and no observer waits for its commands: only the spawner reports their
    /// ends.
    #[prost(bool, tag = "4")]
    pub(crate) is_alone: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WorkerEnded {
    #[prost(uint64, tag = "1")]
    pub(crate) job: u64,
    #[prost(oneof = "WorkerEnd", tags = "2, 3")]
    pub(crate) end: Option<WorkerEnd>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum WorkerEnd {
    #[prost(message, tag = "2")]
    Exited(Exited),
    /// No worker was started, for this reason.
    #[prost(string, tag = "3")]
    NotStarted(String),
}

impl RequestLimits {
    /// The limit that was exceeded, if that is known.
    pub(crate) fn limit(&self, excess: ExceededLimit) -> Option<u64> {
        match excess {
            ExceededLimit::Memory => self.memory,
            ExceededLimit::Disk => self.disk,
            ExceededLimit::Files => self.files,
            ExceededLimit::Processes => self.processes,
            ExceededLimit::Watches => self.watches,
            ExceededLimit::HiddenFiles => self.file_size,
            ExceededLimit::TotalMemory
            | ExceededLimit::TotalProcesses
            | ExceededLimit::TotalDisk
            | ExceededLimit::TotalPorts
            | ExceededLimit::Container
            | ExceededLimit::Unmeasured => None,
        }
    }

    /// No limit at all.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self {
        memory: None,
        disk: None,
        files: None,
        file_size: None,
        processes: None,
        watches: None,
    };

    /// Returns true if any limit needs measuring.
    pub(crate) fn are_set(&self) -> bool {
        [self.memory, self.disk, self.files].iter().any(Option::is_some)
    }
}

impl From<OrderKind> for Order {
    fn from(what: OrderKind) -> Self {
        Self { what: Some(what) }
    }
}

impl From<SpawnerEvent> for SpawnerReport {
    fn from(event: SpawnerEvent) -> Self {
        Self { event: Some(event) }
    }
}
