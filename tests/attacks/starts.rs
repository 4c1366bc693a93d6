//! What a supervisor does when the ground it stands on is not as it should be.

mod broken;
mod crowd;
mod killed;
mod older;
mod orphaned;
mod refused;
mod slow;
mod users;

use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use libtest_mimic::{Failed, Trial};
use tempfile::TempDir;
use tokio::runtime::{self, Runtime};

use crate::{
    arena::{self, first_user, furnish},
    emulate, helper,
    processes::{self, Process},
    requests::{generate, pack, parcel},
    setting::Setting,
    supervisor::{NO_ISOLATION, NotServing, Options, Supervisor},
};

/// The place of all stages; those before it are the arenas'.
const STAGE: u32 = 8;

/// Of each two users of a range the second is leased: that of the first two to
/// the trial, and that of the next two to the first request.
const OF_THE_TRIAL: u32 = 1;
const OF_THE_FIRST: u32 = 3;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// They have their users in common.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A test, and what it is called.
type Fact = (&'static str, fn() -> Result<(), String>);

/// All of them. They need root, to become others.
pub(crate) fn all() -> impl Iterator<Item = Trial> {
    let facts = [
        refused::FACTS,
        broken::FACTS,
        killed::FACTS,
        orphaned::FACTS,
        older::FACTS,
        users::FACTS,
        crowd::FACTS,
        slow::FACTS,
    ];
    facts.into_iter().flatten().map(|(name, fact)| {
        let held = move || {
            let _held = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
            fact().map_err(Failed::from)
        };
        Trial::test(format!("starts::{name}"), held)
    })
}

/// Where a supervisor can be started, with plugins that mean no harm.
struct Stage {
    options: Options,
    runtime: Runtime,
    archive: PathBuf,
    directory: TempDir,
}

impl Stage {
    fn new(setting: Setting) -> Self {
        let directory = TempDir::with_prefix_in("cmp-starts-", arena::PLACE).expect("a directory");
        let options = furnish(setting, first_user(STAGE), directory.path());
        let archive = directory.path().join("archive.tgz");
        pack(&archive);
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self { options, runtime: runtime.expect("a runtime"), archive, directory }
    }

    /// Adds a plugin that is a shell's script.
    fn add(&self, name: &str, script: &str) {
        let script = serde_json::to_string(script).expect("a script as JSON");
        let text = format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: {{name: \
             {name}}}\nspec: {{generate: {{command: [sh, -c, {script}]}}}}\n"
        );
        let path = self.directory.path().join(format!("plugins.d/{name}.yaml"));
        fs::write(path, text).expect("a definition");
    }

    /// The user so many after the first.
    fn user(&self, after: u32) -> u32 {
        self.options.first_uid + after
    }

    /// The command that starts it under an emulation.
    fn under(&self, emulation: &str) -> Command {
        around(&self.options.command(), emulation)
    }

    fn start(&self, command: Command) -> Result<Supervisor, String> {
        Supervisor::start_as(command, self.directory.path()).map_err(|why| format!("{why:?}"))
    }

    /// What it ends with and says last, if nothing may be served.
    fn refusal(&self, command: Command) -> Result<(Option<i32>, String), String> {
        let ended = match Supervisor::start_as(command, self.directory.path()) {
            Ok(_) => return Err("it serves".to_owned()),
            Err(NotServing::Broken(why)) => return Err(why),
            Err(NotServing::NotOffered(why)) => (Some(NO_ISOLATION), why),
            Err(NotServing::Ended(code, why)) => (code, why),
        };
        let sockets = fs::read_dir(self.directory.path().join("sockets")).expect("a directory");
        let shown: Vec<_> = sockets.flatten().map(|entry| entry.file_name()).collect();
        if shown.is_empty() { Ok(ended) } else { Err(format!("left: {shown:?}")) }
    }

    /// Has a plugin print its manifest: one line of text under `said`.
    async fn ask(&self, plugin: &str) -> Result<String, String> {
        let socket = self.directory.path().join(format!("sockets/{plugin}.sock"));
        let manifest = generate(&socket, &parcel(&self.archive, &[], PATIENCE)).await?;
        let manifest: serde_json::Value =
            serde_json::from_slice(&manifest).map_err(|error| error.to_string())?;
        Ok(manifest["said"].as_str().unwrap_or_default().to_owned())
    }

    fn ask_once(&self, plugin: &str) -> Result<String, String> {
        self.runtime.block_on(self.ask(plugin))
    }
}

/// The command that starts another one under an emulation.
fn around(plain: &Command, emulation: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let variables = plain.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.env_clear().envs(variables);
    command.args([helper::VERB, helper::EMULATE, emulation]);
    command.arg(plain.get_program()).args(plain.get_args());
    command
}

/// The emulation in which a system call goes wrong, for all or for who gives it
/// this first argument.
fn fault(call: i64, error: i32, argument: Option<u32>) -> String {
    let argument = argument.map_or(String::new(), |argument| format!(":{argument}"));
    format!("{}{call}:{error}{argument}", emulate::FAULT)
}

/// Processes of the users that are leased.
fn tenants(stage: &Stage) -> Vec<Process> {
    let users = stage.options.first_uid..=stage.options.last_uid;
    let mut found = processes::all();
    found.retain(|process| users.contains(&process.uid));
    found
}

/// Complains unless it is so.
fn check(is_so: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(otherwise()) }
}
