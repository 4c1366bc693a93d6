//! Tests that change definitions while plugins are served.

mod cases;
mod client;
mod directories;
mod endpoints;
mod exhausted;
mod files;
mod kubelet;
mod loaded;
mod mounts;
mod reader;
mod server;
mod sockets;
mod steps;
