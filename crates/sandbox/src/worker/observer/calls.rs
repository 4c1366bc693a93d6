//! System calls that open something, and their arguments.

use nix::{errno::Errno, libc};

use super::registers::Registers;
use crate::wire::refusal::KernelLimit;

/// A system call that is reported if it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// A path.
    Path { at: Place, access: Access },
    /// connect(2), with the socket, the address and its length.
    Connect { socket: i32, address: u64, length: u64 },
    /// bind(2).
    Bind { address: u64, length: u64 },
    /// socket(2), with the family and the type.
    Socket { family: i32, kind: i32 },
    /// A call that fails at a limit.
    Limited(KernelLimit),
}

/// The place of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Descriptor of the directory that it is relative to.
    pub(super) directory: i32,
    /// Address of the text.
    pub(super) text: u64,
}

/// Access to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    Execute,
}

/// Positions of the arguments of a call with a path: the directory if there is one,
/// and the path.
type Positions = (Option<usize>, usize);

/// Flags of open(2) that change something.
const CHANGES: i32 = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;

impl Call {
    /// The call that a process is about to make, if it is of interest.
    pub(super) fn of(registers: &Registers) -> Option<Self> {
        let [first, second, third, _] = registers.arguments;
        let number = libc::c_long::try_from(registers.number).ok()?;
        match number {
            libc::SYS_connect => {
                Some(Self::Connect { socket: int(first), address: second, length: third })
            }
            libc::SYS_bind => Some(Self::Bind { address: second, length: third }),
            libc::SYS_socket => Some(Self::Socket { family: int(first), kind: int(second) }),
            _ => {
                let path = || {
                    let (positions, access) = path_call(number, registers)?;
                    Some(Self::Path { at: Place::of(positions, registers)?, access })
                };
                limited_call(number).map(Self::Limited).or_else(path)
            }
        }
    }

    /// The limit that a call has reached, if it failed for it.
    pub(super) fn reached(self, errno: Errno) -> Option<KernelLimit> {
        let Self::Limited(limit) = self else { return None };
        let error = match limit {
            KernelLimit::Processes => Errno::EAGAIN,
            KernelLimit::Memory => Errno::ENOMEM,
            KernelLimit::FileSize => Errno::EFBIG,
            // A signal tells of it.
            KernelLimit::Cpu => return None,
        };
        (errno == error).then_some(limit)
    }
}

impl Place {
    fn of((directory, text): Positions, registers: &Registers) -> Option<Self> {
        let argument = |at: usize| registers.arguments.get(at).copied();
        let directory = match directory {
            Some(at) => int(argument(at)?),
            None => libc::AT_FDCWD,
        };
        Some(Self { directory, text: argument(text)? })
    }
}

/// Arguments of type `int` are the lower half of a register.
fn int(argument: u64) -> i32 {
    let [first, second, third, fourth, ..] = argument.to_le_bytes();
    i32::from_le_bytes([first, second, third, fourth])
}

fn limited_call(number: libc::c_long) -> Option<KernelLimit> {
    match number {
        libc::SYS_clone | libc::SYS_clone3 => Some(KernelLimit::Processes),
        libc::SYS_mmap | libc::SYS_mremap | libc::SYS_mprotect => Some(KernelLimit::Memory),
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwrite64
        | libc::SYS_pwritev
        | libc::SYS_ftruncate
        | libc::SYS_fallocate
        | libc::SYS_sendfile
        | libc::SYS_copy_file_range => Some(KernelLimit::FileSize),
        _ => older_limited_call(number),
    }
}

/// Calls that new architectures do not have.
#[cfg(target_arch = "x86_64")]
fn older_limited_call(number: libc::c_long) -> Option<KernelLimit> {
    matches!(number, libc::SYS_fork | libc::SYS_vfork).then_some(KernelLimit::Processes)
}

#[cfg(not(target_arch = "x86_64"))]
fn older_limited_call(_: libc::c_long) -> Option<KernelLimit> {
    None
}

fn path_call(number: libc::c_long, registers: &Registers) -> Option<(Positions, Access)> {
    let [_, _, third, _] = registers.arguments;
    let relative = (Some(0), 1);
    let call = match number {
        libc::SYS_openat => (relative, opening(int(third))),
        // Its flags are in memory; programs use it to read.
        libc::SYS_openat2
        | libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_readlinkat => (relative, Access::Read),
        libc::SYS_chdir => ((None, 0), Access::Read),
        libc::SYS_execve => ((None, 0), Access::Execute),
        libc::SYS_execveat => (relative, Access::Execute),
        libc::SYS_mkdirat | libc::SYS_mknodat | libc::SYS_unlinkat => (relative, Access::Write),
        libc::SYS_symlinkat => ((Some(1), 2), Access::Write),
        libc::SYS_linkat | libc::SYS_renameat | libc::SYS_renameat2 => {
            ((Some(2), 3), Access::Write)
        }
        libc::SYS_truncate => ((None, 0), Access::Write),
        _ => return older_call(number, registers),
    };
    Some(call)
}

/// Calls without a directory, which new architectures do not have.
#[cfg(target_arch = "x86_64")]
fn older_call(number: libc::c_long, registers: &Registers) -> Option<(Positions, Access)> {
    let [_, second, ..] = registers.arguments;
    let (first, last) = ((None, 0), (None, 1));
    let call = match number {
        libc::SYS_open => (first, opening(int(second))),
        libc::SYS_stat | libc::SYS_lstat | libc::SYS_access | libc::SYS_readlink => {
            (first, Access::Read)
        }
        libc::SYS_creat
        | libc::SYS_mkdir
        | libc::SYS_mknod
        | libc::SYS_rmdir
        | libc::SYS_unlink => (first, Access::Write),
        libc::SYS_symlink | libc::SYS_link | libc::SYS_rename => (last, Access::Write),
        _ => return None,
    };
    Some(call)
}

#[cfg(not(target_arch = "x86_64"))]
fn older_call(_: libc::c_long, _: &Registers) -> Option<(Positions, Access)> {
    None
}

fn opening(flags: i32) -> Access {
    if flags & CHANGES == 0 { Access::Read } else { Access::Write }
}
