//! The end of a process with its parent.

use nix::{
    errno::Errno,
    sys::{prctl, signal::Signal},
    unistd::{Pid, getppid},
};

/// Lets the kernel send `signal` to this process when `parent` ends. The error is `ESRCH` if
/// it has ended already.
///
/// Changing the UID, also that for files, resets the signal, so call it afterwards.
pub(crate) fn end_with(parent: Pid, signal: Signal) -> Result<(), Errno> {
    prctl::set_pdeathsig(signal)?;
    if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH) }
}
