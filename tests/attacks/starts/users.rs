//! Whose users are leased, and what thousands of leases leave.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::{fs::FileExt, process::CommandExt},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use super::{Fact, OF_THE_FIRST, PATIENCE, Stage, check, tenants};
use crate::{arena::USERS, setting::Setting, supervisor::Supervisor};

pub(super) const FACTS: &[Fact] = &[
    ("a_user_that_has_a_process_is_nobodys_lease", taken),
    ("no_user_has_two_requests_at_a_time", no_sharing),
    ("the_spawner_knows_nothing_of_the_environment", no_secrets),
    ("requests_cost_nothing_that_stays", nothing_stays),
];

/// More requests than places, queue and users together have to serve at once.
const CROWD: usize = 20;
const ROUNDS: usize = 4;

/// Requests before the first count and between the two.
const WARM_UP: usize = 30;
const REQUESTS: usize = 300;

/// Memory that an allocator may come to keep, in KiB.
const SLACK: u64 = 6 * 1024;

const WHO: &str = "echo \"{said: \\\"$(id -u)\\\"}\"";

/// A process that is none of a supervisor's.
pub(super) struct Other(pub(super) Child);

impl Other {
    pub(super) fn of(user: u32) -> Self {
        let mut command = Command::new("sleep");
        Self(command.arg("300").uid(user).gid(user).spawn().expect("a process"))
    }
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
    check(lives, || "somebody else's process was killed".to_owned())?;
    check(!said.contains(&owner.to_string()), || format!("{owner} was leased: {said:?}"))
}

fn no_sharing() -> Result<(), String> {
    let stage = Stage::new(Setting::Uid);
    stage.add(
        "times",
        "b=$(date +%s%N); sleep 0.1; echo \"{said: \\\"$(id -u) $b $(date +%s%N)\\\"}\"",
    );
    let _supervisor = stage.start(stage.options.command())?;
    let mut spans = BTreeMap::<String, Vec<(u64, u64)>>::new();
    for _ in 0..ROUNDS {
        let crowd: Vec<_> = thread::scope(|scope| {
            let asked: Vec<_> =
                (0..CROWD).map(|_| scope.spawn(|| stage.ask_once("times"))).collect();
            asked.into_iter().map(|asked| asked.join().expect("an answer")).collect()
        });
        for said in crowd {
            let said = said?;
            let words: Vec<_> = said.split(' ').collect();
            let [user, began, ended] = words[..] else { return Err(said) };
            let span = (number(began)?, number(ended)?);
            spans.entry(user.to_owned()).or_default().push(span);
        }
    }
    for (user, spans) in &mut spans {
        spans.sort_unstable();
        let overlap = spans.windows(2).find(|pair| pair[1].0 < pair[0].1);
        check(overlap.is_none(), || format!("{user} had two requests at a time: {overlap:?}"))?;
    }
    check(spans.len() > 1, || "all were one after the other".to_owned())
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error| format!("{text:?}: {error}"))
}

/// A worker begins as a copy of the spawner, and belongs to a tenant before it
/// is another program.
fn no_secrets() -> Result<(), String> {
    let stage = Stage::new(Setting::Uid);
    let secret = format!("{:032x}", rand::random::<u128>());
    let mut command = stage.options.command();
    command.env("VAULT_TOKEN", &secret);
    let supervisor = stage.start(command)?;
    let spawner = supervisor.spawner().ok_or("there is no spawner")?;
    let environment = fs::read(format!("/proc/{spawner}/environ")).expect("an environment");
    check(environment.is_empty(), || format!("{} bytes of environment", environment.len()))?;
    let found = remembers(supervisor.pid(), &secret);
    check(found, || "the supervisor's own memory cannot be read".to_owned())?;
    check(!remembers(spawner, &secret), || "the spawner remembers a secret".to_owned())
}

/// Whether a text is anywhere in what a process may write to.
fn remembers(pid: i32, text: &str) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("memory");
    maps.lines().filter(|line| line.contains(" rw")).any(|line| {
        let range = line.split(' ').next().unwrap_or_default();
        let parse = |text: &str| u64::from_str_radix(text, 16).ok();
        let range = range.split_once('-').and_then(|(a, b)| Some((parse(a)?, parse(b)?)));
        let Some((first, end)) = range else { return false };
        let mut bytes = vec![0; usize::try_from(end - first).unwrap_or_default()];
        memory.read_exact_at(&mut bytes, first).is_ok()
            && bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

/// What one process holds.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    memory: u64,
}

impl Held {
    fn of(pid: i32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
        let row = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = row.and_then(|row| row.split_whitespace().next()?.parse().ok());
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors").count();
        Self { descriptors, memory: memory.expect("a size") }
    }
}

fn nothing_stays() -> Result<(), String> {
    let stage = Stage::new(Setting::Uid);
    stage.add("user", WHO);
    stage.add("fails", "echo x > \"$TMPDIR/x\"; echo no >&2; exit 1");
    let supervisor = stage.start(stage.options.command())?;
    let pids = [supervisor.pid(), supervisor.spawner().ok_or("there is no spawner")?];
    let ask = |count: usize| {
        for _ in 0..count {
            stage.ask_once("user")?;
            check(stage.ask_once("fails").is_err(), || "it failed".to_owned())?;
        }
        settled(&stage, &supervisor)
    };
    ask(WARM_UP)?;
    let before = pids.map(Held::of);
    ask(REQUESTS)?;
    let after = pids.map(Held::of);
    let is_flat = before.iter().zip(&after).all(|(before, after)| {
        after.descriptors <= before.descriptors && after.memory <= before.memory + SLACK
    });
    check(is_flat, || format!("before: {before:?}, after: {after:?}"))
}

/// Waits until the last lease has ended: neither processes nor files are left.
fn settled(stage: &Stage, supervisor: &Supervisor) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    loop {
        let left = tenants(stage);
        let root = stage.directory.path().join("work/_cmp_server");
        let files: Vec<_> = fs::read_dir(root).expect("workspaces").flatten().collect();
        if left.is_empty() && files.is_empty() && !supervisor.text().contains("is not leased again")
        {
            return Ok(());
        }
        check(Instant::now() < until, || format!("left: {left:?}, {files:?}"))?;
        thread::sleep(Duration::from_millis(20));
    }
}
