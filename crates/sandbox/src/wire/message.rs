//! What the supervisor and the spawner say to each other.
//!
//! The spawner holds the privilege, so it is told as little as possible: which
//! lease, what sort of job, how long to wait. Commands, environments and paths
//! go past it, straight to the worker.

#![expect(clippy::too_many_arguments, reason = "of the code that prost derives")]

use prost::{Message, Oneof};

use super::{exceeded::ExceededLimit, plan::RawUsage, shortage::Unfitness, tier::Tier};

/// Supervisor to spawner.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Order {
    #[prost(oneof = "OrderKind", tags = "1, 2, 3, 4, 5, 6")]
    pub(crate) what: Option<OrderKind>,
}

/// The orders there are.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum OrderKind {
    /// Find a free identity for a request, and fork its first worker; its
    /// socket comes along, and the archive.
    #[prost(message, tag = "1")]
    Lease(LeaseOrder),
    /// Fork a further worker, for a command; its socket comes along.
    #[prost(message, tag = "2")]
    Start(StartOrder),
    /// Ask everything under a lease to end (SIGTERM).
    #[prost(message, tag = "3")]
    Stop(StopOrder),
    /// End everything under a lease, remove its files, take it back.
    #[prost(message, tag = "4")]
    Release(ReleaseOrder),
    /// A command runs: look at what it takes from now on.
    #[prost(message, tag = "6")]
    Watch(WatchOrder),
    /// The first order, once.
    #[prost(message, tag = "5")]
    Setup(SetupOrder),
}

/// What the spawner has to know before there can be leases.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SetupOrder {
    /// Tiers to try, the first that can be had in full counts.
    #[prost(enumeration = "TierName", repeated, tag = "1")]
    pub(crate) tiers: Vec<i32>,
    /// First user that may be leased, and how many follow it.
    #[prost(uint32, tag = "2")]
    pub(crate) first_uid: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) uid_count: u32,
    /// Most leases at a time.
    #[prost(uint32, tag = "4")]
    pub(crate) leases: u32,
    /// Where workspaces are made; the spawner makes a directory in it.
    #[prost(string, tag = "5")]
    pub(crate) work_dir: String,
    /// Whom a spawner that is root becomes when it shares its user.
    #[prost(uint32, tag = "6")]
    pub(crate) shared_uid: u32,
    /// Paths that no tenant may open, whatever else allows it.
    #[prost(string, repeated, tag = "7")]
    pub(crate) hidden: Vec<String>,
    /// Directories of programs, which every tenant may read.
    #[prost(string, repeated, tag = "8")]
    pub(crate) programs: Vec<String>,
    /// Distinct users will do where the kernel has no Landlock.
    #[prost(bool, tag = "9")]
    pub(crate) accept_no_landlock: bool,
}

/// [`Tier`] on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
pub(crate) enum TierName {
    None = 0,
    Landlock = 1,
    Uid = 2,
    Namespaces = 3,
}

impl From<Tier> for TierName {
    fn from(tier: Tier) -> Self {
        match tier {
            Tier::None => Self::None,
            Tier::Landlock => Self::Landlock,
            Tier::Uid => Self::Uid,
            Tier::Namespaces => Self::Namespaces,
        }
    }
}

impl From<TierName> for Tier {
    fn from(name: TierName) -> Self {
        match name {
            TierName::None => Self::None,
            TierName::Landlock => Self::Landlock,
            TierName::Uid => Self::Uid,
            TierName::Namespaces => Self::Namespaces,
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseOrder {
    /// Chosen by the supervisor and repeated in the answer, and when the lease's
    /// first worker ends.
    #[prost(uint64, tag = "1")]
    pub(crate) ticket: u64,
    /// What that worker is for.
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

/// What a worker may reach beyond what all may. The operator wrote it, in
/// definitions and flags; no tenant did.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Grants {
    /// Paths to read.
    #[prost(string, repeated, tag = "1")]
    pub(crate) read: Vec<String>,
    /// Whose caches they are: a file name.
    #[prost(string, tag = "2")]
    pub(crate) owner: String,
    /// File names of the owner's caches.
    #[prost(string, repeated, tag = "3")]
    pub(crate) caches: Vec<String>,
    /// What may be taken in all.
    #[prost(message, required, tag = "4")]
    pub(crate) limits: RequestLimits,
}

/// What all processes and files of a request may take together; `None` for
/// no limit.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct RequestLimits {
    /// Bytes of memory.
    #[prost(uint64, optional, tag = "1")]
    pub(crate) memory: Option<u64>,
    /// Bytes on disk.
    #[prost(uint64, optional, tag = "2")]
    pub(crate) disk: Option<u64>,
    /// Files and directories.
    #[prost(uint64, optional, tag = "3")]
    pub(crate) files: Option<u64>,
    /// Bytes of each file, which the kernel sees to: the most that a file can
    /// have whose size cannot be seen.
    #[prost(uint64, optional, tag = "4")]
    pub(crate) file_size: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct WatchOrder {
    #[prost(uint64, tag = "1")]
    pub(crate) lease: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct StopOrder {
    #[prost(uint64, tag = "1")]
    pub(crate) lease: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ReleaseOrder {
    #[prost(uint64, tag = "1")]
    pub(crate) lease: u64,
    /// Time between SIGTERM and SIGKILL; 0 for SIGKILL at once.
    #[prost(uint32, tag = "2")]
    pub(crate) grace_ms: u32,
}

/// What a worker is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
pub(crate) enum JobKind {
    /// Unpack an archive, and then become the first command.
    Unpack = 0,
    /// Become a further command.
    Run = 1,
    /// Attack what a tenant must not reach, and tell what succeeded.
    Canary = 2,
}

/// Spawner to supervisor.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SpawnerReport {
    #[prost(oneof = "SpawnerEvent", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub(crate) event: Option<SpawnerEvent>,
}

/// The reports there are.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum SpawnerEvent {
    /// The spawner can do what it was set up for.
    #[prost(message, tag = "1")]
    Ready(Ready),
    /// It cannot, and ends.
    #[prost(message, tag = "2")]
    NotReady(Unfitness),
    /// Answers [`OrderKind::Lease`].
    #[prost(message, tag = "3")]
    Leased(Leased),
    /// A worker ended, or could not be started.
    #[prost(message, tag = "4")]
    WorkerEnded(WorkerEnded),
    /// A lease was taken back; nothing of it is left, or it is quarantined.
    #[prost(message, tag = "5")]
    Released(Released),
    /// Something of an earlier start, by its name, that cannot be removed.
    #[prost(string, tag = "6")]
    Left(String),
    /// A request took more than it may; told once.
    #[prost(message, tag = "7")]
    LimitExceeded(LimitExceeded),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Ready {
    /// How many leases there can be at a time.
    #[prost(uint32, tag = "1")]
    pub(crate) leases: u32,
    /// The tier that is had.
    #[prost(enumeration = "TierName", tag = "2")]
    pub(crate) tier: i32,
    /// The version of Landlock that is enforced, 0 for none.
    #[prost(int32, tag = "3")]
    pub(crate) landlock: i32,
    /// Why no stronger tier is had, a sentence for each.
    #[prost(string, repeated, tag = "4")]
    pub(crate) missing: Vec<String>,
    /// The directory of workspaces.
    #[prost(string, tag = "5")]
    pub(crate) root: String,
    /// The kernel does not enforce limits of processes.
    #[prost(bool, tag = "6")]
    pub(crate) unlimited: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Leased {
    #[prost(uint64, tag = "1")]
    pub(crate) ticket: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) lease: u64,
    #[prost(uint32, tag = "3")]
    pub(crate) uid: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WorkerEnded {
    #[prost(uint64, tag = "1")]
    pub(crate) job: u64,
    /// Status as wait4(2) gives it; meaningless with a failure.
    #[prost(int32, tag = "2")]
    pub(crate) status: i32,
    #[prost(message, required, tag = "3")]
    pub(crate) used: RawUsage,
    /// Why there was no worker at all; empty when there was one.
    #[prost(string, tag = "4")]
    pub(crate) failure: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Released {
    #[prost(uint64, tag = "1")]
    pub(crate) lease: u64,
    /// Something was left that could not be ended or removed.
    #[prost(bool, tag = "2")]
    pub(crate) quarantined: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LimitExceeded {
    #[prost(uint64, tag = "1")]
    pub(crate) lease: u64,
    #[prost(enumeration = "ExceededLimitName", tag = "2")]
    pub(crate) what: i32,
}

/// [`ExceededLimit`] on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
pub(crate) enum ExceededLimitName {
    Unmeasured = 0,
    Memory = 1,
    Disk = 2,
    Files = 3,
}

impl From<ExceededLimit> for ExceededLimitName {
    fn from(excess: ExceededLimit) -> Self {
        match excess {
            ExceededLimit::Unmeasured => Self::Unmeasured,
            ExceededLimit::Memory => Self::Memory,
            ExceededLimit::Disk => Self::Disk,
            ExceededLimit::Files => Self::Files,
        }
    }
}

impl From<ExceededLimitName> for ExceededLimit {
    fn from(name: ExceededLimitName) -> Self {
        match name {
            ExceededLimitName::Unmeasured => Self::Unmeasured,
            ExceededLimitName::Memory => Self::Memory,
            ExceededLimitName::Disk => Self::Disk,
            ExceededLimitName::Files => Self::Files,
        }
    }
}

impl RequestLimits {
    /// The limit that was exceeded, if that is known.
    pub(crate) fn limit(&self, excess: ExceededLimit) -> Option<u64> {
        match excess {
            ExceededLimit::Memory => self.memory,
            ExceededLimit::Disk => self.disk,
            ExceededLimit::Files => self.files,
            ExceededLimit::Unmeasured => None,
        }
    }

    /// Whether there is anything to be measured for.
    pub(crate) fn are_set(&self) -> bool {
        [self.memory, self.disk, self.files].iter().any(Option::is_some)
    }
}

impl Order {
    pub(crate) const fn lease(ticket: u64, kind: JobKind, grants: Grants) -> Self {
        Self { what: Some(OrderKind::Lease(LeaseOrder { ticket, kind: kind as i32, grants })) }
    }

    pub(crate) const fn start(lease: u64, job: u64, grants: Grants) -> Self {
        Self { what: Some(OrderKind::Start(StartOrder { lease, job, grants })) }
    }

    pub(crate) const fn watch(lease: u64) -> Self {
        Self { what: Some(OrderKind::Watch(WatchOrder { lease })) }
    }

    pub(crate) const fn stop(lease: u64) -> Self {
        Self { what: Some(OrderKind::Stop(StopOrder { lease })) }
    }

    pub(crate) const fn release(lease: u64, grace_ms: u32) -> Self {
        Self { what: Some(OrderKind::Release(ReleaseOrder { lease, grace_ms })) }
    }
}

impl From<SpawnerEvent> for SpawnerReport {
    fn from(event: SpawnerEvent) -> Self {
        Self { event: Some(event) }
    }
}
