//! Exit codes and messages of the built binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot arrange things has failed")]
#![expect(clippy::tests_outside_test_module, reason = "an integration test is one")]

mod broken;
mod interrupted;
mod namesake;
