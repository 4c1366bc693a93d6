//! Tests that change definitions while plugins are served.

mod cases;
mod client;
mod connections;
mod directories;
mod endpoints;
mod exhausted;
mod files;
pub(crate) mod kubelet;
pub(crate) mod loaded;
mod mounts;
mod orphans;
mod probe;
mod reader;
pub(crate) mod server;
mod silent;
mod sockets;
mod steps;
mod stops;
