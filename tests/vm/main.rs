//! The product in a small virtual machine, for what no machine can show to its
//! other processes: cgroups v2, lack of memory, other kernels, full disks, a clock
//! that jumps. See README.md.
//!
//! This program runs on both sides: outside it builds the machine and reads its
//! results; inside it is the first process, the container runtime, and the command
//! of the plugins.

#![expect(clippy::expect_used, reason = "a test that cannot continue has failed")]
#![expect(clippy::panic, reason = "a test that cannot continue has failed")]
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
#![expect(clippy::print_stderr, reason = "prints the reason for each skipped test")]
#![expect(clippy::print_stdout, reason = "results go through the console")]

mod guest;
mod host;
mod scenarios;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::process::id() == 1 {
        return guest::init();
    }
    if let Some(code) = guest::role() {
        return code;
    }
    host::run()
}
