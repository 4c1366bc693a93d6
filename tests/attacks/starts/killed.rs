//! The spawner is killed without warning: the supervisor must end and no process
//! of a request may survive.

use std::time::Duration;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{Fact, Stage, check, tenants};
use crate::{
    emulate,
    processes::{self, Process},
    setting::Setting,
    supervisor::Supervisor,
    waiting::{self, LOOK_AGAIN},
};

pub(super) const FACTS: &[Fact] = &[
    ("the_supervisor_ends_without_its_spawner_in_uid", spawner_of_users),
    ("the_supervisor_ends_without_its_spawner_in_namespaces", spawner_of_namespaces),
    ("the_supervisor_ends_without_its_spawner_in_landlock", spawner_of_landlock),
    ("no_process_outlives_the_spawner_in_namespaces", all_of_namespaces),
    ("no_process_outlives_the_spawner_in_landlock", all_of_landlock),
    ("no_process_is_left_without_the_kill_capability", no_kill),
];

/// Longest time until processes must have ended.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A plugin with a long-running command, and the command that identifies it.
pub(super) const LONG: &str = "long";
pub(super) const AT_WORK: &str = "sleep 299";

/// Starts a daemon that ignores signals, is orphaned and has its own session.
pub(super) const DAEMON: &str =
    "(setsid sh -c 'trap \"\" TERM INT HUP; sleep 300; sleep 301' >/dev/null 2>&1 &); sleep 0.3; ";

/// Processes of requests. Includes the supervisor's UID, which requests have in
/// some tiers: the supervisor itself has ended by then.
fn of_requests(stage: &Stage) -> Vec<Process> {
    let users = stage.options.first_uid..=stage.options.run_as;
    let mut found = processes::all();
    found.retain(|process| users.contains(&process.uid));
    found
}

/// Waits until no process of a request is left.
pub(super) fn all_gone(stage: &Stage) -> Result<(), String> {
    let mut left = Vec::new();
    let gone = until("no process of a request", || {
        left = of_requests(stage);
        left.is_empty()
    });
    gone.map_err(|why| format!("{why}, but: {left:?}"))
}

pub(super) fn until(what: &str, is_so: impl FnMut() -> bool) -> Result<(), String> {
    check(waiting::until(PATIENCE, is_so), || format!("expected: {what}"))
}

/// Starts a request, kills the spawner and checks that the supervisor fails.
fn lose_spawner(stage: &Stage, prelude: &str) -> Result<(), String> {
    stage.add(LONG, &long(prelude));
    let mut command = stage.options.command();
    // A supervisor that waits for the end of commands does not end in time.
    command.args(["--exec-grace", "60s"]);
    let mut supervisor = stage.start(command)?;
    let spawner = supervisor.spawner().ok_or("there is no spawner")?;
    strike(stage, spawner, || end(spawner))?;
    ended_badly(&mut supervisor)
}

pub(super) fn end(pid: i32) -> Result<(), String> {
    kill(Pid::from_raw(pid), Signal::SIGKILL).map_err(|error| error.to_string())
}

/// The script of a plugin that runs until it is killed.
pub(super) fn long(prelude: &str) -> String {
    format!("{prelude}{AT_WORK}; true")
}

/// Starts a request of [`LONG`], waits until its command runs below `spawner`, and
/// then calls `blow`.
pub(super) fn strike(
    stage: &Stage,
    spawner: i32,
    blow: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    let answer = stage.runtime.block_on(async {
        let struck = async {
            while !is_at_work(spawner) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            blow()
        };
        tokio::join!(stage.ask(LONG), tokio::time::timeout(PATIENCE, struck))
    });
    answer.1.map_err(|_elapsed| "no command is running")??;
    check(answer.0.is_err(), || format!("expected no manifests, got {:?}", answer.0))
}

fn is_at_work(spawner: i32) -> bool {
    let all = processes::all();
    let is_command = |process: &&Process| process.command.trim_end() == AT_WORK;
    all.iter().filter(is_command).any(|process| is_below(&all, process, spawner))
}

pub(super) fn is_below(all: &[Process], process: &Process, ancestor: i32) -> bool {
    let mut pid = process.parent;
    while let Some(parent) = all.iter().find(|each| each.pid == pid) {
        if pid == ancestor {
            return true;
        }
        pid = parent.parent;
    }
    false
}

pub(super) fn ended_badly(supervisor: &mut Supervisor) -> Result<(), String> {
    let status = supervisor.wait(PATIENCE).ok_or("the supervisor does not end at once")?;
    check(status.code().is_some_and(|code| code > 0), || {
        format!("the supervisor ended with {status}")
    })
}

/// The plugin's command is a child of the spawner here and ends with it.
fn spawner_of(setting: Setting) -> Result<(), String> {
    let stage = Stage::new(setting);
    stage.add("other", "echo '{said: served}'");
    lose_spawner(&stage, "exec ")?;
    all_gone(&stage)?;
    // Files that the first supervisor left must not disturb the next one.
    let _next = stage.start(stage.options.command())?;
    let said = stage.ask_once("other")?;
    check(said == "served", || said)
}

fn spawner_of_users() -> Result<(), String> {
    spawner_of(Setting::Uid)
}

fn spawner_of_namespaces() -> Result<(), String> {
    spawner_of(Setting::Namespaces)
}

fn spawner_of_landlock() -> Result<(), String> {
    spawner_of(Setting::Landlock)
}

fn nothing_outlives(setting: Setting) -> Result<(), String> {
    let stage = Stage::new(setting);
    lose_spawner(&stage, DAEMON)?;
    all_gone(&stage)
}

fn all_of_namespaces() -> Result<(), String> {
    nothing_outlives(Setting::Namespaces)
}

fn all_of_landlock() -> Result<(), String> {
    nothing_outlives(Setting::Landlock)
}

/// The killer's effective UID is the tenant's, so it needs no `CAP_KILL`.
fn no_kill() -> Result<(), String> {
    let stage = Stage::new(Setting::Uid);
    stage.add("daemon", &format!("{DAEMON}echo '{{said: left}}'"));
    let kept = format!("{}CAP_SETUID+CAP_SETGID", emulate::CAPABILITIES);
    let supervisor = stage.start(stage.under(&kept))?;
    let said = stage.ask_once("daemon")?;
    check(said == "left", || said)?;
    until("no process of a request", || tenants(&stage).is_empty())?;
    until("no UID is quarantined", || supervisor.quarantined() == 0)
}
