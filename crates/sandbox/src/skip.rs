//! Tests that this machine lacks something for.

use std::{thread, time::Duration};

use nix::unistd::geteuid;

/// The value `all` of this variable makes a failure of each skipped test.
const WANTED: &str = "CMP_SUPERVISOR_TESTS";

/// Prints why a test is skipped, or panics if all tests are wanted.
#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
pub(crate) fn skip(reason: &str) {
    let are_all_wanted = std::env::var_os(WANTED).is_some_and(|value| value == "all");
    assert!(!are_all_wanted, "{WANTED}=all, and this test would be skipped: {reason}");
    println!("skipped: {reason}");
}

/// Waits for what an end brings about. A child that another test has forked has this test's
/// descriptors too, until it executes its program.
pub(crate) fn soon(mut is_so: impl FnMut() -> bool) -> bool {
    (0..6000).any(|_| {
        let is_so = is_so();
        if !is_so {
            thread::sleep(Duration::from_millis(10));
        }
        is_so
    })
}

/// Returns true if a test that needs root is to be skipped.
pub(crate) fn lacks_root() -> bool {
    let lacks = !geteuid().is_root();
    if lacks {
        skip("needs root");
    }
    lacks
}
