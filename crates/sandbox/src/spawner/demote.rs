//! Lowers the priority of all processes of a request.

use std::io;

use nix::unistd::Pid;
use rustix::process::{Uid, setpriority_process, setpriority_user};

use super::{kill, meter, uid_pool::UidPair};

/// The lowest priority. Not `SCHED_IDLE`: processes that were killed need
/// processor time to end, and would hardly get any.
const LOWEST: i32 = 19;

/// Runs in a child. The tenant cannot undo it, because its limit of priorities
/// is 0.
pub(super) fn run(uids: Option<UidPair>, workers: &[Pid]) -> i32 {
    if let Some(uids) = uids {
        return i32::from(lower_user(uids).is_err());
    }
    lower_below(workers);
    0
}

/// One call reaches all processes. New ones inherit it.
fn lower_user(uids: UidPair) -> io::Result<()> {
    kill::drop_rights(uids)?;
    Ok(setpriority_user(Uid::from_raw(uids.tenant.as_raw()), LOWEST)?)
}

fn lower_below(workers: &[Pid]) {
    for thread in meter::threads_below(workers) {
        let thread = rustix::process::Pid::from_raw(thread.cast_signed());
        // It may have ended.
        let _ = setpriority_process(thread, LOWEST);
    }
}
