//! System calls that attacks need and that no library offers.

#![expect(unsafe_code, reason = "attacks use system calls that no library wraps")]

use std::{
    ffi::{CStr, CString},
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{ffi::OsStrExt, net::SocketAddr},
    },
    path::Path,
};

use nix::libc;

/// Makes a system call with the arguments as they are.
pub(crate) fn call(number: i64, arguments: &[u64]) -> io::Result<i64> {
    let mut six = [0; 6];
    six.iter_mut().zip(arguments).for_each(|(six, argument)| *six = *argument);
    // SAFETY: pointers among the arguments come from `pointer`, to memory that
    // outlives the call. The tests check how the kernel treats the rest.
    let result = unsafe { libc::syscall(number, six[0], six[1], six[2], six[3], six[4], six[5]) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Address of memory, as an argument of [`call`].
pub(crate) fn pointer<T: ?Sized>(memory: &T) -> u64 {
    std::ptr::from_ref(memory).cast::<u8>() as u64
}

/// Address of memory that the kernel may write to, as an argument of [`call`].
pub(crate) fn pointer_mut<T: ?Sized>(memory: &mut T) -> u64 {
    std::ptr::from_mut(memory).cast::<u8>() as u64
}

/// Runs `child` in a new process and returns its PID.
pub(crate) fn fork(child: impl FnOnce()) -> nix::Result<nix::unistd::Pid> {
    // SAFETY: an attacker has one thread.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { child } => Ok(child),
        nix::unistd::ForkResult::Child => {
            child();
            // SAFETY: _exit(2) has no preconditions.
            unsafe { libc::_exit(0) }
        }
    }
}

/// Duplicates a descriptor without close-on-exec, so that it stays open in programs
/// that this process executes.
pub(crate) fn keep_open(fd: i32) {
    // SAFETY: dup(2) takes any number.
    unsafe { libc::dup(fd) };
}

/// Ends this process at once.
pub(crate) fn leave(code: i32) -> ! {
    // SAFETY: _exit(2) has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Ignores a signal from now on.
pub(crate) fn ignore(signal: nix::sys::signal::Signal) {
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe { libc::signal(signal as i32, libc::SIG_IGN) };
}

/// Makes a system call through the 32-bit entry, with its 32-bit call number.
#[cfg(target_arch = "x86_64")]
pub(crate) fn int80(number: u32) -> i32 {
    let result: i32;
    // SAFETY: only calls without pointers are made this way.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("eax") number.cast_signed() => result);
    }
    result
}

/// Address of an abstract socket, which has no file.
pub(crate) fn abstract_address(name: &str) -> SocketAddr {
    SocketAddr::from_abstract_name(name).expect("a name that fits")
}

/// Names of a file's extended attributes. Empty if there are none.
pub(crate) fn attributes(path: &Path) -> Vec<u8> {
    let path = CString::new(path.as_os_str().as_bytes()).expect("a path without NUL");
    let mut names = vec![0_u8; 256];
    let arguments =
        [pointer(path.to_bytes_with_nul()), pointer_mut(names.as_mut_slice()), names.len() as u64];
    let length = call(libc::SYS_llistxattr, &arguments).unwrap_or_default();
    names.truncate(usize::try_from(length).unwrap_or_default());
    names
}

/// Removes an extended attribute from a file.
pub(crate) fn remove_attribute(path: &Path, name: &CStr) {
    let path = CString::new(path.as_os_str().as_bytes()).expect("a path without NUL");
    let arguments = [pointer(path.to_bytes_with_nul()), pointer(name.to_bytes_with_nul())];
    call(libc::SYS_removexattr, &arguments).expect("one attribute less");
}

/// Removes an IPC object.
pub(crate) fn remove_object(kind: &str, id: u64) {
    const REMOVE: u64 = 0;
    let removed = match kind {
        "shm" => call(libc::SYS_shmctl, &[id, REMOVE, 0]),
        "sem" => call(libc::SYS_semctl, &[id, 0, REMOVE, 0]),
        _ => call(libc::SYS_msgctl, &[id, REMOVE, 0]),
    };
    removed.expect("an object less");
}
