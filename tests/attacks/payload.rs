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

fn pid(number: i32) -> Pid {
    Pid::from_raw(number)
}
