//! One sidecar that hosts every Argo CD config management plugin.

#![forbid(unsafe_code)]

pub mod admin;
pub mod config;
pub mod event;
pub mod grpc;
pub mod loader;
pub mod local;
pub mod log;
pub mod metrics;
pub mod plugin;
mod plural;
pub mod request;
pub mod serve;
pub mod settings;
pub mod shutdown;
pub mod state;
pub mod status;
pub mod supervisor;
pub mod validate;
