//! Lowers the priority of all processes of a request, and keeps a crowd of them
//! on few processors.

use std::io;

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use rustix::process::{Uid, setpriority_process, setpriority_user};

use super::{kill, meter, uid_pool::UidPair};

/// The lowest priority. Not `SCHED_IDLE`: processes that were killed need
/// CPU time to end, and would hardly get any.
const LOWEST: i32 = 19;

/// Runs in a child. The tenant cannot undo the priority, because its limit of
/// priorities is 0. `pen` is for a crowd.
pub(super) fn run(uids: Option<UidPair>, workers: &[Pid], pen: Option<CpuSet>) -> i32 {
    if uids.is_some_and(|uids| lower_user(uids).is_err()) {
        return 1;
    }
    if uids.is_none() {
        lower_below(workers);
    }
    if let Some(pen) = pen {
        confine(uids, workers, &pen);
    }
    0
}

/// One call reaches all processes. New ones inherit it.
fn lower_user(uids: UidPair) -> io::Result<()> {
    kill::drop_rights(uids)?;
    Ok(setpriority_user(Uid::from_raw(uids.tenant.as_raw()), LOWEST)?)
}

fn lower_below(workers: &[Pid]) {
    for thread in meter::tenant_threads(None, workers) {
        let thread = rustix::process::Pid::from_raw(thread.cast_signed());
        // It may have ended.
        let _ = setpriority_process(thread, LOWEST);
    }
}

/// The processors for a crowd: as many as the container may use, if it runs on
/// more. `turn` spreads crowds over them.
///
/// The kernel gives a container's time to its processors in turns, whatever the
/// priority of who runs there. A crowd on all of them leaves nothing to others: on
/// Linux 6.18, 200 busy processes in a container with one of two processors stopped
/// the supervisor for minutes. A crowd in a pen leaves other processors to others.
pub(super) fn pen(processors: usize, turn: usize) -> Option<CpuSet> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let all: Vec<usize> =
        (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
    if processors >= all.len() {
        return None;
    }
    let mut pen = CpuSet::new();
    for cpu in all.iter().cycle().skip(turn % all.len()).take(processors) {
        pen.set(*cpu).ok()?;
    }
    Some(pen)
}

fn confine(uids: Option<UidPair>, workers: &[Pid], pen: &CpuSet) {
    for thread in meter::tenant_threads(uids.map(|uids| uids.tenant), workers) {
        // It may have ended.
        let _ = sched_setaffinity(Pid::from_raw(thread.cast_signed()), pen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(set: &CpuSet) -> usize {
        (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap()).count()
    }

    #[test]
    fn a_pen_leaves_processors_to_others() {
        let all = count(&sched_getaffinity(Pid::from_raw(0)).unwrap());
        assert!(pen(all, 0).is_none(), "the container may use all of them");
        for turn in 0..2 * all {
            let pen = pen(all - 1, turn);
            assert_eq!(pen.map(|pen| count(&pen)), Some(all - 1), "turn {turn}");
        }
    }
}
