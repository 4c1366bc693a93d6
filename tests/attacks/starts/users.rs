//! Tests which UIDs are leased and which environment variables processes can read.

use std::{
    fs::{self, File},
    io,
    os::unix::{fs::FileExt, process::CommandExt},
    process::{Child, Command},
};

use super::{
    Fact, OF_THE_FIRST, Stage, check,
    killed::{LONG, PATIENCE, all_gone, end, is_below, long, strike},
};
use crate::{
    arena::USERS,
    processes::{self, Process},
    setting::Setting,
    waiting::until,
};

pub(super) const FACTS: &[Fact] = &[
    ("a_uid_with_a_process_is_not_leased", taken),
    ("the_spawner_keeps_no_environment_variable", no_secrets),
    ("a_child_sees_only_the_variables_its_plugin_may_see", no_secrets_below),
];

const WHO: &str = "echo \"{said: \\\"$(id -u)\\\"}\"";

/// A process that belongs to no supervisor.
pub(super) struct Other(pub(super) Child);

impl Other {
    pub(super) fn of(user: u32) -> Self {
        let mut command = Command::new("sleep");
        Self(command.arg("300").uid(user).gid(user).spawn().expect("a process"))
    }
}

/// A process that claims a UID, as the spawner of another supervisor does.
pub(super) fn claimant(user: u32) -> Other {
    let mut command = Command::new("setpriv");
    Other(command.args(["--groups", &user.to_string(), "sleep", "300"]).spawn().expect("setpriv"))
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn taken() -> Result<(), String> {
    let stage = Stage::new(Setting::Uid);
    stage.add("user", WHO);
    let owner = stage.user(OF_THE_FIRST);
    let mut other = Other::of(owner);
    let _supervisor = stage.start(stage.options.command())?;
    let answers: Result<Vec<_>, _> = (0..2 * USERS).map(|_| stage.ask_once("user")).collect();
    let said = answers?;
    let lives = matches!(other.0.try_wait(), Ok(None));
    check(lives, || "a process of another program was killed".to_owned())?;
    check(!said.contains(&owner.to_string()), || format!("UID {owner} was leased: {said:?}"))
}

/// A worker starts as a copy of the spawner and has the tenant's UID before it
/// executes the plugin's command, so the spawner must hold no secret.
fn no_secrets() -> Result<(), String> {
    let stage = Stage::new(Setting::Uid);
    let secret = format!("{:032x}", rand::random::<u128>());
    let mut command = stage.options.command();
    command.env("VAULT_TOKEN", &secret);
    let supervisor = stage.start(command)?;
    let spawner = supervisor.spawner().ok_or("there is no spawner")?;
    let environment = fs::read(format!("/proc/{spawner}/environ")).expect("an environment");
    check(environment.is_empty(), || format!("{} bytes of environment", environment.len()))?;
    let found = remembers(supervisor.pid(), &secret)?;
    check(found, || "the supervisor's own memory cannot be read".to_owned())?;
    check(!remembers(spawner, &secret)?, || "the spawner's memory contains a secret".to_owned())
}

/// Checks all processes below the spawner: workers, guards, commands and children.
fn no_secrets_below() -> Result<(), String> {
    for setting in [Setting::Namespaces, Setting::Uid, Setting::Landlock] {
        shows_no_secrets(setting).map_err(|why| format!("{setting}: {why}"))?;
    }
    Ok(())
}

fn shows_no_secrets(setting: Setting) -> Result<(), String> {
    let stage = Stage::new(setting);
    stage.add(LONG, &long(""));
    let path = stage.directory.path().join(format!("plugins.d/{LONG}.yaml"));
    let text = fs::read_to_string(&path).expect("a definition");
    let text = text.replace("spec: {", "spec: {sandbox: {env: [SHOWN]}, ");
    fs::write(path, text).expect("a definition");
    let [own, hidden, shown] = [(); 3].map(|()| format!("{:032x}", rand::random::<u128>()));
    let mut command = stage.options.command();
    command.env("CMP_SUPERVISOR_TOKEN", &own).env("VAULT_TOKEN", &hidden).env("SHOWN", &shown);
    let mut supervisor = stage.start(command)?;
    let spawner = supervisor.spawner().ok_or("there is no spawner")?;
    let mut met = 0;
    strike(&stage, spawner, || {
        let all = processes::all();
        let below = all.iter().filter(|process| is_below(&all, process, spawner));
        let below: Vec<_> = below.collect();
        for process in &below {
            let environment = fs::read(format!("/proc/{}/environ", process.pid));
            let environment = if_well(process, environment.map_err(|error| error.to_string()))?;
            let has = |text: &str| {
                let remembers = if_well(process, remembers(process.pid, text))?;
                Ok::<_, String>((contains(&environment, text), remembers))
            };
            for secret in [&own, &hidden] {
                let is_there = has(secret)? != (false, false);
                check(!is_there, || format!("{process:?} can read a secret"))?;
            }
            met += usize::from(has(&shown)? == (true, true));
        }
        end(supervisor.pid())
    })?;
    supervisor.wait(PATIENCE);
    all_gone(&stage)?;
    // At least the shell and its child: a guard need not have the variable.
    check(met >= 2, || format!("only {met} processes have the variable that the plugin may see"))
}

/// Nothing, instead of an error, if the process ends: one that measures the request may. Its
/// memory is gone a moment before its state tells it.
fn if_well<T: Default>(process: &Process, read: Result<T, String>) -> Result<T, String> {
    read.or_else(|error| {
        let ends = until(PATIENCE, || !process.is_well());
        check(ends, || format!("{process:?}: {error}")).map(|()| T::default())
    })
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// True if the writable memory of a process contains `text`.
fn remembers(pid: i32, text: &str) -> Result<bool, String> {
    let cannot = |error: io::Error| format!("the memory of process {pid}: {error}");
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).map_err(cannot)?;
    let memory = File::open(format!("/proc/{pid}/mem")).map_err(cannot)?;
    let found = maps.lines().filter(|line| line.contains(" rw")).any(|line| {
        let range = line.split(' ').next().unwrap_or_default();
        let parse = |text: &str| u64::from_str_radix(text, 16).ok();
        let range = range.split_once('-').and_then(|(a, b)| Some((parse(a)?, parse(b)?)));
        let Some((first, end)) = range else { return false };
        let mut bytes = vec![0; usize::try_from(end - first).unwrap_or_default()];
        memory.read_exact_at(&mut bytes, first).is_ok() && contains(&bytes, text)
    });
    Ok(found)
}
