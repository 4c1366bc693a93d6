//! Kills processes that survived an earlier supervisor.

use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use nix::{sys::wait::waitpid, unistd::Uid};

use super::{
    kill::sweep,
    process_check::has_visible_process,
    uid_pool::{UidPair, UidPool},
};
use crate::kernel::fork::SingleThreaded;

/// Longest wait for these processes to end. They end within milliseconds unless
/// the kernel is stuck.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two rounds of SIGKILL.
const KILL_AGAIN: Duration = Duration::from_millis(5);

/// Kills all processes of the UIDs that own a workspace.
///
/// The directory of workspaces is locked, so an owner of a workspace in it was
/// the UID of a request whose supervisor has ended. UIDs outside the range,
/// with an account, or claimed by another supervisor are skipped. None of these
/// UIDs is leased now, because a UID with a process is not claimed.
pub(super) fn end(fork: SingleThreaded, uids: &mut UidPool, owners: impl Iterator<Item = Uid>) {
    let owners: BTreeSet<u32> = owners.map(Uid::as_raw).collect();
    let is_claimed =
        |owner: &u32| has_visible_process(Uid::from_raw(*owner)) && uids.claim_left(*owner);
    let mut left: Vec<Uid> = owners.into_iter().filter(is_claimed).map(Uid::from_raw).collect();
    let Some(killer) = uids.any_killer() else { return };
    let until = Instant::now() + PATIENCE;
    loop {
        left.retain(|owner| has_visible_process(*owner));
        if left.is_empty() || Instant::now() > until {
            return;
        }
        for owner in &left {
            // One at a time: two killers with the same UID could kill each
            // other.
            let pair = UidPair { killer, tenant: *owner };
            if let Ok(killer) = fork.fork(|| sweep(pair)) {
                let _ = waitpid(killer, None);
            }
        }
        thread::sleep(KILL_AGAIN);
    }
}
