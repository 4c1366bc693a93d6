//! The supervisor is killed, alone or together with its spawner. The tests check
//! which processes remain in each tier and that the next start ends them.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt, chown},
    path::PathBuf,
    process::Command,
};

use super::{
    Fact, OF_THE_FIRST, Stage, check,
    killed::{AT_WORK, DAEMON, LONG, PATIENCE, all_gone, end, long, strike, until},
    tenants,
    users::{Other, claimant},
};
use crate::{
    arena::USERS,
    processes::{self, Process, groups},
    setting::Setting,
};

pub(super) const FACTS: &[Fact] = &[
    ("the_spawner_cleans_up_after_a_killed_supervisor", supervisor_alone),
    ("no_process_outlives_both_in_tiers_other_than_uid", both_elsewhere),
    ("no_process_outlives_both_in_a_container", both_in_container),
    ("the_next_start_ends_surviving_processes", both_of_users),
    ("the_next_start_ends_unreadable_processes", untraceable),
    ("a_process_without_a_workspace_is_spared_and_its_uid_not_leased", without_proof),
    ("processes_of_another_supervisor_are_spared", somebody_elses),
];

const WHO: &str = "echo \"{said: \\\"$(id -u)\\\"}\"";

/// A stage with a plugin that leaves a daemon, and a plugin that prints its UID.
fn stage(setting: Setting, daemon: &str) -> Stage {
    let stage = Stage::new(setting);
    stage.add(LONG, &long(daemon));
    stage.add("user", WHO);
    stage
}

/// Tiers with the setting they run in. `none` uses the same guards as `landlock`.
pub(super) fn every_tier() -> [(&'static str, Setting); 4] {
    let (uid, landlock) = (Setting::Uid, Setting::Landlock);
    [("namespaces", Setting::Namespaces), ("uid", uid), ("landlock", landlock), ("none", uid)]
}

pub(super) fn in_tier(tier: &'static str, setting: Setting, daemon: &str) -> Stage {
    let mut stage = stage(setting, daemon);
    stage.options.isolation = tier;
    if tier == "none" {
        stage.options.more.push("--accept-no-isolation".to_owned());
    }
    stage
}

fn workspaces(stage: &Stage) -> Vec<PathBuf> {
    let root = stage.directory.path().join("work/_cmp_server");
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn supervisor_alone() -> Result<(), String> {
    for (tier, setting) in every_tier() {
        let stage = in_tier(tier, setting, DAEMON);
        let mut supervisor = stage.start(stage.options.command())?;
        let spawner = supervisor.spawner().ok_or("there is no spawner")?;
        strike(&stage, spawner, || end(supervisor.pid()))
            .and_then(|()| {
                supervisor.wait(PATIENCE).map(drop).ok_or("the supervisor still runs".to_owned())
            })
            .and_then(|()| all_gone(&stage))
            .and_then(|()| until("no spawner", || !lives(spawner)))
            .map_err(|why| format!("{tier}: {why}"))?;
        let left = workspaces(&stage);
        check(left.is_empty(), || format!("{tier}: left {left:?}"))?;
    }
    Ok(())
}

fn lives(pid: i32) -> bool {
    processes::all().iter().any(|process| process.pid == pid)
}

/// Kills both, so that neither can clean up after the other.
fn lose_both(stage: &Stage) -> Result<(), String> {
    let supervisor = stage.start(stage.options.command())?;
    let spawner = supervisor.spawner().ok_or("there is no spawner")?;
    strike(stage, spawner, || end(spawner).and_then(|()| end(supervisor.pid())))
}

/// A process namespace ends with the process that created it. A guard ends with its
/// parent, and the guard's processes with it.
fn both_elsewhere() -> Result<(), String> {
    for (tier, setting) in every_tier().into_iter().filter(|(tier, _)| *tier != "uid") {
        let stage = in_tier(tier, setting, DAEMON);
        lose_both(&stage)
            .and_then(|()| all_gone(&stage))
            .map_err(|why| format!("{tier}: {why}"))?;
    }
    Ok(())
}

/// The kernel ends all of a process namespace when its first process ends.
fn both_in_container() -> Result<(), String> {
    let stage = stage(Setting::Uid, DAEMON);
    let plain = stage.options.command();
    let mut command = Command::new("unshare");
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(["--pid", "--fork", "--mount-proc"]).arg(plain.get_program());
    command.args(plain.get_args());
    let container = stage.start(command)?;
    let child_of = |pid| {
        let found = processes::all().into_iter().find(|process| process.parent == pid);
        found.map(|process| process.pid).ok_or("a process is missing")
    };
    let supervisor = child_of(container.pid())?;
    let spawner = child_of(supervisor)?;
    let blow = || {
        end(spawner)?;
        // It may have noticed that already, and ended.
        let _ = end(supervisor);
        Ok(())
    };
    strike(&stage, spawner, blow)?;
    all_gone(&stage)
}

/// No process with the right to end the daemon is left until the next start.
fn both_of_users() -> Result<(), String> {
    ended_by_next(&stage(Setting::Uid, &format!("{DAEMON}exec ")), "sleep 300")
}

/// If a UID may not read its program, most files in `/proc/PID` belong to root.
fn untraceable() -> Result<(), String> {
    const DAEMON: &str = "cp /bin/sleep $HOME/linger; chmod 111 $HOME/linger; (setsid \
                          $HOME/linger 300 >/dev/null 2>&1 &); sleep 0.3; exec ";
    ended_by_next(&stage(Setting::Uid, DAEMON), "linger 300")
}

/// Only the daemon is left, with one UID: the plugin's command ends with its parent.
/// The next start must end the daemon, remove its files and not lease its UID yet.
fn ended_by_next(stage: &Stage, daemon: &str) -> Result<(), String> {
    lose_both(stage)?;
    let is_daemons =
        |process: &Process| process.command.contains(daemon) && !process.command.contains(AT_WORK);
    let mut left = Vec::new();
    let alone = until("only the daemon", || {
        left = tenants(stage);
        !left.is_empty() && left.iter().all(is_daemons)
    });
    alone.map_err(|why| format!("{why}, but: {left:?}"))?;
    let left = Left(left);
    check(left.0.iter().all(|process| process.uid == left.0[0].uid), || format!("{:?}", left.0))?;
    check(workspaces(stage).len() == 1, || format!("{:?}", workspaces(stage)))?;

    let _next = stage.start(stage.options.command())?;
    // A process that was killed exists until the first process reaps it.
    let left_well: Vec<_> = tenants(stage).into_iter().filter(Process::is_well).collect();
    check(left_well.is_empty(), || format!("the next start did not end {left_well:?}"))?;
    until("no workspace", || workspaces(stage).is_empty())?;
    is_not_leased(stage, &left.0)
}

fn is_not_leased(stage: &Stage, left: &[Process]) -> Result<(), String> {
    for _ in 0..2 * USERS {
        let said = stage.ask_once("user")?;
        let met = left.iter().find(|process| process.uid.to_string() == said);
        check(met.is_none(), || format!("UID {said} was leased although it owned {met:?}"))?;
    }
    Ok(())
}

/// The workspace that would prove that the process belonged to a request is gone.
fn without_proof() -> Result<(), String> {
    let stage = &stage(Setting::Uid, DAEMON);
    lose_both(stage)?;
    let left = Left(tenants(stage));
    check(!left.0.is_empty(), || "no daemon is left".to_owned())?;
    let work = stage.directory.path().join("work");
    fs::rename(work.join("_cmp_server"), stage.directory.path().join("elsewhere"))
        .map_err(|error| error.to_string())?;

    let _next = stage.start(stage.options.command())?;
    is_not_leased(stage, &left.0)?;
    let lives = left.0.iter().any(Process::is_well);
    check(lives, || "a process that may belong to another program was ended".to_owned())
}

/// Processes that a start must not end, although their UIDs own workspaces.
fn somebody_elses() -> Result<(), String> {
    let stage = stage(Setting::Uid, "");
    let claimed = stage.user(OF_THE_FIRST);
    let claim = claimant(claimed);
    until("the claim", || groups(claim.0.id()).contains(&claimed))?;
    // A UID outside the range: another kind of server may leave directories too.
    let outside = stage.options.first_uid - 1;
    let mut others = [claimed, outside].map(Other::of);
    let root = stage.directory.path().join("work/_cmp_server");
    fs::DirBuilder::new().mode(0o771).create(&root).map_err(|error| error.to_string())?;
    for user in [claimed, outside] {
        let path = root.join(user.to_string());
        fs::create_dir(&path).map_err(|error| error.to_string())?;
        chown(&path, Some(user), Some(user)).map_err(|error| error.to_string())?;
    }
    let _supervisor = stage.start(stage.options.command())?;
    let lives = others.each_mut().map(|other| matches!(other.0.try_wait(), Ok(None)));
    check(lives == [true; 2], || format!("a process of another program was ended: {lives:?}"))
}

/// Processes that are killed when the test is over.
struct Left(Vec<Process>);

impl Drop for Left {
    fn drop(&mut self) {
        for process in &self.0 {
            // It may have ended by itself.
            let _ = end(process.pid);
        }
    }
}
