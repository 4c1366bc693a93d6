//! Files in memory.

use std::os::fd::OwnedFd;

use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::Errno,
};

/// Creates a file in memory that can be sealed. It cannot be executed: from Linux 6.3 to 6.5,
/// no other one is allowed if `vm.memfd_noexec` is 2.
pub(crate) fn sealable(name: &str) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Before Linux 6.3, NOEXEC_SEAL is unknown.
    memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL).or_else(|_older| memfd_create(name, flags))
}
