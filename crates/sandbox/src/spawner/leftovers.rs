//! Processes that outlived the supervisor whose requests they were.

use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::{signal::Signal, wait::waitpid},
    unistd::Uid,
};

use super::{
    clean::has_visible_process,
    kill::kill_all,
    uid_pool::{UidPair, UidPool},
};
use crate::kernel::fork::SingleThreaded;

/// How long a start waits for all of them to be gone. They are gone in
/// milliseconds unless the kernel is stuck.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time between two rounds of SIGKILL.
const KILL_AGAIN: Duration = Duration::from_millis(5);

/// Ends everything of the users that own a workspace.
///
/// A directory among the workspaces, which are locked for this process, proves
/// that its owner was a request's user, and that the supervisor of that request
/// is gone. A user that is not of the range, that belongs to somebody or that
/// another supervisor has claimed is left alone all the same. None of these
/// users is leased: whoever had a process at the start was passed over.
pub(super) fn end(fork: SingleThreaded, uids: &UidPool, owners: impl Iterator<Item = Uid>) {
    let owners: BTreeSet<u32> = owners.map(Uid::as_raw).collect();
    let claimed = |owner| Some((Uid::from_raw(owner), uids.claim_left(owner)?));
    let mut left: Vec<_> = owners.into_iter().filter_map(claimed).collect();
    let Some(killer) = uids.any_killer() else { return };
    let until = Instant::now() + PATIENCE;
    loop {
        left.retain(|(owner, _claim)| has_visible_process(*owner));
        if left.is_empty() || Instant::now() > until {
            return;
        }
        for (owner, _claim) in &left {
            // One at a time: two killers would be each other's user.
            let pair = UidPair { killer, tenant: *owner };
            if let Ok(killer) = fork.fork(|| kill_all(pair, Signal::SIGKILL)) {
                let _ = waitpid(killer, None);
            }
        }
        thread::sleep(KILL_AGAIN);
    }
}
