//! Limits that the kernel enforces for each process.

use nix::{
    errno::Errno,
    sys::{
        resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit},
        time::{TimeVal, TimeValLike},
    },
};

use crate::wire::plan::{Plan, RawUsage};

const MIB: u64 = 1024 * 1024;

/// CPU seconds between SIGXCPU, which reports the limit, and SIGKILL. Without
/// them, neither the program nor its user would learn of the limit.
const CPU_GRACE: u64 = 2;

/// Limits of a process; each of its children gets them separately.
#[derive(Clone, Debug)]
pub(crate) struct ProcessLimits(Vec<(Resource, u64)>);

impl ProcessLimits {
    /// Limits of the spawner, which all workers inherit. They prevent core
    /// files and protect resources that all UIDs share.
    pub(crate) fn inherited() -> Self {
        Self(vec![
            (Resource::RLIMIT_CORE, 0),
            (Resource::RLIMIT_MSGQUEUE, 0),
            (Resource::RLIMIT_MEMLOCK, 64 * 1024),
            (Resource::RLIMIT_SIGPENDING, 1024),
            (Resource::RLIMIT_NOFILE, 4096),
            (Resource::RLIMIT_STACK, 64 * MIB),
        ])
    }

    /// The limits of a plan.
    pub(crate) fn of(plan: &Plan) -> Result<Self, Errno> {
        // The kernel counts CPU time from the start of this process.
        let used = used()?;
        let before = (used.user_us + used.system_us).div_ceil(1_000_000);
        let cpu = plan.max_cpu_seconds.map(|seconds| seconds.saturating_add(before));
        let all = [
            // Not the address space, because runtimes reserve tens of gigabytes
            // of it.
            (Resource::RLIMIT_DATA, plan.max_memory),
            (Resource::RLIMIT_NPROC, plan.max_processes),
            (Resource::RLIMIT_FSIZE, plan.max_file_size),
            (Resource::RLIMIT_CPU, cpu),
        ];
        let limited = all.into_iter().filter_map(|(resource, limit)| Some((resource, limit?)));
        Ok(Self(limited.collect()))
    }

    /// Sets all limits. Lower limits that exist already stay.
    pub(crate) fn install(&self) -> Result<(), Errno> {
        for (resource, limit) in &self.0 {
            let (_, hard) = getrlimit(*resource)?;
            let soft = (*limit).min(hard);
            let grace = if *resource == Resource::RLIMIT_CPU { CPU_GRACE } else { 0 };
            setrlimit(*resource, soft, soft.saturating_add(grace).min(hard))?;
        }
        Ok(())
    }
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
        let ProcessLimits(all) = ProcessLimits::of(&plan).unwrap();
        assert_eq!(all, [(Resource::RLIMIT_CPU, u64::MAX)]);
    }
}
