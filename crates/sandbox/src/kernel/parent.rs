//! The end of a process with its parent.

use cmp_procfs::Stat;
use nix::{
    errno::Errno,
    sys::{prctl, signal::Signal},
    unistd::{Pid, getppid},
};

/// The parent of an init is outside its namespace, where it has no number.
const OUTSIDE: Pid = Pid::from_raw(0);

/// Lets the kernel send `signal` to this process when `parent` ends. The error is `ESRCH` if
/// it has ended already, and is no parent any more. The caller has its number from before this
/// process began.
///
/// Changing the UID, also that for files, resets the signal, so call it afterwards.
pub(crate) fn end_with(parent: Pid, signal: Signal) -> Result<(), Errno> {
    prctl::set_pdeathsig(signal)?;
    let now = match getppid() {
        // The mounts of an init are those of its parent at first, and so are the numbers in
        // `/proc`.
        OUTSIDE => Stat::own().map_or(OUTSIDE, |stat| Pid::from_raw(stat.parent.cast_signed())),
        now => now,
    };
    if now == parent { Ok(()) } else { Err(Errno::ESRCH) }
}
