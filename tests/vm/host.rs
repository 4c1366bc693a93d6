//! Builds machines, boots them, and reports their results as tests.

mod archive;
mod image;
mod kernel;
mod machine;

use std::{
    env,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
};

use libtest_mimic::{Arguments, Failed, Trial};

use self::{kernel::Kernel, machine::Machine};
use crate::scenarios::{self, Line, Scenario};

/// A machine that boots for the first test that needs it.
type Shared = Arc<Mutex<Machine>>;

/// Runs the tests that the arguments select.
pub(crate) fn run() -> ExitCode {
    let arguments = Arguments::from_args();
    let machines = Line::ALL.map(|line| (line, machine(line, &arguments)));
    let trials = machines.iter().flat_map(|(line, machine)| {
        let meant = scenarios::ALL.iter().filter(|scenario| scenario.lines.contains(line));
        let is_off = !is_wanted(&arguments);
        let trial = move |scenario| trial(*line, scenario, machine.as_ref());
        meant.map(trial).map(move |trial| trial.with_ignored_flag(is_off))
    });
    let trials = trials.collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Machines take minutes of processor time, and start only on request.
#[expect(clippy::disallowed_methods, reason = "a setting of tests")]
fn is_wanted(arguments: &Arguments) -> bool {
    let is_asked_for = arguments.ignored || arguments.include_ignored;
    is_asked_for || env::var_os("CMP_SUPERVISOR_VM").is_some()
}

/// A machine for the selected scenarios, if this machine can emulate it.
fn machine(line: Line, arguments: &Arguments) -> Option<Shared> {
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let is_skipped = |name: &str| arguments.skip.iter().any(|skip| name.contains(skip.as_str()));
    let is_meant = |scenario: &&Scenario| {
        let name = name(line, scenario);
        scenario.lines.contains(&line) && name.contains(filter) && !is_skipped(&name)
    };
    let meant: Vec<_> = scenarios::ALL.iter().filter(is_meant).map(|each| each.name).collect();
    if meant.is_empty() || arguments.list || !is_wanted(arguments) {
        return None;
    }
    let made = Kernel::find(line).and_then(|kernel| Machine::new(kernel, meant));
    made.inspect_err(|reason| eprintln!("skipped: {line}: {reason}"))
        .ok()
        .map(|machine| Arc::new(Mutex::new(machine)))
}

fn name(line: Line, scenario: &Scenario) -> String {
    format!("{line}::{}", scenario.name)
}

/// Without a machine, the test is reported as ignored. It fails if all tests are
/// required.
fn trial(line: Line, scenario: &'static Scenario, machine: Option<&Shared>) -> Trial {
    let name = name(line, scenario);
    let Some(machine) = machine.map(Arc::clone) else {
        let nowhere = || Err(Failed::from("there is no machine: see `skipped:` above"));
        return Trial::test(name, nowhere).with_ignored_flag(!are_all_wanted());
    };
    Trial::test(name, move || {
        let mut machine = machine.lock().unwrap_or_else(PoisonError::into_inner);
        machine.result(scenario.name).map_err(Failed::from)
    })
}

#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
fn are_all_wanted() -> bool {
    env::var_os("CMP_SUPERVISOR_TESTS").is_some_and(|value| value == "all")
}
