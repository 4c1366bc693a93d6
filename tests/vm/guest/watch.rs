//! Ends the machine if a scenario takes too long, and shows what it waits for.

use std::{
    fs,
    path::Path,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
};

use super::{SCENARIO, report, server, system};

/// Lines of the supervisor's log that are shown.
const LOG_LINES: usize = 20;

/// A scenario that is being watched until this is dropped.
#[derive(Debug)]
pub(super) struct Watch(#[expect(dead_code, reason = "its end is the message")] Sender<()>);

/// Watches a scenario.
pub(super) fn start(scenario: &str) -> Watch {
    let (sender, ended) = mpsc::channel();
    let scenario = scenario.to_owned();
    thread::spawn(move || {
        if ended.recv_timeout(SCENARIO) == Err(RecvTimeoutError::Timeout) {
            let evidence = format!("{}\n{}", processes(), log());
            let late = format!("{scenario} still runs after {SCENARIO:?}:\n{evidence}");
            report::write(&scenario, Err(late));
            system::power_off();
        }
    });
    Watch(sender)
}

/// Each process: its PID, state, the kernel function in which it waits, and its
/// command.
fn processes() -> String {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = entries.filter_map(|entry| {
        let read = |file| fs::read_to_string(entry.path().join(file)).ok();
        let command = read("cmdline")?.replace('\0', " ");
        let state = read("stat")?.rsplit_once(')')?.1.chars().nth(1)?;
        let waits = read("wchan").unwrap_or_default();
        let pid = entry.file_name();
        (!command.is_empty()).then(|| format!("{} {state} {waits}: {command}", pid.display()))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn log() -> String {
    let log =
        fs::read_to_string(Path::new(server::DIRECTORY).join(server::LOG)).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default().join("\n")
}
