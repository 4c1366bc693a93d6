//! Builds machines, boots them, and reports their results as tests.

mod archive;
mod image;
mod kernel;
mod machine;

use std::{env, process::ExitCode, sync::Arc};

use libtest_mimic::{Arguments, Failed, Trial};

use self::{kernel::Kernel, machine::Machine};
use crate::scenarios::{self, Line, Scenario};

/// Runs the tests that the arguments select. The machines of both kernels run at the
/// same time.
pub(crate) fn run() -> ExitCode {
    let arguments = Arguments::from_args();
    let machines = Line::ALL.map(|line| (line, machine(line, &arguments)));
    let trials = machines.iter().flat_map(|(line, machine)| {
        let meant = scenarios::ALL.iter().filter(|scenario| scenario.lines.contains(line));
        meant.map(|scenario| trial(*line, scenario, machine.as_ref()))
    });
    let trials = trials.collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A machine for the selected scenarios, if this machine can emulate it.
fn machine(line: Line, arguments: &Arguments) -> Option<Arc<Machine>> {
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let is_skipped = |name: &str| arguments.skip.iter().any(|skip| name.contains(skip.as_str()));
    let is_meant = |scenario: &&Scenario| {
        let name = name(line, scenario);
        scenario.lines.contains(&line) && name.contains(filter) && !is_skipped(&name)
    };
    let meant: Vec<_> = scenarios::ALL.iter().filter(is_meant).map(|each| each.name).collect();
    if meant.is_empty() || arguments.list {
        return None;
    }
    let made = if is_off() {
        Err("CMP_SUPERVISOR_VM=off".to_owned())
    } else {
        Kernel::find(line).and_then(|kernel| Machine::start(&kernel, &meant))
    };
    made.inspect_err(|reason| skip(line, &meant, reason)).ok().map(Arc::new)
}

fn skip(line: Line, scenarios: &[&str], reason: &str) {
    for scenario in scenarios {
        eprintln!("skipped: {line}::{scenario}: {reason}");
    }
}

fn name(line: Line, scenario: &Scenario) -> String {
    format!("{line}::{}", scenario.name)
}

/// Without a machine, the test is reported as ignored. It fails if all tests are
/// required.
fn trial(line: Line, scenario: &'static Scenario, machine: Option<&Arc<Machine>>) -> Trial {
    let name = name(line, scenario);
    let Some(machine) = machine.map(Arc::clone) else {
        let nowhere = || Err(Failed::from("there is no machine: see `skipped:` above"));
        return Trial::test(name, nowhere).with_ignored_flag(is_off() || !are_all_wanted());
    };
    Trial::test(name, move || machine.result(scenario.name).map_err(Failed::from))
}

#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
fn is_off() -> bool {
    env::var_os("CMP_SUPERVISOR_VM").is_some_and(|value| value == "off")
}

#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
fn are_all_wanted() -> bool {
    env::var_os("CMP_SUPERVISOR_TESTS").is_some_and(|value| value == "all")
}
