//! Builds machines, boots them, and reports their results as tests.

mod archive;
mod container_image;
mod image;
mod kernel;
mod machine;
mod node;

use std::{
    env,
    process::ExitCode,
    sync::{Arc, OnceLock},
    thread,
};

use libtest_mimic::{Arguments, Failed, Trial};

use self::{kernel::Kernel, machine::Machine, node::Parts};
use crate::scenarios::{self, Line, Scenario};

/// A machine for some scenarios.
struct Planned {
    kernel: Kernel,
    node: Option<Parts>,
    scenarios: Vec<&'static str>,
    /// The machine that must have ended before that of a node starts.
    earlier: Option<Arc<Planned>>,
    machine: OnceLock<Result<Machine, String>>,
}

/// Runs the tests that the arguments select. The machines of both kernels run at the
/// same time, and that of the node as soon as the first of them has ended.
pub(crate) fn run() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut machines = Vec::new();
    for line in Line::ALL {
        let earlier = machines.iter().find_map(|(_, machine)| Option::clone(machine));
        machines.push((line, machine(line, earlier, &arguments)));
    }
    for machine in machines.iter().filter_map(|(_, machine)| Option::clone(machine)) {
        // All tests may wait for other machines when this one can start.
        thread::spawn(move || machine.machine().is_ok());
    }
    let trials = machines.iter().flat_map(|(line, machine)| {
        let meant = scenarios::ALL.iter().filter(|scenario| scenario.lines.contains(line));
        meant.map(|scenario| trial(*line, scenario, machine.as_ref()))
    });
    let trials = trials.collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A machine for the selected scenarios, if this machine can emulate it.
fn machine(
    line: Line,
    earlier: Option<Arc<Planned>>,
    arguments: &Arguments,
) -> Option<Arc<Planned>> {
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
    let made = Planned::new(line, meant.clone(), earlier);
    made.inspect_err(|reason| skip(line, &meant, reason)).ok().map(Arc::new)
}

impl Planned {
    /// Starts the machine, unless it is to be a later one. The error says what this
    /// machine lacks.
    fn new(
        line: Line,
        scenarios: Vec<&'static str>,
        earlier: Option<Arc<Self>>,
    ) -> Result<Self, String> {
        if is_off() {
            return Err("CMP_SUPERVISOR_VM=off".to_owned());
        }
        Machine::check()?;
        let kernel = Kernel::find(line)?;
        let node = (line == Line::Node).then(Parts::find).transpose()?;
        let planned = Self { kernel, node, scenarios, earlier, machine: OnceLock::new() };
        if line != Line::Node {
            planned.machine().map_err(Clone::clone)?;
        }
        Ok(planned)
    }

    fn machine(&self) -> Result<&Machine, &String> {
        let start = || {
            // Each uses a processor, so at most two run at the same time.
            if let Some(other) = self.node.as_ref().and(self.earlier.as_ref()) {
                let _ = other.machine().map(Machine::wait);
            }
            Machine::start(&self.kernel, self.node.as_ref(), &self.scenarios)
        };
        self.machine.get_or_init(start).as_ref()
    }
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
fn trial(line: Line, scenario: &'static Scenario, machine: Option<&Arc<Planned>>) -> Trial {
    let name = name(line, scenario);
    let Some(machine) = machine.map(Arc::clone) else {
        let nowhere = || Err(Failed::from("there is no machine: see `skipped:` above"));
        return Trial::test(name, nowhere).with_ignored_flag(is_off() || !is_required(line));
    };
    Trial::test(name, move || {
        let machine = machine.machine().map_err(Failed::from)?;
        machine.result(scenario.name).map_err(Failed::from)
    })
}

#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
fn is_off() -> bool {
    env::var_os("CMP_SUPERVISOR_VM").is_some_and(|value| value == "off")
}

#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
fn is_required(line: Line) -> bool {
    // The parts of a node take long to build.
    let (name, needed) = match line {
        Line::Linux6_1 | Line::Linux6_12 => ("CMP_SUPERVISOR_TESTS", "all"),
        Line::Node => ("CMP_SUPERVISOR_NODE", "on"),
    };
    env::var_os(name).is_some_and(|value| value == needed)
}
