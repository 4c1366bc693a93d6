//! One sidecar that hosts every Argo CD config management plugin.
//!
//! `ARCHITECTURE.md` explains the three processes, the invariants and the terms.
//!
//! # Reading order
//!
//! These eight steps follow one `GenerateManifest` request through the code:
//!
//! 1. [`serve`] starts the spawner, drops all privileges and starts the parts
//!    below.
//! 2. [`loader`] reads the definitions and passes them on as a set of
//!    [`plugin::PluginDefinition`].
//! 3. [`supervisor`] compares the set with the served plugins, and creates and
//!    removes sockets. `grpc/bind.rs` creates a socket, and
//!    `grpc/acceptor.rs` accepts connections.
//! 4. `grpc/connection.rs` serves a connection. `grpc/authority.rs` repairs the
//!    `:authority` that Argo CD's client sends.
//! 5. `grpc/service.rs` receives the call. `grpc/call.rs` counts and logs it.
//! 6. [`request`] is the chain of steps from archive to manifests: a free place,
//!    a lease, the archive, the commands, the output.
//! 7. The crate `cmp_sandbox` gives each request a UID and a workspace, and runs
//!    its commands confined.
//! 8. `request/manifests.rs` splits the output with the crate `cmp_yaml`, and
//!    `grpc/status.rs` turns an error into a gRPC status.
//!
//! The code map in `ARCHITECTURE.md` has all modules.

#![forbid(unsafe_code)]

mod accept;
mod admin;
mod agent_sockets;
pub mod budget;
pub mod bundle;
pub mod config;
pub mod container;
mod event;
pub mod evidence;
pub mod exit;
pub mod git_ask_pass;
pub mod grpc;
mod hidden;
mod http_client;
pub mod install;
pub mod loader;
pub mod local;
pub mod log;
pub mod metrics;
pub mod migrate;
mod own_directory;
pub mod plugin;
mod plural;
pub mod probe;
mod programs;
mod ready;
mod recent;
pub mod request;
mod semaphore;
pub mod serve;
mod settings;
#[cfg(test)]
#[path = "../tests/product/skip.rs"]
mod skip;
pub mod state;
pub mod status;
pub mod supervisor;
pub mod terminal;
mod timestamp;
mod traces;
pub mod validate;
mod volume;
mod watcher;
mod yaml;
