//! Tests `spec.sandbox` and `spec.limits` with the binary, in every tier that
//! is available here.

mod accounts;
pub(crate) mod bench;
mod bundles;
mod caches;
mod clocks;
mod encrypted;
mod errors;
mod file_size;
mod frame;
mod git_credentials;
mod grouped;
pub(crate) mod healing;
mod home;
mod in_flight;
mod included;
mod limits;
mod mounted;
mod network;
mod observe;
mod oom;
mod open_calls;
mod places;
mod pod;
mod ports;
mod progress;
pub(crate) mod read_only;
mod reading;
mod refused;
mod replaced;
mod restarted;
mod signals;
mod space;
mod ssh;
mod typed;
mod variables;
mod workspaces;
