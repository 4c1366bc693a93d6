//! Figures: the experience of a victim beside each load. Not a test: it prints a
//! table. `CMP_SUPERVISOR_BINARY` names another binary to compare with.

mod load;
mod memory;
mod output;
mod processes;
mod table;
mod waiting;

use std::{env, path::PathBuf, thread, time::Duration};

pub(crate) use load::Load;

/// Time for the product to end and clean what the load left.
const AFTERMATH: Duration = Duration::from_secs(5);

/// Tells if the load is among the chosen rows; all are if none is chosen.
#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
fn is_selected(load: &Load) -> bool {
    let selection = env::var("CMP_SUPERVISOR_LOADS").unwrap_or_default();
    let words = selection.split(',').filter(|word| !word.is_empty()).collect::<Vec<_>>();
    words.is_empty() || words.iter().any(|word| load.row.split(", ").any(|row| row == *word))
}

/// Binary of Argo CD's own server, if that is to be measured.
#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
fn peer() -> Option<PathBuf> {
    env::var_os("CMP_SUPERVISOR_PEER").map(PathBuf::from)
}

/// All loads.
pub(crate) fn loads() -> Vec<Load> {
    [processes::all(), memory::all(), output::all(), waiting::all()].concat()
}

/// Prints the table of figures.
#[test]
#[ignore = "takes minutes, and prints figures"]
fn figures() {
    println!("{}", table::HEADER);
    for load in loads().into_iter().filter(is_selected) {
        let Some(pod) = load.start(peer()) else { return };
        // Other work on this machine must not count.
        pod.groups().prefer();
        let victim = pod.victim();
        let processor = pod.groups().processor_time();
        let remark = (load.run)(&pod);
        let processor = pod.groups().processor_time().saturating_sub(processor);
        let seen = victim.end();
        thread::sleep(AFTERMATH);
        let line = table::Line { load: &load, pod: &pod, seen: &seen, processor, remark };
        println!("{line}");
    }
}
