//! `spec.sandbox` and `spec.limits`, through the built binary and in every tier
//! that can be had here.

#![expect(clippy::unwrap_used, reason = "a test that cannot arrange things has failed")]
#![expect(clippy::panic, reason = "how a test fails")]
#![expect(clippy::print_stdout, reason = "what is skipped is said")]
#![expect(clippy::tests_outside_test_module, reason = "an integration test is one")]

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
