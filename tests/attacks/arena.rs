//! A supervisor in one tier, another tenant that works in it, and all that may
//! not be reached.

use std::{
    fs::{self, Permissions},
    net::{TcpListener, UdpSocket},
    os::unix::{
        fs::{PermissionsExt, chown},
        net::{UnixDatagram, UnixListener},
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use nix::unistd::{Uid, geteuid};
use tempfile::TempDir;
use tokio::runtime::{self, Runtime};

use crate::{
    aftermath::Before,
    attack::{Attack, Expected, Outcome},
    helper, processes, raw,
    requests::{generate, pack, parcel},
    setting::Setting,
    supervisor::{NotServing, Options, Supervisor},
    targets::Targets,
};

/// Users for tenants: more than there are leases, fewer than `STRIDE`.
pub(crate) const USERS: u32 = 24;

/// Users between two arenas: for tenants, and for the supervisor. No other
/// supervisor on the machine may have them: some attacks signal all that one
/// user has, and must not meet anybody if they escape.
const STRIDE: u32 = 30;

/// Below the users that supervisors lease by default.
const FIRST_USER: u32 = 20_000;

/// Arenas of one run and one for starts, and runs at the same time that do not
/// meet.
const PLACES: u32 = 9;
const RUNS: u32 = 140;

/// Nothing here is part of an image, and namespaces put nothing in its place.
pub(crate) const PLACE: &str = "/var/tmp";

/// How long a victim may take to be at work.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long the victim works at most.
const VICTIM_TIME: Duration = Duration::from_mins(30);

/// What all tenants may use.
const LIMITS: [&str; 20] = [
    "--max-requests",
    "4",
    "--max-processes",
    "1200",
    "--max-memory",
    "268435456",
    "--max-file-bytes",
    "33554432",
    "--max-output-bytes",
    "1048576",
    "--max-cpu",
    "60",
    "--max-queue",
    "16",
    "--max-files",
    "1000",
    "--max-disk-bytes",
    "100663296",
    "--max-disk-files",
    "8000",
];

/// What is attacked, and who keeps it.
pub(crate) struct Arena {
    setting: Setting,
    supervisor: Supervisor,
    targets: Targets,
    before: Before,
    runtime: Runtime,
    archive: PathBuf,
    directory: TempDir,
    /// Held: they listen for as long as there is somebody to attack them.
    victims: Victims,
}

/// Servers that wait for nobody.
struct Victims {
    _paths: Vec<UnixListener>,
    _datagrams: UnixDatagram,
    ports: [TcpListener; 2],
    _udp: UdpSocket,
}

impl Arena {
    /// Why not, for people, where this machine does not offer the tier.
    pub(crate) fn open(setting: Setting) -> Result<Self, String> {
        if !geteuid().is_root() {
            return Err("needs root, to have victims of other users".to_owned());
        }
        let directory = TempDir::with_prefix_in("cmp-attacks-", PLACE).expect("a directory");
        let options = furnish(setting, setting as u32, directory.path());
        let (mut targets, victims) = Targets::place(&options);
        let mut options = options;
        let network = format!("{}", targets.allowed_port);
        options.more.extend(["--network".to_owned(), network]);
        let supervisor = match Supervisor::start(&options) {
            Ok(supervisor) => supervisor,
            Err(NotServing::NotOffered(why)) => return Err(why),
            Err(NotServing::Ended(_, why) | NotServing::Broken(why)) => panic!("{setting}: {why}"),
        };
        let archive = directory.path().join("archive.tgz");
        pack(&archive);
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        targets.supervisor = supervisor.pid();
        targets.spawner = supervisor.spawner().expect("a spawner");
        hold(setting, &runtime, &mut targets, &archive);
        let uids = setting.outside(options.first_uid)..=setting.outside(options.run_as);
        let before = Before::look(&targets, uids);
        Ok(Self { setting, supervisor, targets, before, runtime, archive, directory, victims })
    }

    /// Lets a tenant attack, and looks what became of it.
    pub(crate) fn face(&mut self, attack: &Attack) -> Result<(), String> {
        let targets = serde_json::to_string(&self.targets).expect("targets as JSON");
        let environment = [(helper::NAME, attack.name), (helper::TARGETS, targets.as_str())];
        let parcel = parcel(&self.archive, &environment, attack.timeout());
        let socket = self.directory.path().join("sockets/attack.sock");
        let answer = self.runtime.block_on(generate(&socket, &parcel));
        let answer: Result<Outcome, String> =
            answer.and_then(|manifest| helper::outcome(&manifest));
        let expected = attack.expected(self.setting);
        if expected == Expected::Residual {
            self.before.restore(&self.targets);
        }
        let aftermath = self.before.compare(&self.targets, attack.staging);
        let quarantined = self.supervisor.text().contains("is not leased again");
        self.before.restore(&self.targets);
        expected.judge(&answer)?;
        aftermath.map_err(|left| format!("{left}, after {answer:?}"))?;
        if quarantined {
            return Err(format!("a user is quarantined, after {answer:?}"));
        }
        Ok(())
    }

    pub(crate) fn close(&mut self) {
        debug_assert_eq!(self.victims.ports.len(), 2, "they listened all the time");
        self.supervisor.stop();
    }
}

/// Makes the directories of a supervisor, and a plugin. Supervisors in different
/// places have different users.
pub(crate) fn furnish(setting: Setting, place: u32, directory: &Path) -> Options {
    fs::set_permissions(directory, Permissions::from_mode(0o755)).expect("a mode");
    let run = std::process::id() % RUNS;
    let first_uid = FIRST_USER + (PLACES * run + place) * STRIDE;
    let run_as = first_uid + USERS;
    // As Kubernetes makes an empty volume.
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
        fs::write(directory.join(format!("plugins.d/{plugin}.yaml")), definition).expect("a file");
    }
    let mut more = LIMITS.map(str::to_owned).to_vec();
    if setting == Setting::UidAlone {
        more.push("--accept-no-landlock".to_owned());
    }
    let metrics_port = free_port();
    Options {
        setting,
        isolation: setting.isolation(),
        directory: directory.to_owned(),
        first_uid,
        last_uid: run_as - 1,
        run_as,
        metrics_port,
        more,
    }
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

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Starts another tenant's request, and finds out what there is to know of it.
fn hold(setting: Setting, runtime: &Runtime, targets: &mut Targets, archive: &Path) {
    let mark = format!("{:x}", rand::random::<u64>());
    let name = "ARGOCD_ENV_MARK";
    let parcel = parcel(archive, &[(name, &mark)], VICTIM_TIME);
    let socket = targets.socket_dir.join("victim.sock");
    // Ends with the supervisor.
    let request = runtime.spawn(async move { generate(&socket, &parcel).await });
    let until = Instant::now() + PATIENCE;
    let is_victim = |process: &processes::Process| {
        process.has_variable(name, &mark) && process.command.contains(helper::HOLD)
    };
    loop {
        assert!(Instant::now() < until, "the victim is not at work");
        let is_held = !request.is_finished();
        assert!(is_held, "the victim ended: {:?}", runtime.block_on(request));
        thread::sleep(Duration::from_millis(20));
        let Some(victim) = processes::all().into_iter().find(is_victim) else { continue };
        let cwd = fs::read_link(format!("/proc/{}/cwd", victim.pid)).expect("a directory");
        let workspace = cwd.parent().expect("a workspace").to_owned();
        if !workspace.join("repo").join(helper::TREASURE).exists() {
            continue;
        }
        targets.victim = victim.pid;
        targets.victim_uid = victim.uid - setting.outside(0);
        targets.victim_socket = workspace.join("tmp").join(helper::VICTIM_SOCKET);
        targets.victim_name = format!("victim-{}", victim.pid);
        targets.victim_workspace = workspace;
        return;
    }
}

impl Targets {
    /// Puts victims beside the supervisor's directories.
    fn place(options: &Options) -> (Self, Victims) {
        let directory = &options.directory;
        let at = |name: &str| directory.join(name);
        for (name, mode) in [("secrets", 0o755), ("open", 0o1777), ("hidden", 0o700)] {
            fs::create_dir(at(name)).expect("a directory");
            fs::set_permissions(at(name), Permissions::from_mode(mode)).expect("a mode");
        }
        let secret = |name: &str, mode: u32, owner: u32| {
            let path = at("secrets").join(name);
            fs::write(&path, "TOPSECRET").expect("a secret");
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
            let owner = options.setting.outside(owner);
            chown(&path, Some(owner), Some(owner)).expect("an owner");
            path
        };
        let setuid = at("bin/setuid");
        fs::copy(at("bin/attack"), &setuid).expect("a copy");
        chown(&setuid, Some(options.setting.outside(0)), None).expect("an owner");
        fs::set_permissions(&setuid, Permissions::from_mode(0o4755)).expect("a mode");
        let victims = Victims::new(directory);
        let [closed, allowed] =
            victims.ports.each_ref().map(|port| port.local_addr().expect("an address").port());
        let targets = Self {
            supervisor: 0,
            spawner: 0,
            victim: 0,
            victim_uid: 0,
            victim_workspace: PathBuf::new(),
            victim_socket: PathBuf::new(),
            victim_name: String::new(),
            root: at("work/_cmp_server"),
            root_secret: secret("root", 0o600, 0),
            own_secret: secret("own", 0o600, options.run_as),
            world_secret: secret("world", 0o644, 0),
            token: secret("token", 0o644, options.run_as),
            plugins_dir: at("plugins.d"),
            definition: at("plugins.d/victim.yaml"),
            socket_dir: at("sockets"),
            plugin_socket: at("sockets/victim.sock"),
            open_dir: at("open"),
            open_socket: at("open/socket"),
            closed_socket: at("secrets/socket"),
            hidden_socket: at("hidden/socket"),
            datagram_socket: at("open/datagrams"),
            abstract_name: name(directory),
            metrics_port: options.metrics_port,
            closed_port: closed,
            allowed_port: allowed,
            setuid,
        };
        (targets, victims)
    }
}

fn name(directory: &Path) -> String {
    directory.join("abstract").display().to_string()
}

impl Victims {
    fn new(directory: &Path) -> Self {
        let bind = |name: &str, mode: u32| {
            let path = directory.join(name);
            let listener = UnixListener::bind(&path).expect("a socket");
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
            listener
        };
        let paths = [("open/socket", 0o777), ("secrets/socket", 0o660), ("hidden/socket", 0o777)];
        let named = UnixListener::bind_addr(&raw::abstract_address(&name(directory)));
        let datagrams = directory.join("open/datagrams");
        let bound = UnixDatagram::bind(&datagrams).expect("a socket");
        fs::set_permissions(datagrams, Permissions::from_mode(0o666)).expect("a mode");
        // On all addresses there are: a plugin knows more than loopback.
        let port = |()| {
            let bound = TcpListener::bind("[::]:0");
            bound.or_else(|_| TcpListener::bind("0.0.0.0:0")).expect("a port")
        };
        let paths = paths.into_iter().map(|(name, mode)| bind(name, mode));
        Self {
            _paths: paths.chain([named.expect("a name")]).collect(),
            _datagrams: bound,
            ports: [(), ()].map(port),
            _udp: UdpSocket::bind("127.0.0.1:0").expect("a port"),
        }
    }
}

/// Whether a user is one of a tenant's or the supervisor's.
pub(crate) fn is_ours(uids: &std::ops::RangeInclusive<u32>, uid: u32) -> bool {
    uids.contains(&uid) && !Uid::from_raw(uid).is_root()
}
