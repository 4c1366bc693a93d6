//! The attacks themselves. They run with a tenant's UID, in one thread.

pub(crate) mod attributes;
pub(crate) mod excess;
pub(crate) mod files;
pub(crate) mod kernel;
pub(crate) mod leftovers;
pub(crate) mod network;
pub(crate) mod processes;
pub(crate) mod resources;
pub(crate) mod sockets;
pub(crate) mod tree;

use nix::unistd::Pid;

/// Prefix of the names of files that an attack tries to leave behind.
pub(crate) const DROPPED: &str = "attack-dropped-";

/// Extended attribute that an attack tries to set on a file.
pub(crate) const EVIL: &std::ffi::CStr = c"user.evil";

/// World-writable directories.
pub(crate) const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Directories of the image.
pub(crate) const SYSTEM: [&str; 6] = ["/usr/bin", "/etc", "/", "/lib", "/var/lib", "/opt"];

fn pid(number: i32) -> Pid {
    Pid::from_raw(number)
}
