//! The stage of a control run: it looks like an arena and bounds the damage, but
//! does not confine the attacker.

use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use nix::mount::{MsFlags, mount};

use crate::{
    aftermath::Before,
    arena::{PLACE, furnish},
    attack::User,
    helper, processes,
    setting::Setting,
    supervisor::Options,
    targets::Targets,
    victims::Victims,
    waiting::{PATIENCE, until},
};

/// Mount options, with room for everything that an attack writes.
const SIZE: &str = "mode=1777,size=1g,nr_inodes=200k";

/// The token's usual place.
const USUAL_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

pub(super) struct Stage {
    pub(super) options: Options,
    pub(super) targets: Targets,
    pub(super) victims: Victims,
    pub(super) before: Before,
    /// Workspace of the attacker.
    pub(super) workspace: PathBuf,
    /// The stand-ins. They end with the stage.
    _others: Vec<Child>,
}

impl Stage {
    /// Sets up everything in the namespaces of this process, which must be the
    /// first process there.
    pub(super) fn open(first_uid: u32, user: User) -> Self {
        cover();
        // The name of the abstract socket is made of it, and stages share the network.
        let directory = Path::new(PLACE).join(format!("stage-{first_uid}"));
        fs::create_dir(&directory).expect("a directory");
        let options = furnish(Setting::Uid, first_uid, &directory);
        let (mut targets, mut victims) = Targets::place(&options);
        let usual = Path::new(USUAL_TOKEN);
        fs::create_dir_all(usual.parent().expect("a directory")).expect("directories");
        fs::copy(&targets.token, usual).expect("a token");
        targets.metrics_port = victims.serve("metrics", 0);
        victims.listen("plugin's socket", &targets.plugin_socket, 0o660);
        let others = people(&options, user, &mut targets);
        let workspace = workspace(&targets.root, "attacker", first_uid);
        fs::write(workspace.join("repo/app.yaml"), "{}").expect("a file");
        chown(workspace.join("repo/app.yaml"), Some(first_uid), Some(first_uid)).expect("an owner");
        targets.check().unwrap_or_else(|missing| panic!("no target: {missing}"));
        victims.heard();
        let before = Before::look(&targets, options.first_uid..=options.run_as);
        Self { options, targets, victims, before, workspace, _others: others }
    }
}

/// Mounts file systems in memory over the directories that attacks write to.
fn cover() {
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("own mounts");
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none).expect("own processes");
    for path in ["/tmp", PLACE, "/dev/shm", "/run"] {
        mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::empty(), Some(SIZE)).expect("memory");
    }
}

/// Starts stand-ins for the supervisor, the spawner and another tenant.
fn people(options: &Options, user: User, targets: &mut Targets) -> Vec<Child> {
    fs::create_dir(&targets.root).expect("a directory");
    let victim_uid = options.first_uid + 1;
    targets.victim_name = format!("{}-victim", targets.abstract_name);
    let users = [("supervisor", options.run_as), ("spawner", 0), ("victim", victim_uid)];
    let start = |(name, uid): (&str, u32)| {
        let uid = if user == User::Owner { options.first_uid } else { uid };
        let socket = if name == "victim" { targets.victim_name.as_str() } else { "" };
        person(&targets.root, (name, uid), socket)
    };
    let others: Vec<_> = users.map(start).into();
    let [supervisor, spawner, victim] = others.as_slice() else { panic!("three processes") };
    let number = |child: &Child| child.id().cast_signed();
    targets.supervisor = number(supervisor);
    targets.spawner = number(spawner);
    targets.victim = number(victim);
    targets.victim_uid = victim_uid;
    targets.victim_workspace = targets.root.join("victim");
    targets.victim_socket = targets.victim_workspace.join("tmp").join(helper::VICTIM_SOCKET);
    let is_there = |name: &&str| targets.root.join(name).join("repo/treasure").exists();
    let are_ready = until(PATIENCE, || ["supervisor", "spawner", "victim"].iter().all(is_there));
    assert!(are_ready, "the stand-ins are not ready: {:?}", processes::all());
    others
}

fn person(root: &Path, (name, uid): (&str, u32), socket: &str) -> Child {
    let workspace = workspace(root, name, uid);
    let mut command = Command::new("/proc/self/exe");
    command.args([helper::VERB, helper::HOLD]).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("TMPDIR", workspace.join("tmp"));
    if !socket.is_empty() {
        command.env(helper::VICTIM, socket);
    }
    command.current_dir(workspace.join("repo")).uid(uid).gid(uid).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("a process")
}

fn workspace(root: &Path, name: &str, uid: u32) -> PathBuf {
    let workspace = root.join(name);
    for path in ["", "repo", "home", "tmp"].map(|inner| workspace.join(inner)) {
        fs::create_dir(&path).expect("a directory");
        fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("a mode");
        chown(path, Some(uid), Some(uid)).expect("an owner");
    }
    workspace
}
