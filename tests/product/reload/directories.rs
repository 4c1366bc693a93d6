//! Directories that are missing, replaced, or edited by people.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::symlink,
    path::Path,
    process::Command,
    time::Duration,
};

use cmp_supervisor::{loader::Prompt, state::State};
use rustix::process::geteuid;
use tokio::{sync::watch::Receiver, task::JoinHandle, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::reload::{
    loaded::{Loaded, definition, served},
    server::{Folders, remove_at_once},
};

/// Time limit for a change that the kernel reports. Polling finds it after 5 s.
const SOON: Duration = Duration::from_millis(4500);

/// Most changes until the kernel's report of one is read in time, on a busy machine.
const ATTEMPTS: u64 = 5;

/// Time limit for a change that only polling finds.
const LATER: Duration = Duration::from_mins(1);

/// A loader that watches its directory.
struct Followed {
    states: Receiver<State>,
    prompt: Prompt,
    directory: std::path::PathBuf,
    stop: CancellationToken,
    task: JoinHandle<()>,
    root: tempfile::TempDir,
}

async fn follow(text: &str) -> Followed {
    let mut loaded = Loaded::new();
    loaded.write("a.yaml", text);
    loaded.load().unwrap();
    let (directory, states, root) = (loaded.directory(), loaded.state.subscribe(), loaded.root);
    let stop = CancellationToken::new();
    let (following, prompt) = loaded.loader.follow(stop.clone());
    let task = TaskTracker::new().spawn(following);
    // The directory is watched from now on.
    prompt.reload().await.unwrap();
    Followed { states, prompt, directory, stop, task, root }
}

impl Followed {
    /// True if the plugin gets this command within a time.
    async fn becomes_within(&self, limit: Duration, command: &str) -> bool {
        let (mut states, expected) = (self.states.clone(), [format!("a:{command}")]);
        let is_so = timeout(limit, states.wait_for(|state| served(state) == expected)).await;
        is_so.is_ok_and(|state| state.is_ok())
    }

    async fn becomes(&self, command: &str) {
        let is_so = self.becomes_within(LATER, command).await;
        assert!(is_so, "{:?} did not become {command}", served(&self.states.borrow()));
    }

    /// Makes a change a few times until it is noticed sooner than by polling, which a busy
    /// machine may prevent. Returns the number of attempts.
    async fn notices(&self, change: impl AsyncFn(&Path, &str)) -> u64 {
        for attempt in 1..=ATTEMPTS {
            let command = (self.states.borrow().generation + 1).to_string();
            change(&self.directory, &command).await;
            if self.becomes_within(SOON, &command).await {
                return attempt;
            }
            self.becomes(&command).await;
        }
        panic!("none of {ATTEMPTS} changes was noticed within {SOON:?}");
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
        self.root.close().unwrap();
    }
}

async fn write(directory: &Path, command: &str) {
    fs::write(directory.join("a.yaml"), definition("a", command)).unwrap();
}

#[tokio::test]
async fn a_replaced_directory_is_followed() {
    let followed = follow(&definition("a", "1")).await;
    let replace = async |directory: &Path, command: &str| {
        let away = directory.with_extension(command);
        let fresh = directory.with_extension("new");
        fs::create_dir(&fresh).unwrap();
        fs::write(fresh.join("a.yaml"), definition("a", command)).unwrap();
        fs::rename(directory, away).unwrap();
        fs::rename(&fresh, directory).unwrap();
    };
    followed.notices(&replace).await;
    followed.notices(&replace).await;
    followed.notices(write).await;
    followed.end().await;
}

#[tokio::test]
async fn a_missing_directory_removes_no_plugin_and_may_return() {
    let followed = follow(&definition("a", "1")).await;
    remove_at_once(&followed.directory);
    let kept = followed.prompt.reload().await.unwrap().kept.unwrap();
    assert!(kept.seconds_left.is_none() && kept.reason.contains("cannot list"), "{kept:?}");
    assert_eq!(served(&followed.states.borrow()), ["a:1"]);
    let create = async |directory: &Path, command: &str| {
        if directory.exists() {
            // A further attempt.
            remove_at_once(directory);
            followed.prompt.reload().await.unwrap();
        }
        fs::create_dir(directory).unwrap();
        write(directory, command).await;
    };
    followed.notices(create).await;
    followed.notices(write).await;
    followed.end().await;
}

#[tokio::test]
async fn a_link_to_the_directory_may_change() {
    let followed = follow(&definition("a", "1")).await;
    let (one, two) =
        (followed.directory.with_extension("one"), followed.directory.with_extension("two"));
    fs::rename(&followed.directory, &one).unwrap();
    symlink(&one, &followed.directory).unwrap();
    followed.prompt.reload().await.unwrap();
    fs::create_dir(&two).unwrap();
    fs::write(two.join("a.yaml"), definition("a", "2")).unwrap();
    let staged = followed.directory.with_extension("staged");
    symlink(&two, &staged).unwrap();
    fs::rename(&staged, &followed.directory).unwrap();
    followed.becomes("2").await;
    followed.end().await;
}

#[tokio::test]
async fn editors_write_in_place_by_rename_and_in_pieces() {
    let followed = follow(&definition("a", "1")).await;
    let mut changes = followed.notices(write).await;
    let rename = async |directory: &Path, command: &str| {
        let staged = directory.join(".a.yaml.swp");
        fs::write(&staged, definition("a", command)).unwrap();
        fs::rename(&staged, directory.join("a.yaml")).unwrap();
    };
    changes += followed.notices(rename).await;
    // The file is truncated first; half a definition keeps the last good one.
    let write_pieces = async |directory: &Path, command: &str| {
        let text = definition("a", command);
        let file = directory.join("a.yaml");
        let mut writer = OpenOptions::new().write(true).truncate(true).open(file).unwrap();
        for piece in text.as_bytes().chunks(40) {
            writer.write_all(piece).unwrap();
            writer.flush().unwrap();
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    };
    changes += followed.notices(write_pieces).await;
    assert_eq!(followed.prompt.reload().await.unwrap().generation, 1 + changes);
    followed.end().await;
}

#[tokio::test]
async fn a_directory_that_changes_all_the_time_is_read_in_the_end() {
    let followed = follow(&definition("a", "1")).await;
    let other = followed.directory.join("unrelated");
    let restless = async {
        // It has no pause until that time limit is over.
        for _ in 0..12_000 {
            fs::write(&other, "x").unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    fs::write(followed.directory.join("a.yaml"), definition("a", "2")).unwrap();
    tokio::select! {
        () = restless => panic!("a change waits for ever while something else goes on"),
        () = followed.becomes("2") => {}
    }
    followed.end().await;
}

#[tokio::test]
async fn a_directory_without_changes_is_not_read_again() {
    // Reading opens files, and the kernel reports this too.
    let followed = follow(&definition("a", "1")).await;
    let mut states = followed.states.clone();
    states.mark_unchanged();
    let looked = timeout(Duration::from_secs(2), states.changed()).await;
    assert!(looked.is_err(), "the loader read the directory without a reason");
    followed.end().await;
}

#[test]
fn a_work_directory_that_is_a_file_is_refused_with_its_flag() {
    let folders = Folders::new();
    let tiers = if geteuid().is_root() { &["none", "uid"][..] } else { &["none"] };
    for tier in tiers {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        command.args(["serve", "--http", "off", "--accept-no-isolation", "--isolation", tier]);
        command.arg("--plugins-dir").arg(folders.plugins());
        let output = command.arg("--work-dir").arg(folders.programs().join("x")).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(78), "{text}");
        assert!(text.contains("programs/x/_cmp_") && text.contains(" --work-dir"), "{text}");
    }
}
