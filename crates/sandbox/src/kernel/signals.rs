//! The signals of this program, whatever its parent has done with them.

use nix::sys::signal::SigSet;

use super::fork;

/// Lets every signal arrive, except SIGXFSZ: a write beyond the container's limit of file
/// sizes is an error instead, also in a file in memory.
///
/// Threads and children inherit both, so call it before any of them exists. Commands get the
/// default action of SIGXFSZ.
pub fn prepare_signals() {
    // Never refused to a thread itself.
    let _ = unblock_all();
    fork::ignore_large_files();
}

/// Lets every signal arrive at this thread.
pub(crate) fn unblock_all() -> nix::Result<()> {
    // The set of all signals lacks those that the C library keeps for itself.
    SigSet::empty().thread_set_mask()
}
