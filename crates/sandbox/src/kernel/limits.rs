//! Limits that the kernel enforces for each process.

use nix::{
    errno::Errno,
    sys::{
        resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit},
        time::{TimeVal, TimeValLike},
    },
};

use rustix::process::nice;

use crate::wire::plan::{Plan, RawUsage};

/// Distance in priority between tenants and the supervisor. It gives a tenant a
/// third of the supervisor's share of a busy processor.
const NICER: i32 = 5;

const MIB: u64 = 1024 * 1024;

/// Largest stack, and the usual one. Each new thread gets a stack of the soft limit,
/// which counts as memory: Node.js waits forever for threads that cannot get theirs.
const MAX_STACK: u64 = 64 * MIB;
const STACK: u64 = 8 * MIB;

/// Descriptors of a command.
const DESCRIPTORS: u64 = 4096;

/// CPU seconds between SIGXCPU, which reports the limit, and SIGKILL. Without
/// them, neither the program nor its user would learn of the limit.
const CPU_GRACE: u64 = 2;

/// Limits of a process; each of its children gets them separately.
#[derive(Clone, Debug)]
pub(crate) struct ProcessLimits(Vec<(Resource, u64)>);

impl ProcessLimits {
    /// Limits of the spawner, which all workers inherit. They prevent core dumps and protect
    /// resources that all UIDs share.
    pub(crate) fn inherited() -> Self {
        Self(vec![
            // The kernel dumps into the node's program (`core_pattern`) even with 0, not with 1.
            (Resource::RLIMIT_CORE, 1),
            (Resource::RLIMIT_MSGQUEUE, 0),
            (Resource::RLIMIT_MEMLOCK, 64 * 1024),
            (Resource::RLIMIT_SIGPENDING, 1024),
            // As many as the container allows, until a command starts.
            (Resource::RLIMIT_NOFILE, u64::MAX),
            (Resource::RLIMIT_STACK, MAX_STACK),
            // Tenants cannot raise their priority again.
            (Resource::RLIMIT_NICE, 0),
            (Resource::RLIMIT_RTPRIO, 0),
        ])
    }

    /// The limits of a plan. Without a UID of its own, the kernel would count
    /// the processes of all requests, and of everybody else with this UID on the
    /// node; the spawner counts them instead.
    pub(crate) fn of(plan: &Plan, has_own_uid: bool) -> Result<Self, Errno> {
        // The kernel counts CPU time from the start of this process.
        let used = used()?;
        let before = (used.user_us + used.system_us).div_ceil(1_000_000);
        let cpu = plan.max_cpu_seconds.map(|seconds| seconds.saturating_add(before));
        let all = [
            // Not the address space, because runtimes reserve tens of gigabytes
            // of it.
            (Resource::RLIMIT_DATA, plan.max_memory),
            (Resource::RLIMIT_NPROC, plan.max_processes.filter(|_| has_own_uid)),
            (Resource::RLIMIT_FSIZE, plan.max_file_size),
            (Resource::RLIMIT_CPU, cpu),
        ];
        let limited = all.into_iter().filter_map(|(resource, limit)| Some((resource, limit?)));
        Ok(Self(limited.collect()))
    }

    /// Sets all limits. Lower limits that exist already stay.
    pub(crate) fn install(&self) -> Result<(), Errno> {
        for (resource, limit) in &self.0 {
            let (now, hard) = getrlimit(*resource)?;
            let own = (*resource == Resource::RLIMIT_STACK).then_some(now);
            let soft = own.map_or(*limit, |own| if own > *limit { STACK } else { own }).min(hard);
            let grace = if *resource == Resource::RLIMIT_CPU { CPU_GRACE } else { 0 };
            let most = (*limit).saturating_add(grace).min(hard);
            setrlimit(*resource, soft, most)?;
        }
        Ok(())
    }
}

/// Limits the descriptors of this process and its descendants.
///
/// For all processes of a UID together, the kernel counts the descriptors in messages that
/// nobody has received, and compares the number with the limit of the next
/// sender. In tiers without separate UIDs, a tenant that reaches its own limit must not stop
/// the spawner and workers from sending theirs, so it has at most half of their limit.
pub(crate) fn lower_descriptors() -> Result<(), Errno> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let limit = DESCRIPTORS.min(hard / 2);
    setrlimit(Resource::RLIMIT_NOFILE, limit, limit)
}

/// Lowers the priority of this process and its descendants below that of
/// supervisor and spawner.
pub(crate) fn lower_priority() -> Result<(), Errno> {
    nice(NICER).map(drop).map_err(|error| Errno::from_raw(error.raw_os_error()))
}

/// CPU time that this process has used before it executes the command.
pub(crate) fn used() -> Result<RawUsage, Errno> {
    let used = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = |time: TimeVal| u64::try_from(time.num_microseconds()).unwrap_or_default();
    let (user_us, system_us) = (micros(used.user_time()), micros(used.system_time()));
    Ok(RawUsage { user_us, system_us, max_rss_kib: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_cpu_limit_is_still_a_limit() {
        let plan = Plan { max_cpu_seconds: Some(u64::MAX), ..Plan::default() };
        let ProcessLimits(all) = ProcessLimits::of(&plan, true).unwrap();
        assert_eq!(all, [(Resource::RLIMIT_CPU, u64::MAX)]);
    }

    #[test]
    fn the_kernel_counts_processes_only_of_a_uid_that_is_not_shared() {
        let plan = Plan { max_processes: Some(7), ..Plan::default() };
        let of = |has_own_uid| ProcessLimits::of(&plan, has_own_uid).unwrap().0;
        assert_eq!(of(true), [(Resource::RLIMIT_NPROC, 7)]);
        assert_eq!(of(false), []);
    }
}
