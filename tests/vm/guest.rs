//! Inside the machine: its first process, and the parts of scenarios.

pub(crate) mod container;
mod mounts;
pub(crate) mod node;
mod payload;
pub(crate) mod pod;
pub(crate) mod report;
pub(crate) mod restricted;
pub(crate) mod server;
pub(crate) mod system;
pub(crate) mod victim;
mod watch;

use std::{
    env, panic,
    process::ExitCode,
    time::{Duration, Instant},
};

use crate::scenarios::{self, Line};

/// Paths of the programs in the machine.
pub(crate) const PRODUCT: &str = "/usr/bin/cmp-supervisor";
pub(crate) const PROGRAM: &str = "/usr/bin/vm";

/// The module for disks in files, and such a disk.
pub(crate) const DISKS: &str = "/opt/loop.ko";
pub(crate) const DISK: &str = "/opt/disk";

/// Time limit for one scenario, including the end of all its processes. The machine
/// is emulated and slow, and a node starts in its first scenario.
pub(crate) const SCENARIO: Duration = Duration::from_mins(20);

/// The first process: sets the machine up, runs scenarios and powers off.
pub(crate) fn init() -> ExitCode {
    system::set_up();
    for name in system::scenarios() {
        let Some(scenario) = scenarios::ALL.iter().find(|scenario| scenario.name == name) else {
            continue;
        };
        println!("{name} begins");
        let began = Instant::now();
        let watch = watch::start(&name);
        let result = panic::catch_unwind(scenario.run);
        report::write(&name, result.map_err(|panic| report::text(panic.as_ref())));
        println!("{name} took {:.1?}", began.elapsed());
        if !scenario.lines.contains(&Line::Node) {
            system::clear();
        }
        drop(watch);
    }
    system::power_off()
}

/// Another role inside the machine: that of a container runtime or of a plugin's
/// command; `None` outside.
pub(crate) fn role() -> Option<ExitCode> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.split_first() {
        Some((role, rest)) if role == container::ROLE => Some(container::enter(rest)),
        Some((role, rest)) if role == payload::ROLE => Some(payload::run(rest)),
        _ => None,
    }
}
