//! What an attacker does and no library offers.

#![expect(unsafe_code, reason = "attacks are made of system calls that nobody wraps")]

use std::{
    io,
    os::{linux::net::SocketAddrExt, unix::net::SocketAddr},
};

use nix::libc;

/// Makes a system call with the arguments as they are.
pub(crate) fn call(number: i64, arguments: &[u64]) -> io::Result<i64> {
    let mut six = [0; 6];
    six.iter_mut().zip(arguments).for_each(|(six, argument)| *six = *argument);
    // SAFETY: pointers among the arguments come from `pointer`, to memory that
    // outlives the call; what the kernel makes of the rest is what is tested.
    let result = unsafe { libc::syscall(number, six[0], six[1], six[2], six[3], six[4], six[5]) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Memory as an argument of [`call`].
pub(crate) fn pointer<T: ?Sized>(memory: &T) -> u64 {
    std::ptr::from_ref(memory).cast::<u8>() as u64
}

/// The same, for the kernel to write to.
pub(crate) fn pointer_mut<T: ?Sized>(memory: &mut T) -> u64 {
    std::ptr::from_mut(memory).cast::<u8>() as u64
}

/// Runs `child` in a new process and returns its number.
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

/// Ends this process at once.
pub(crate) fn leave(code: i32) -> ! {
    // SAFETY: _exit(2) has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Is deaf to a signal from now on.
pub(crate) fn ignore(signal: nix::sys::signal::Signal) {
    // SAFETY: SIG_IGN is a valid disposition.
    unsafe { libc::signal(signal as i32, libc::SIG_IGN) };
}

/// A call by the gate of 32-bit programs, with their number of it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn int80(number: u32) -> i32 {
    let result: i32;
    // SAFETY: only calls without pointers are made this way.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("eax") number.cast_signed() => result);
    }
    result
}

/// An address in the namespace that has no files.
pub(crate) fn abstract_address(name: &str) -> SocketAddr {
    SocketAddr::from_abstract_name(name).expect("a name that fits")
}
