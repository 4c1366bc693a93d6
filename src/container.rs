//! The limits of the container: memory, processes, processors, descriptors and
//! the work volume.
//!
//! Reads only; [`crate::budget`] decides what follows from the limits.

mod cgroup;
mod descriptors;
mod oom;
mod throttling;
mod volume;

use std::{fs, path::Path};

use cmp_procfs::Fields;
use serde::{Deserialize, Serialize};

use self::cgroup::{Cgroups, Controller};
pub use self::{
    descriptors::{MAX_DESCRIPTORS, raise_descriptors},
    oom::{NoKill, OomCounter, OomKill},
    throttling::CpuPeriods,
    volume::Volume,
};
use crate::metrics::Contained;

/// A limit, and its source for people.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// The limit.
    pub amount: u64,
    /// The file or system call that tells it, such as `cgroup v2 memory.max`.
    pub source: String,
    /// False if the node sets it, because the container has no limit.
    pub is_own: bool,
}

/// The limits of a container.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Bytes of memory, files in memory included.
    pub memory: Bound,
    /// Processes and threads.
    pub processes: Bound,
    /// Thousandths of a processor.
    pub cpu: Bound,
    /// File descriptors of the supervisor.
    pub descriptors: Bound,
    /// The volume of the work directory.
    pub volume: Volume,
    /// Limits that cannot be read, one sentence each, with the remedy.
    pub unknown: Vec<String>,
}

/// Limits for a node that does not tell its own.
const UNKNOWN_MEMORY: u64 = 1 << 30;
const UNKNOWN_PROCESSES: u64 = 32_768;

/// The source of that memory.
const ASSUMED: &str = "assumed";

/// The warnings of limits that cannot be read.
const HIDDEN_CGROUP: &str = "the container's own cgroup is not visible at /sys/fs/cgroup: its \
                             limits are unknown: set --max-memory and --max-requests, or mount \
                             its own cgroup namespace there";
const NO_MEMINFO: &str =
    "/proc/meminfo cannot be read, so 1Gi of memory is assumed: let the container read it";

/// Thousandths of one processor.
pub(crate) const PROCESSOR: u64 = 1000;

impl Container {
    /// Reads all limits. What cannot be read counts as not limited by the
    /// container; the node's own limit applies then.
    #[must_use]
    pub fn read(work_dir: &Path) -> Self {
        let cgroups = Cgroups::find();
        let tightest = |controller, node: fn() -> Bound| tighter(cgroups.limit(controller), node());
        let memory = memory();
        let unknown =
            [(cgroups.are_hidden(), HIDDEN_CGROUP), (memory.source == ASSUMED, NO_MEMINFO)];
        let unknown = unknown.into_iter().filter(|(is_so, _)| *is_so);
        let volume = Volume::read(work_dir, memory.amount);
        Self {
            memory,
            processes: tightest(Controller::Processes, node_processes),
            cpu: tightest(Controller::Cpu, node_processors),
            descriptors: descriptors::read(),
            volume,
            unknown: unknown.map(|(_, text)| text.to_owned()).collect(),
        }
    }

    /// Processors, for people: `1.5`.
    #[must_use]
    pub fn processors(&self) -> String {
        let (whole, part) = (self.cpu.amount / PROCESSOR, self.cpu.amount % PROCESSOR);
        if part == 0 { whole.to_string() } else { format!("{whole}.{:02}", part / 10) }
    }

    /// Resources and their limits.
    #[must_use]
    pub fn bounds(&self) -> [(Contained, &Bound); 4] {
        let Self { memory, processes, cpu, descriptors, volume: _, unknown: _ } = self;
        [
            (Contained::Memory, memory),
            (Contained::Processes, processes),
            (Contained::Cpu, cpu),
            (Contained::Descriptors, descriptors),
        ]
    }

    /// The use of resources, as far as the container's cgroup tells it.
    #[must_use]
    pub fn used() -> Vec<(Contained, u64)> {
        let cgroups = Cgroups::find();
        let used = |name, controller| Some((name, cgroups.used(controller)?));
        let memory = used(Contained::Memory, Controller::Memory);
        memory.into_iter().chain(used(Contained::Processes, Controller::Processes)).collect()
    }

    /// The limits now, for a container that may have been resized. The free space
    /// of a disk stays as it was, because running requests use some of it.
    #[must_use]
    pub fn read_again(&self, work_dir: &Path) -> Self {
        let now = Self::read(work_dir);
        let volume = self.volume.resized(now.volume);
        Self { volume, ..now }
    }
}

/// True if the kernel kills all processes of the container together for lack of
/// memory, and not only the one that it chooses.
#[must_use]
pub fn is_killed_together() -> bool {
    Cgroups::find().are_killed_together()
}

/// The limit of memory.
fn memory() -> Bound {
    tighter(Cgroups::find().limit(Controller::Memory), node_memory())
}

/// The container's limit if it is below the node's, and else the node's.
fn tighter(own: Option<Bound>, node: Bound) -> Bound {
    own.filter(|own| own.amount < node.amount).unwrap_or(node)
}

fn node(amount: u64, source: &str) -> Bound {
    Bound { amount, source: source.to_owned(), is_own: false }
}

fn node_memory() -> Bound {
    let total = Fields::read("/proc/meminfo").ok().and_then(|table| table.bytes("MemTotal"));
    total.map_or_else(|| node(UNKNOWN_MEMORY, ASSUMED), |total| node(total, "MemTotal of the node"))
}

fn node_processes() -> Bound {
    let number = |path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let pids = number("/proc/sys/kernel/pid_max").unwrap_or(UNKNOWN_PROCESSES);
    match number("/proc/sys/kernel/threads-max") {
        Some(threads) if threads < pids => node(threads, "kernel.threads-max of the node"),
        Some(_) | None => node(pids, "kernel.pid_max of the node"),
    }
}

fn node_processors() -> Bound {
    let status = Fields::own_status().ok();
    let mask = status.as_ref().and_then(|status| status.value("Cpus_allowed"));
    let ones = |digit: char| digit.to_digit(16).map_or(0, u32::count_ones);
    let count: u32 = mask.unwrap_or_default().chars().map(ones).sum();
    node(u64::from(count.max(1)) * PROCESSOR, "processors of the node")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_above_what_the_node_has_is_no_limit_of_the_container() {
        let own = |amount| Some(Bound { is_own: true, ..node(amount, "a limit") });
        for (limit, is_own) in [(own(3), true), (own(4), false), (own(5), false), (None, false)] {
            let bound = tighter(limit, node(4, "the node"));
            assert_eq!((bound.is_own, bound.amount), (is_own, if is_own { 3 } else { 4 }));
        }
    }
}
