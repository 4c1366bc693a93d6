//! The attacks themselves. They run as a tenant, with one thread.

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

/// How names of files begin that an attack leaves where it can.
pub(crate) const DROPPED: &str = "attack-dropped-";

/// An attribute that an attack gives to a file.
pub(crate) const EVIL: &std::ffi::CStr = c"user.evil";

/// Directories that everybody may write to.
pub(crate) const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Directories of the image.
pub(crate) const SYSTEM: [&str; 6] = ["/usr/bin", "/etc", "/", "/lib", "/var/lib", "/opt"];

fn pid(number: i32) -> Pid {
    Pid::from_raw(number)
}
