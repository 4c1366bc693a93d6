//! Starts the supervisor in environments where isolation is missing, broken or
//! lost, and under heavy load.

mod broken;
mod crowd;
mod killed;
mod newborn;
mod older;
mod orphaned;
mod refused;
mod slow;
mod users;

use std::{
    fs, iter, ops::RangeInclusive, path::PathBuf, process::Command, sync::Arc, time::Duration,
};

use libtest_mimic::{Failed, Trial};
use tempfile::TempDir;
use tokio::runtime::{self, Runtime};

use self::killed::until;
use crate::{
    arena::{self, first_user, furnish},
    emulate, helper,
    place::{self, Places},
    processes::{self, Process},
    requests::{generate, pack, parcel},
    setting::Setting,
    supervisor::{NO_ISOLATION, NotServing, Options, Supervisor},
};

/// Blocks of UIDs for the stages of tests that run at the same time. Arenas and control
/// runs use the lower ones.
const PLACES: RangeInclusive<u32> = 11..=12;

/// Offsets in the UID range. The second UID of each pair is leased: that of the
/// first pair to the trial, that of the next to the first request.
const OF_THE_TRIAL: u32 = 1;
const OF_THE_FIRST: u32 = 3;

/// Timeout of a request.
const PATIENCE: Duration = Duration::from_mins(2);

/// A test: its name and its function.
type Fact = (&'static str, fn() -> Result<(), String>);

/// Returns all start tests. They need root to switch to other UIDs.
pub(crate) fn all() -> impl Iterator<Item = Trial> {
    let facts = [
        refused::FACTS,
        broken::FACTS,
        killed::FACTS,
        newborn::FACTS,
        orphaned::FACTS,
        older::FACTS,
        users::FACTS,
        crowd::FACTS,
        slow::FACTS,
    ];
    let places = Arc::new(Places::new(PLACES));
    facts.into_iter().flatten().map(move |(name, fact)| {
        let places = Arc::clone(&places);
        Trial::test(format!("starts::{name}"), move || places.within(fact).map_err(Failed::from))
    })
}

/// Directories and options to start a supervisor with harmless plugins.
struct Stage {
    options: Options,
    runtime: Runtime,
    archive: PathBuf,
    directory: TempDir,
}

impl Stage {
    fn new(setting: Setting) -> Self {
        let directory = TempDir::with_prefix_in("cmp-starts-", arena::PLACE).expect("a directory");
        let options = furnish(setting, first_user(place::own()), directory.path());
        let archive = directory.path().join("archive.tgz");
        pack(&archive);
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let stage = Self { options, runtime: runtime.expect("a runtime"), archive, directory };
        stage.wait_for_ids().expect("UIDs that no earlier test uses");
        stage
    }

    /// Adds a plugin that runs a shell script.
    fn add(&self, name: &str, script: &str) {
        let script = serde_json::to_string(script).expect("a script as JSON");
        let text = format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: {{name: \
             {name}}}\nspec: {{generate: {{command: [sh, -c, {script}]}}}}\n"
        );
        let path = self.directory.path().join(format!("plugins.d/{name}.yaml"));
        fs::write(path, text).expect("a definition");
    }

    /// The UID at offset `after` from the first.
    fn user(&self, after: u32) -> u32 {
        self.options.first_uid + after
    }

    /// The command that starts the supervisor under an emulation.
    fn under(&self, emulation: &str) -> Command {
        around(&self.options.command(), emulation)
    }

    /// Waits until no process has a UID of the range or claims one, so that the next start
    /// leases the first ones. A spawner may end after its supervisor.
    fn wait_for_ids(&self) -> Result<(), String> {
        let users = self.options.first_uid..=self.options.last_uid;
        let is_of_range = |process: &Process| {
            iter::once(process.uid).chain(process.groups()).any(|id| users.contains(&id))
        };
        until("no process with an ID of this test", || !processes::all().iter().any(is_of_range))
    }

    fn start(&self, command: Command) -> Result<Supervisor, String> {
        Supervisor::start_as(command, self.directory.path()).map_err(|why| format!("{why:?}"))
    }

    /// Starts a supervisor that must refuse to serve. Returns its exit code and its
    /// last log line; fails if it serves, or leaves a socket or processes.
    fn refusal(&self, command: Command) -> Result<(Option<i32>, String), String> {
        let ended = match Supervisor::start_as(command, self.directory.path()) {
            Ok(_) => return Err("it serves".to_owned()),
            Err(NotServing::Broken(why)) => return Err(why),
            Err(NotServing::NotOffered(why)) => (Some(NO_ISOLATION), why),
            Err(NotServing::Ended(code, why)) => (code, why),
        };
        let sockets = fs::read_dir(self.directory.path().join("sockets")).expect("a directory");
        let shown: Vec<_> = sockets.flatten().map(|entry| entry.file_name()).collect();
        check(shown.is_empty(), || format!("left: {shown:?}"))?;
        self.wait_for_ids()?;
        Ok(ended)
    }

    /// Requests the manifest of a plugin and returns the text of its key `said`.
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

/// The emulation in which a system call ends with `error`: every call, or only
/// calls with this first argument.
fn fault(call: i64, error: i32, argument: Option<u32>) -> String {
    let argument = argument.map_or(String::new(), |argument| format!(":{argument}"));
    format!("{}{call}:{error}{argument}", emulate::FAULT)
}

/// Processes that run with a UID of the leased range.
fn tenants(stage: &Stage) -> Vec<Process> {
    let users = stage.options.first_uid..=stage.options.last_uid;
    let mut found = processes::all();
    found.retain(|process| users.contains(&process.uid));
    found
}

/// Fails with the message of `otherwise` unless `is_so`.
fn check(is_so: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(otherwise()) }
}
