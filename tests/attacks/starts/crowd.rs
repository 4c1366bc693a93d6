//! More simultaneous requests than the limits allow, and many requests in a row.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt,
    time::Duration,
};

use tokio::task::JoinSet;

use super::{Fact, PATIENCE, Stage, check, tenants};
use crate::{
    arena, helper, processes,
    requests::{generate, parcel},
    setting::Setting,
    supervisor::Supervisor,
    waiting::until,
};

pub(super) const FACTS: &[Fact] = &[
    ("no_uid_serves_two_requests_at_a_time", more_than_places),
    ("excess_requests_are_answered_or_refused_with_the_limit", more_than_wait),
    ("requests_wait_when_uids_are_few", more_than_users),
    ("requests_leave_no_resources_in_use", nothing_stays),
];

/// Number of simultaneous requests: more than may run and wait at the same time.
const CROWD: usize = 240;

/// The values of `--max-requests` and `--max-queue`.
const PLACES: usize = 4;
const QUEUE: usize = 100;

/// Places that one plugin leaves to others that are served and run nothing.
const RESERVED: usize = 2;

/// Number of requests of each kind. Half of them run before the first measurement
/// of descriptors and memory. The variable sets another total number: 10,000 take
/// some minutes.
const REQUESTS: usize = 300;
const HOW_MANY: &str = "CMP_SUPERVISOR_ATTACKS_REQUESTS";

/// Memory growth in KiB that is tolerated, because the allocator keeps some.
const SLACK: u64 = 6 * 1024;

/// Processes on standby while there is no request. The spawner holds a descriptor of each.
const STANDBY: usize = 2;

/// More than the spawner keeps processes on standby that are too many.
const SURPLUS: Duration = Duration::from_secs(30);

/// A plugin that prints its UID, workspace, token, start time and end time.
const SPAN: &str = "span";
const TOKEN: &str = "ARGOCD_ENV_TOKEN";
const SCRIPT: &str = "b=$(date +%s%N); sleep 0.05; echo \"{said: \\\"$(id -u) $PWD \
                      $ARGOCD_ENV_TOKEN $b $(date +%s%N)\\\"}\"";

/// The results of many simultaneous requests.
#[derive(Default)]
struct Crowd {
    /// Start and end time of each request, by UID.
    spans: BTreeMap<String, Vec<(u64, u64)>>,
    workspaces: BTreeSet<String>,
    refusals: Vec<String>,
    answers: usize,
}

impl Crowd {
    /// Sends `count` requests at the same time.
    fn come(stage: &Stage, count: usize) -> Result<Self, String> {
        let socket = stage.directory.path().join(format!("sockets/{SPAN}.sock"));
        let tokens: Vec<_> = (0..count).map(|number| format!("token-{number}")).collect();
        let answers = stage.runtime.block_on(async {
            let mut asked = JoinSet::new();
            for token in tokens {
                let parcel = parcel(&stage.archive, &[(TOKEN, &token)], PATIENCE);
                let socket = socket.clone();
                asked.spawn(async move { (token, generate(&socket, &parcel).await) });
            }
            asked.join_all().await
        });
        let mut crowd = Self::default();
        for (token, answer) in answers {
            match answer {
                Ok(manifest) => crowd.count(&token, &manifest)?,
                Err(error) => crowd.refusals.push(error),
            }
        }
        crowd.share_nothing()?;
        Ok(crowd)
    }

    fn count(&mut self, token: &str, manifest: &[u8]) -> Result<(), String> {
        let value: serde_json::Value =
            serde_json::from_slice(manifest).map_err(|error| error.to_string())?;
        let said = value["said"].as_str().unwrap_or_default();
        let words: Vec<_> = said.split(' ').collect();
        let [user, workspace, whose, began, ended] = words[..] else { return Err(said.to_owned()) };
        check(whose == token, || format!("the request with {token} got the answer for {whose}"))?;
        let is_new = self.workspaces.insert(workspace.to_owned());
        check(is_new, || format!("two requests had the workspace {workspace}"))?;
        self.spans.entry(user.to_owned()).or_default().push((number(began)?, number(ended)?));
        self.answers += 1;
        Ok(())
    }

    fn share_nothing(&mut self) -> Result<(), String> {
        for (user, spans) in &mut self.spans {
            spans.sort_unstable();
            let overlap = spans.windows(2).find(|pair| pair[1].0 < pair[0].1);
            check(overlap.is_none(), || {
                format!("UID {user} had two requests at a time: {overlap:?}")
            })?;
        }
        Ok(())
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error| format!("{text:?}: {error}"))
}

fn stage(setting: Setting, options: &[(&str, usize)]) -> Stage {
    let mut stage = Stage::new(setting);
    stage.add(SPAN, SCRIPT);
    for (name, value) in options {
        let at = stage.options.more.iter().position(|word| word == name).expect("an option");
        stage.options.more[at + 1] = value.to_string();
    }
    stage
}

fn more_than_places() -> Result<(), String> {
    let stage = stage(Setting::Uid, &[]);
    let supervisor = stage.start(stage.options.command())?;
    for _ in 0..4 {
        let crowd = Crowd::come(&stage, 18)?;
        check(crowd.refusals.is_empty(), || format!("{:?}", crowd.refusals))?;
        check(crowd.spans.len() > 1, || "all requests ran one after the other".to_owned())?;
    }
    settled(&stage, &supervisor)
}

fn more_than_wait() -> Result<(), String> {
    for setting in [Setting::Uid, Setting::Namespaces] {
        let stage = stage(setting, &[("--max-requests", PLACES), ("--max-queue", QUEUE)]);
        let supervisor = stage.start(stage.options.command())?;
        let crowd = Crowd::come(&stage, CROWD)?;
        let told = [
            format!(
                "the limit is {PLACES} requests at a time, and {RESERVED} of them are reserved"
            ),
            format!("and {QUEUE} waiting"),
        ];
        let is_told = |error: &&String| told.iter().all(|text| error.contains(text));
        let other = crowd.refusals.iter().find(|error| !is_told(error));
        check(other.is_none(), || format!("{setting}: {other:?}"))?;
        let is_whole = !crowd.refusals.is_empty() && crowd.answers >= PLACES - RESERVED + QUEUE;
        check(is_whole, || format!("{setting}: only {} answers", crowd.answers))?;
        all_free(&stage, &supervisor, PLACES)?;
    }
    Ok(())
}

/// The supervisor admits more requests than the spawner has UIDs for.
fn more_than_users() -> Result<(), String> {
    const USERS: u32 = 3;
    // One is left to discovery.
    const GENERATE: usize = 2;
    // The supervisor of some tiers follows the tenants.
    const USED_BY_OTHERS: u32 = arena::USERS + 1;
    let mut stage = stage(Setting::Uid, &[("--max-requests", 32), ("--max-queue", CROWD)]);
    // No other test uses these UIDs, so no process that still ends can have one.
    stage.options.first_uid += USED_BY_OTHERS;
    // Each lease takes two UIDs of the range: one for the request, one for the
    // process that kills what is left of it.
    stage.options.last_uid = stage.options.first_uid + 2 * USERS - 1;
    let supervisor = stage.start(stage.options.command())?;
    let crowd = Crowd::come(&stage, CROWD / 4)?;
    check(crowd.refusals.is_empty(), || format!("{:?}", crowd.refusals))?;
    check((GENERATE..=USERS as usize).contains(&crowd.spans.len()), || {
        format!("only {:?}; the log: {}", crowd.spans, supervisor.text())
    })?;
    all_free(&stage, &supervisor, GENERATE)
}

/// Checks that nothing is left and that all `places` can be used at the same time.
fn all_free(stage: &Stage, supervisor: &Supervisor, places: usize) -> Result<(), String> {
    settled(stage, supervisor)?;
    let crowd = Crowd::come(stage, places)?;
    check(crowd.answers == places && crowd.spans.len() == places, || {
        format!(
            "expected {places} requests at a time, got {:?}, with the errors {:?}",
            crowd.spans, crowd.refusals
        )
    })?;
    settled(stage, supervisor)
}

/// Open descriptors of one process, and its memory in KiB.
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
    stage.add("user", "echo \"{said: \\\"$(id -u)\\\"}\"");
    stage.add("fails", "echo x > \"$TMPDIR/x\"; echo no >&2; exit 1");
    let supervisor = stage.start(stage.options.command())?;
    let spawner = supervisor.spawner().ok_or("there is no spawner")?;
    let pids = [supervisor.pid(), spawner];
    let wanted = helper::variable(HOW_MANY).and_then(|count| count.parse().ok());
    let half = wanted.map_or(REQUESTS, |count: usize| count / 2) / 2;
    let ask = || {
        for _ in 0..half {
            stage.ask_once("user")?;
            check(stage.ask_once("fails").is_err(), || {
                "the failing plugin did not fail".to_owned()
            })?;
        }
        settled(&stage, &supervisor)
    };
    ask()?;
    let is_at_rest = until(PATIENCE, || standby(spawner) == STANDBY);
    check(is_at_rest, || format!("{} processes on standby", standby(spawner)))?;
    let before = pids.map(Held::of);
    ask()?;
    let is_flat = |after: &[Held]| {
        before.iter().zip(after).all(|(before, after)| {
            after.descriptors <= before.descriptors && after.memory <= before.memory + SLACK
        })
    };
    // Processes on standby that are too many still have descriptors of the spawner.
    let mut after = pids.map(Held::of);
    let is_flat = until(SURPLUS, || {
        after = pids.map(Held::of);
        is_flat(&after)
    });
    if wanted.is_some() {
        eprintln!("{} requests: {before:?} half way, {after:?} in the end", 4 * half);
    }
    check(is_flat, || format!("before: {before:?}, after: {after:?}"))?;
    let lasting = lasting(&stage);
    check(lasting.is_empty(), || format!("left: {lasting:?}"))
}

fn standby(spawner: i32) -> usize {
    processes::all().iter().filter(|process| process.is_on_standby(spawner)).count()
}

/// Files and IPC objects that our UIDs own and that outlive processes.
fn lasting(stage: &Stage) -> Vec<String> {
    let users = stage.options.first_uid..=stage.options.last_uid;
    let is_ours = |uid: u32| users.contains(&uid);
    let shared = ["/tmp", "/var/tmp", "/dev/shm"].map(fs::read_dir);
    let files = shared
        .into_iter()
        .flatten()
        .flatten()
        .flatten()
        .filter(|entry| entry.metadata().is_ok_and(|about| is_ours(about.uid())));
    let files = files.map(|entry| entry.path().display().to_string());
    let mut left: Vec<_> = files.collect();
    for (kind, column) in [("shm", 7), ("sem", 4), ("msg", 7)] {
        let table = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
        let owner = |line: &&str| line.split_whitespace().nth(column)?.parse().ok();
        let ours = table.lines().filter(|line| owner(line).is_some_and(is_ours));
        left.extend(ours.map(|line| format!("{kind}: {line}")));
    }
    left
}

/// Waits until the last lease has ended, with no processes and files left.
fn settled(stage: &Stage, supervisor: &Supervisor) -> Result<(), String> {
    let root = stage.directory.path().join("work/_cmp_server");
    let (mut left, mut files) = (Vec::new(), Vec::new());
    let is_settled = until(PATIENCE, || {
        left = tenants(stage);
        files = fs::read_dir(&root).expect("workspaces").flatten().collect();
        left.is_empty() && files.is_empty() && supervisor.quarantined() == 0
    });
    check(is_settled, || format!("left: {left:?}, {files:?}"))
}
