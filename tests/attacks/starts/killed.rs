//! Ends without warning, and who outlives them.

use std::{
    thread,
    time::{Duration, Instant},
};

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
};

pub(super) const FACTS: &[Fact] = &[
    ("without_a_spawner_users_are_not_served", spawner_of_users),
    ("without_a_spawner_namespaces_are_not_served", spawner_of_namespaces),
    ("without_a_spawner_one_user_is_not_served", spawner_of_landlock),
    ("nothing_outlives_a_spawner_in_namespaces", all_of_namespaces),
    ("nothing_outlives_a_spawner_with_one_user", all_of_landlock),
    ("without_the_right_to_kill_nothing_is_left_either", no_kill),
];

/// How long ends may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How long a supervisor may take to end that has nothing to wait for.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Time between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A plugin that is at work for long, and the command by which one sees it.
pub(super) const LONG: &str = "long";
pub(super) const AT_WORK: &str = "sleep 299";

/// Deaf, nobody's child and in a session of its own.
pub(super) const DAEMON: &str =
    "(setsid sh -c 'trap \"\" TERM INT HUP; sleep 300; sleep 301' >/dev/null 2>&1 &); sleep 0.3; ";

/// Also where requests have the supervisor's own user, who is gone by then.
fn of_requests(stage: &Stage) -> Vec<Process> {
    let users = stage.options.first_uid..=stage.options.run_as;
    let mut found = processes::all();
    found.retain(|process| users.contains(&process.uid));
    found
}

/// Nothing of a request may be left for long.
pub(super) fn all_gone(stage: &Stage) -> Result<(), String> {
    let mut left = Vec::new();
    let gone = until("no process of a request", || {
        left = of_requests(stage);
        left.is_empty()
    });
    gone.map_err(|why| format!("{why}, but: {left:?}"))
}

pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        check(Instant::now() < until, || format!("expected: {what}"))?;
        thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// Has a request at work, kills the spawner, and looks how the supervisor ends.
fn lose_spawner(stage: &Stage, prelude: &str) -> Result<(), String> {
    stage.add(LONG, &long(prelude));
    let mut supervisor = stage.start(stage.options.command())?;
    let spawner = supervisor.spawner().ok_or("there is no spawner")?;
    strike(stage, spawner, || end(spawner))?;
    ended_badly(&mut supervisor)
}

pub(super) fn end(pid: i32) -> Result<(), String> {
    kill(Pid::from_raw(pid), Signal::SIGKILL).map_err(|error| error.to_string())
}

/// The script of a plugin that is at work until it is ended.
pub(super) fn long(prelude: &str) -> String {
    format!("{prelude}{AT_WORK}; true")
}

/// Has a request of [`LONG`] at work below `spawner`, and then strikes.
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
    answer.1.map_err(|_elapsed| "no command is at work")??;
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
    let status = supervisor.wait(AT_ONCE).ok_or("the supervisor does not end at once")?;
    check(status.code().is_some_and(|code| code > 0), || format!("it ended with {status}"))
}

/// Commands end with their parent, who was the spawner.
fn spawner_of(setting: Setting) -> Result<(), String> {
    let stage = Stage::new(setting);
    stage.add("other", "echo '{said: served}'");
    lose_spawner(&stage, "exec ")?;
    all_gone(&stage)?;
    // What it left on disk is in nobody's way.
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

/// Killers are the tenant's user, so the capability is not what ends daemons.
fn no_kill() -> Result<(), String> {
    let stage = Stage::new(Setting::Uid);
    stage.add("daemon", &format!("{DAEMON}echo '{{said: left}}'"));
    let kept = format!("{}CAP_SETUID+CAP_SETGID", emulate::CAPABILITIES);
    let supervisor = stage.start(stage.under(&kept))?;
    let said = stage.ask_once("daemon")?;
    check(said == "left", || said)?;
    until("no process of a request", || tenants(&stage).is_empty())?;
    let text = supervisor.text();
    check(!text.contains("is not leased again"), || text)
}
