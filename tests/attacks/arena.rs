//! A supervisor in one tier, a victim tenant with a running request, and all
//! targets that an attack must not reach.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use nix::unistd::{Uid, geteuid};
use tempfile::TempDir;
use tokio::runtime::{self, Runtime};

use crate::{
    aftermath::Before,
    attack::{Attack, BEGAN, Expected, Staging},
    evidence::{Evidence, Seen},
    helper,
    outcome::Outcome,
    processes,
    requests::{generate, pack, parcel},
    setting::Setting,
    supervisor::{NotServing, Options, Supervisor},
    targets::Targets,
    victims::Victims,
    waiting::{LOOK_AGAIN, PATIENCE, until},
};

/// UIDs for tenants: more than there are leases, fewer than `STRIDE`.
pub(crate) const USERS: u32 = 24;

/// UIDs reserved for each arena, for its tenants and its supervisor. No other
/// supervisor on the machine may use them: some attacks signal all processes of
/// a UID, and must hit no unrelated process if they escape.
const STRIDE: u32 = 30;

/// Lower than the UIDs that supervisors lease by default.
const FIRST_USER: u32 = 20_000;

/// Each run reserves `PLACES` blocks of UIDs: one for each arena, two for control
/// runs and two for the start tests. `RUNS` blocks of these keep the UIDs of
/// simultaneous runs apart.
const PLACES: u32 = 13;
const RUNS: u32 = 104;

/// Parent directory of the test directories. It holds no files of an image, and
/// the `namespaces` tier mounts nothing over it.
pub(crate) const PLACE: &str = "/var/tmp";

/// Timeout of the victim's request.
const VICTIM_TIME: Duration = Duration::from_hours(3);

/// Failed requests that are kept: more than there are attacks that fail, because a
/// target is among them.
const MAX_KEPT: u32 = 100;

/// Limits of all tenants.
const LIMITS: [(&str, u64); 10] = [
    ("--max-requests", 4),
    ("--max-processes", 1200),
    ("--max-memory", 268_435_456),
    ("--max-file-size", 33_554_432),
    ("--max-output", 1_048_576),
    ("--max-cpu", 60),
    ("--max-queue", 16),
    ("--max-repository-files", 1000),
    ("--max-disk", 100_663_296),
    ("--max-files", 8000),
];

/// The value of one flag in `LIMITS`.
pub(crate) fn limit(flag: &str) -> u64 {
    let limit = LIMITS.iter().find(|(other, _)| *other == flag);
    limit.map(|(_, value)| *value).expect("a limit of arenas")
}

/// The targets of the attacks, and the supervisor that must protect them.
pub(crate) struct Arena {
    setting: Setting,
    supervisor: Supervisor,
    targets: Targets,
    before: Before,
    runtime: Runtime,
    archive: PathBuf,
    directory: TempDir,
    victims: Victims,
}

impl Arena {
    /// Starts the supervisor and the victim. The error tells a person why this
    /// machine does not offer the tier.
    pub(crate) fn open(setting: Setting) -> Result<Self, String> {
        if !geteuid().is_root() {
            return Err("needs root, to run victims with other UIDs".to_owned());
        }
        let directory = TempDir::with_prefix_in("cmp-attacks-", PLACE).expect("a directory");
        let options = furnish(setting, first_user(setting as u32), directory.path());
        let mut options = options;
        let (mut targets, mut victims) = Targets::place(&options);
        let network = format!("{}", targets.allowed_port);
        let keep = MAX_KEPT.to_string();
        options.more.extend(["--network", &network, "--keep-failed", &keep].map(str::to_owned));
        let supervisor = match Supervisor::start(&options) {
            Ok(supervisor) => supervisor,
            Err(NotServing::NotOffered(why)) => return Err(why),
            Err(NotServing::Ended(_, why) | NotServing::Broken(why)) => panic!("{setting}: {why}"),
        };
        let archive = directory.path().join("archive.tgz");
        pack(&archive);
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        targets.metrics_port = supervisor.port().expect("a port in the log");
        targets.supervisor = supervisor.pid();
        targets.spawner = supervisor.spawner().expect("a spawner");
        hold(setting, &runtime, &mut targets, &archive);
        if setting.kin() == Setting::Landlock {
            targets.stand_in(&mut victims);
        }
        targets.check().unwrap_or_else(|missing| panic!("{setting}: no target: {missing}"));
        victims.heard();
        let uids = setting.outside(options.first_uid)..=setting.outside(options.run_as);
        let before = Before::look(&targets, uids).without_short_lived(&targets);
        Ok(Self { setting, supervisor, targets, before, runtime, archive, directory, victims })
    }

    /// Runs an attack as a tenant and judges its result. The error says which
    /// promise of the tier was broken.
    pub(crate) fn face(&mut self, attack: &Attack) -> Result<(), String> {
        // Only the attack itself may not have replaced it.
        self.before.accept_cleaner(&self.targets);
        let answer = self.ask(attack);
        let expected = attack.expected(self.setting);
        let left = self.settle(attack, expected);
        let calls = self.victims.heard();
        let seen = Seen { left: &left, calls: &calls };
        let aftermath = self.before.compare(&self.targets, attack);
        let heals = until(PATIENCE, || self.supervisor.quarantined() == 0);
        self.before.restore(&self.targets);
        expected.judge(&answer)?;
        attack.evidence.judge(expected, &answer, &seen)?;
        aftermath.map_err(|left| format!("{left}, after {answer:?}"))?;
        heals.then_some(()).ok_or_else(|| format!("a UID stays quarantined, after {answer:?}"))
    }

    /// Requests an attack. One that should exceed its timeout gets more and more time, until
    /// the error shows that it has begun.
    fn ask(&self, attack: &Attack) -> Result<Outcome, String> {
        let targets = serde_json::to_string(&self.targets).expect("targets as JSON");
        let environment = [(helper::NAME, attack.name), (helper::TARGETS, targets.as_str())];
        let socket = self.directory.path().join("sockets/attack.sock");
        let mut timeout = attack.timeout();
        loop {
            let parcel = parcel(&self.archive, &environment, timeout);
            let answer = self.runtime.block_on(generate(&socket, &parcel));
            let is_early = attack.staging == Staging::CutOff
                && answer.as_ref().is_err_and(|error| !error.contains(BEGAN));
            if !is_early || timeout > PATIENCE {
                return answer.and_then(|manifest| helper::outcome(&manifest));
            }
            timeout *= 2;
        }
    }

    /// Undoes the changes of an attack that is expected to work in this tier, and
    /// returns a description of them.
    fn settle(&self, attack: &Attack, expected: Expected) -> String {
        if expected != Expected::Residual {
            return String::new();
        }
        let difference = || self.before.difference(&self.targets).unwrap_or_default();
        let leaves = matches!(attack.evidence, Evidence::Leaves(_));
        let left = if leaves { difference() } else { String::new() };
        self.before.restore(&self.targets);
        left
    }

    pub(crate) fn close(&mut self) {
        self.supervisor.stop();
    }
}

/// The first UID of a supervisor. Supervisors in different places have different
/// UIDs.
pub(crate) fn first_user(place: u32) -> u32 {
    let run = std::process::id() % RUNS;
    FIRST_USER + (PLACES * run + place) * STRIDE
}

/// Makes the directories of a supervisor, and a plugin.
pub(crate) fn furnish(setting: Setting, first_uid: u32, directory: &Path) -> Options {
    fs::set_permissions(directory, Permissions::from_mode(0o755)).expect("a mode");
    let run_as = first_uid + USERS;
    // Kubernetes creates an empty volume with mode 0777.
    for (name, mode) in [("sockets", 0o777), ("work", 0o777), ("plugins.d", 0o755), ("bin", 0o755)]
    {
        let path = directory.join(name);
        fs::create_dir(&path).expect("a directory");
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
    }
    let root = setting.outside(0);
    chown(directory.join("work"), Some(root), Some(root)).expect("an owner");
    let program = directory.join("bin/attack");
    fs::copy(std::env::current_exe().expect("this program"), &program).expect("a copy");
    for (plugin, generate) in [("attack", helper::GENERATE), ("victim", helper::HOLD)] {
        let init = if plugin == "attack" { helper::INIT } else { "" };
        let definition = definition(plugin, &program, init, generate);
        // Only the attacker names a file that its group may read.
        let is_member = setting == Setting::Grouped && plugin == "attack";
        let sandbox = if is_member { granted(directory) } else { String::new() };
        let definition = format!("{definition}{sandbox}");
        fs::write(directory.join(format!("plugins.d/{plugin}.yaml")), definition).expect("a file");
    }
    let unit = |flag| if flag == "--max-cpu" { "s" } else { "" };
    let limits = LIMITS.map(|(flag, value)| [flag.to_owned(), format!("{value}{}", unit(flag))]);
    let mut more = limits.concat();
    if setting == Setting::UidAlone {
        more.push("--accept-no-landlock".to_owned());
    }
    Options {
        setting,
        isolation: setting.isolation(),
        directory: directory.to_owned(),
        first_uid,
        last_uid: run_as - 1,
        run_as,
        more,
    }
}

/// Lets a plugin read the file of `Targets::granted`.
fn granted(directory: &Path) -> String {
    format!("  sandbox: {{read: [\"{}/secrets/granted\"]}}\n", directory.display())
}

fn definition(name: &str, program: &Path, init: &str, generate: &str) -> String {
    let program = program.display();
    let verb = helper::VERB;
    let init = match init {
        "" => String::new(),
        init => format!("  init: {{command: [\"{program}\", {verb}, {init}]}}\n"),
    };
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\n\
         metadata: {{name: {name}}}\nspec:\n{init}  generate: {{command: [\"{program}\", {verb}, \
         {generate}]}}\n"
    )
}

/// Starts the victim's request and records its process, UID and workspace in
/// `targets`.
fn hold(setting: Setting, runtime: &Runtime, targets: &mut Targets, archive: &Path) {
    let mark = format!("{:x}", rand::random::<u64>());
    let name = "ARGOCD_ENV_MARK";
    targets.victim_name = format!("victim-{:x}", rand::random::<u64>());
    let environment = [(name, mark.as_str()), (helper::VICTIM, &targets.victim_name)];
    let parcel = parcel(archive, &environment, VICTIM_TIME);
    let socket = targets.socket_dir.join("victim.sock");
    // The request ends when the supervisor ends.
    let request = runtime.spawn(async move { generate(&socket, &parcel).await });
    let until = Instant::now() + PATIENCE;
    let is_victim = |process: &processes::Process| {
        process.has_variable(name, &mark) && process.command.contains(helper::HOLD)
    };
    loop {
        assert!(Instant::now() < until, "the victim's command is not running");
        let is_held = !request.is_finished();
        assert!(is_held, "the victim ended: {:?}", runtime.block_on(request));
        thread::sleep(LOOK_AGAIN);
        let Some(victim) = processes::all().into_iter().find(is_victim) else { continue };
        let cwd = fs::read_link(format!("/proc/{}/cwd", victim.pid)).expect("a directory");
        let workspace = cwd.parent().expect("a workspace").to_owned();
        if !workspace.join("repo").join(helper::TREASURE).exists() {
            continue;
        }
        targets.victim = victim.pid;
        targets.victim_uid = victim.uid - setting.outside(0);
        targets.victim_socket = workspace.join("tmp").join(helper::VICTIM_SOCKET);
        targets.victim_workspace = workspace;
        return;
    }
}

/// True if `uid` belongs to a tenant or to the supervisor.
pub(crate) fn is_ours(uids: &std::ops::RangeInclusive<u32>, uid: u32) -> bool {
    uids.contains(&uid) && !Uid::from_raw(uid).is_root()
}
