//! Runs this program as a plugin's command.

use std::{env, fs, os::unix::net::UnixListener, path::Path, process::ExitCode, thread};

use serde_json::json;

use crate::{
    attack::{Attack, BEGAN, Staging},
    control, emulate,
    outcome::Outcome,
    table,
    targets::Targets,
};

/// The first argument that makes this program a plugin's command.
pub(crate) const VERB: &str = "attack";

/// The second argument: the role of this program.
pub(crate) const GENERATE: &str = "generate";
pub(crate) const INIT: &str = "init";
pub(crate) const HOLD: &str = "hold";
pub(crate) const EUID: &str = "euid";
pub(crate) const EMULATE: &str = "emulate";
/// A control run, and the attacker inside it.
pub(crate) const CONTROL: &str = "control";
pub(crate) const UNCONFINED: &str = "unconfined";

/// Variables of `spec.source.plugin.env`, with the names that commands see.
pub(crate) const NAME: &str = "ARGOCD_ENV_ATTACK";
pub(crate) const TARGETS: &str = "ARGOCD_ENV_TARGETS";

/// The name of a victim's abstract socket.
pub(crate) const VICTIM: &str = "ARGOCD_ENV_VICTIM";

/// Name and content of the file in a victim's workspace.
pub(crate) const TREASURE: &str = "treasure";
pub(crate) const TREASURE_TEXT: &str = "gold";

/// File name of the victim's socket, in its `TMPDIR`.
pub(crate) const VICTIM_SOCKET: &str = "open.sock";

pub(crate) fn main() -> ExitCode {
    match env::args().nth(2).as_deref() {
        Some(HOLD) => hold(),
        Some(EMULATE) => emulate::main(),
        Some(CONTROL) => control::main(),
        Some(UNCONFINED) => report(&(attack().payload)(&targets())),
        // Lets a caller of a set-user-ID copy of this program see its effective UID.
        Some(EUID) => return ExitCode::from(u8::from(!nix::unistd::geteuid().is_root())),
        Some(INIT) => staged(true),
        _ => staged(false),
    }
    ExitCode::SUCCESS
}

fn staged(is_init: bool) {
    let attack = attack();
    if is_init != (attack.staging == Staging::Init) {
        // Only one of the plugin's two commands attacks.
        return report(&Outcome::done("an honest command"));
    }
    if attack.staging == Staging::CutOff {
        eprintln!("{BEGAN}");
    }
    let outcome = (attack.payload)(&targets());
    if is_init {
        // The output of `init` is not returned, so report by failing the request.
        assert!(outcome.is_done(), "{outcome:?}");
    } else {
        report(&outcome);
    }
}

fn targets() -> Targets {
    let targets = variable(TARGETS).expect("targets");
    serde_json::from_str(&targets).expect("targets are JSON")
}

fn attack() -> &'static Attack {
    let name = variable(NAME).expect("an attack's name");
    table::all().find(|attack| attack.name == name).expect("a known attack")
}

fn report(outcome: &Outcome) {
    println!("{}", json!({"kind": "Outcome", "outcome": outcome}));
}

/// Reads what [`report`] printed.
pub(crate) fn outcome(manifest: &[u8]) -> Result<Outcome, String> {
    if manifest.is_empty() {
        return Ok(Outcome::nothing());
    }
    let mut value: serde_json::Value =
        serde_json::from_slice(manifest).map_err(|error| error.to_string())?;
    serde_json::from_value(value["outcome"].take())
        .map_err(|error| format!("not an outcome: {error}: {value}"))
}

/// Runs the victim: a harmless tenant with a file and sockets to protect.
fn hold() {
    let temporary = variable("TMPDIR").expect("TMPDIR");
    let socket = Path::new(&temporary).join(VICTIM_SOCKET);
    // Ignore the failure: not every tier lets a plugin bind this socket.
    let _kept = UnixListener::bind(socket);
    // A given name, not the PID: the PID differs between process namespaces.
    let name = variable(VICTIM).map(|name| crate::raw::abstract_address(&name));
    let _kept_too = name.map(|name| UnixListener::bind_addr(&name));
    // Created last and atomically: once this file exists, the victim is ready.
    fs::write("treasure.new", TREASURE_TEXT).expect("a treasure");
    fs::rename("treasure.new", TREASURE).expect("a treasure");
    loop {
        thread::park();
    }
}

#[expect(clippy::disallowed_methods, reason = "a plugin's command is told by its environment")]
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}
