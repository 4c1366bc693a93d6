//! Tells the kernel which processes to kill first when memory runs out.

use std::{fs, io};

use nix::{sys::prctl, unistd::geteuid};

/// Score of the processes that are killed first. Children inherit it.
const FIRST: &str = "1000";

const SCORE: &str = "/proc/self/oom_score_adj";

/// Makes this process and its descendants the first ones to be killed.
///
/// Raising the score needs no privilege. Lowering it again may need none
/// either, so tenants must not be able to write below `/proc`.
pub(crate) fn volunteer() -> io::Result<()> {
    if geteuid().is_root() {
        return fs::write(SCORE, FIRST);
    }
    // While a process is not dumpable, its files below `/proc` belong to root.
    let dumpable = prctl::get_dumpable()?;
    prctl::set_dumpable(true)?;
    let written = fs::write(SCORE, FIRST);
    prctl::set_dumpable(dumpable)?;
    written
}
