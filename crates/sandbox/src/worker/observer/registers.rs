//! The registers that hold a system call.

use nix::{errno::Errno, sys::ptrace, unistd::Pid};

/// Largest error number of the kernel.
const MAX_ERRNO: i64 = 4095;

/// A system call and its result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    pub(super) number: i64,
    pub(super) arguments: [u64; 4],
    /// Valid only at the end of the call.
    result: i64,
}

impl Registers {
    /// Reads them from a process that has stopped; `None` if it was just killed.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn read(pid: Pid) -> Option<Self> {
        let now = ptrace::getregs(pid).ok()?;
        Some(Self {
            number: now.orig_rax.cast_signed(),
            arguments: [now.rdi, now.rsi, now.rdx, now.r10],
            result: now.rax.cast_signed(),
        })
    }

    /// Reads them from a process that has stopped; `None` if it was just killed. At
    /// the end of a call, the first argument is overwritten.
    #[cfg(target_arch = "aarch64")]
    pub(super) fn read(pid: Pid) -> Option<Self> {
        let [first, second, third, fourth, _, _, _, _, number, ..] =
            ptrace::getregs(pid).ok()?.regs;
        Some(Self {
            number: number.cast_signed(),
            arguments: [first, second, third, fourth],
            result: first.cast_signed(),
        })
    }

    /// The descriptor that a call has returned.
    pub(super) fn descriptor(self) -> Option<i32> {
        i32::try_from(self.result).ok().filter(|descriptor| *descriptor >= 0)
    }

    /// The error of a call that has ended.
    pub(super) fn error(self) -> Option<Errno> {
        let is_error = (-MAX_ERRNO..0).contains(&self.result);
        is_error.then(|| Errno::from_raw(i32::try_from(-self.result).unwrap_or_default()))
    }
}
