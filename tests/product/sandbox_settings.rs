//! `spec.sandbox` and `spec.limits`, through the built binary and in every tier
//! that can be had here.

mod bench;
mod caches;
mod errors;
mod limits;
mod mounted;
mod network;
mod progress;
mod reading;
mod signals;
mod typed;
mod variables;
mod workspaces;
