//! Gives the free memory of the supervisor back.

use cmp_procfs::Fields;
use cmp_sandbox::give_back_free_memory;
use tokio::task::spawn_blocking;

/// Growth of the supervisor's own memory after which it gives free memory back while calls
/// run, in bytes: a sixth of its share of a small container. Each thread that converts
/// outputs keeps what it has freed.
const GROWTH: u64 = 16 << 20;

/// Number of connections after whose end the supervisor gives free memory back, because each
/// took 20 KiB: clients may make no further call.
const CROWD: usize = 800;

/// Knows when free memory was given back.
#[derive(Debug, Default)]
pub(super) struct Heap {
    /// Calls that had ended then, if none ran.
    rested_after: u64,
    /// Least memory since then, in bytes.
    least: Option<u64>,
    /// Most open connections since then.
    most: usize,
}

impl Heap {
    /// Gives free memory back after the last of many calls, and while calls run after
    /// growth. `ended` is the number of calls so far, and `is_idle` is true if none runs.
    /// Of `connections` that are open, many fewer than before are a reason too.
    /// Each MiB takes a quarter of a millisecond, so connections do not wait for it.
    pub(super) async fn give_back(&mut self, ended: u64, is_idle: bool, connections: usize) {
        let are_gone = self.are_gone(connections);
        if self.is_due(ended, is_idle, own_memory()) || are_gone {
            // It fails only if the runtime ends.
            let _ = spawn_blocking(give_back_free_memory).await;
            self.given_back(own_memory());
            self.most = connections;
        }
    }

    fn are_gone(&mut self, connections: usize) -> bool {
        self.most = self.most.max(connections);
        self.most - connections >= CROWD
    }

    fn given_back(&mut self, memory: Option<u64>) {
        self.least = memory;
    }

    fn is_due(&mut self, ended: u64, is_idle: bool, memory: Option<u64>) -> bool {
        let has_rested = is_idle && ended != self.rested_after;
        if has_rested {
            self.rested_after = ended;
        }
        let least = self.least.into_iter().chain(memory).min();
        self.least = least;
        let has_grown = memory.zip(least).is_some_and(|(memory, least)| memory - least >= GROWTH);
        has_rested || has_grown
    }
}

/// The memory of this process that no file has, in bytes; `None` without `/proc`.
fn own_memory() -> Option<u64> {
    Fields::own_status().ok()?.bytes("RssAnon")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn free_memory_is_given_back_after_the_last_call() {
        let mut heap = Heap::default();
        assert!(!heap.is_due(0, true, Some(MIB)), "no call yet");
        assert!(!heap.is_due(3, false, Some(MIB)), "one runs");
        assert!(heap.is_due(4, true, Some(MIB)));
        assert!(!heap.is_due(4, true, Some(MIB)), "it was");
        assert!(heap.is_due(5, true, None));
    }

    #[test]
    fn free_memory_is_given_back_after_many_connections_have_closed() {
        let mut heap = Heap::default();
        assert!(!heap.are_gone(CROWD), "all are open");
        assert!(!heap.are_gone(1), "few are closed");
        assert!(heap.are_gone(0));
        assert!(!heap.are_gone(2 * CROWD));
        heap.most = CROWD;
        assert!(!heap.are_gone(CROWD), "those were reckoned with");
    }

    #[test]
    fn free_memory_is_given_back_after_growth_while_calls_run() {
        let mut heap = Heap::default();
        let mut grown_to = |mib| heap.is_due(1, false, Some(mib * MIB));
        assert!(!grown_to(30), "the first measurement");
        assert!(!grown_to(45));
        assert!(grown_to(46));
        assert!(!grown_to(20), "others gave memory back");
        assert!(grown_to(36));
        heap.given_back(Some(36 * MIB));
        assert!(!heap.is_due(1, false, Some(40 * MIB)), "the rest is in use");
    }
}
