//! The attacker of a control run. It has a tenant's UID and is not confined.

use std::{
    ffi::CString,
    fs::{self, File},
    os::fd::AsRawFd,
    path::PathBuf,
};

use caps::CapSet;
use nix::{
    sys::{
        prctl,
        resource::{Resource, setrlimit},
        signal::{SigSet, SigmaskHow, Signal, pthread_sigmask},
    },
    unistd::{
        Gid, Pid, Uid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, execve, setgroups, setresgid,
        setresuid,
    },
};

use super::stage::Stage;
use crate::{
    attack::{Attack, User},
    helper, raw,
};

/// Limits that a payload can raise only with a capability. None of them stops
/// a payload.
const LIMITS: [(Resource, u64); 5] = [
    (Resource::RLIMIT_NPROC, 4000),
    (Resource::RLIMIT_NOFILE, 8192),
    (Resource::RLIMIT_DATA, 1 << 40),
    (Resource::RLIMIT_FSIZE, 1 << 41),
    (Resource::RLIMIT_CORE, 1 << 30),
];

/// Process limit of an attacker without capabilities. Some payloads fork as long
/// as they can, and only this limit bounds them.
const FEW_PROCESSES: u64 = 1500;

pub(super) struct Attacker {
    pub(super) pid: Pid,
    /// Receives the standard output of the command.
    pub(super) output: PathBuf,
    /// Receives its standard error.
    pub(super) errors: PathBuf,
}

impl Attacker {
    pub(super) fn start(stage: &Stage, attack: &Attack) -> Self {
        let output = stage.options.directory.join("output");
        let errors = stage.options.directory.join("errors");
        let [out, err] = [&output, &errors].map(|path| File::create(path).expect("a file"));
        let input = stage.options.directory.join("input");
        fs::write(&input, "somebody's input").expect("a file");
        let input = File::open(input).expect("a file");
        let pid = raw::fork(|| {
            dup2_stdin(&input).and_then(|()| dup2_stdout(&out)).expect("input and output");
            dup2_stderr(&err).expect("standard error");
            become_it(stage, attack);
        });
        Self { pid: pid.expect("a process"), output, errors }
    }
}

/// Sets up everything that the sandbox would take away, becomes the tenant and
/// executes the attack.
fn become_it(stage: &Stage, attack: &Attack) {
    // A descriptor that stays open, and a signal that stays blocked.
    raw::keep_open(File::open("/dev/null").expect("a file").as_raw_fd());
    let blocked = SigSet::from(Signal::SIGUSR2);
    pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&blocked), None).expect("a mask");
    for (resource, limit) in LIMITS {
        setrlimit(resource, limit, limit).expect("a limit");
    }
    if matches!(attack.user, User::Plain | User::Owner) {
        let few = FEW_PROCESSES;
        setrlimit(Resource::RLIMIT_NPROC, few, few).expect("a limit");
    }
    become_tenant(stage.options.first_uid, attack.user);
    chdir(&stage.workspace.join("repo")).expect("the workspace");
    let words = ["attack", helper::VERB, helper::UNCONFINED].map(text);
    let error = execve(c"/proc/self/exe", &words, &environment(stage, attack));
    panic!("the attack does not start: {error:?}");
}

fn become_tenant(uid: u32, user: User) {
    let (user_id, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
    let all = caps::read(None, CapSet::Permitted).expect("capabilities");
    setgroups(&[]).and_then(|()| setresgid(group, group, group)).expect("another GID");
    if user == User::Root {
        return;
    }
    prctl::set_keepcaps(true).expect("capabilities that stay");
    setresuid(user_id, user_id, user_id).expect("another UID");
    if user != User::Mighty {
        return caps::clear(None, CapSet::Permitted).expect("no capability");
    }
    for set in [CapSet::Effective, CapSet::Inheritable, CapSet::Ambient] {
        caps::set(None, set, &all).expect("every capability");
    }
}

fn environment(stage: &Stage, attack: &Attack) -> Vec<CString> {
    let targets = serde_json::to_string(&stage.targets).expect("targets as JSON");
    let at = |name: &str| stage.workspace.join(name).display().to_string();
    let variables = [
        ("PATH", "/usr/bin:/bin".to_owned()),
        ("HOME", at("home")),
        ("TMPDIR", at("tmp")),
        ("CMP_SUPERVISOR_LOG_LEVEL", "info".to_owned()),
        ("ARGOCD_ENV_MARK", "another request's".to_owned()),
        (helper::NAME, attack.name.to_owned()),
        (helper::TARGETS, targets),
    ];
    variables.map(|(name, value)| text(&format!("{name}={value}"))).into()
}

fn text(text: &str) -> CString {
    CString::new(text).expect("a text without NUL")
}
