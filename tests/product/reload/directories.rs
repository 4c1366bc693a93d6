//! Directories that are missing, replaced, or edited by people.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::symlink,
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

/// Time limit for a change that the kernel reports.
const SOON: Duration = Duration::from_millis(4500);

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
    async fn becomes(&self, expected: &[&str], within: Duration) {
        let mut states = self.states.clone();
        let is_so = timeout(within, states.wait_for(|state| served(state) == expected)).await;
        let is_so = is_so.is_ok_and(|state| state.is_ok());
        assert!(is_so, "{:?} did not become {expected:?}", served(&self.states.borrow()));
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
        self.root.close().unwrap();
    }
}

#[tokio::test]
async fn a_replaced_directory_is_followed() {
    let followed = follow(&definition("a", "1")).await;
    for command in ["2", "3"] {
        let away = followed.directory.with_extension(command);
        let fresh = followed.directory.with_extension("new");
        fs::create_dir(&fresh).unwrap();
        fs::write(fresh.join("a.yaml"), definition("a", command)).unwrap();
        fs::rename(&followed.directory, away).unwrap();
        fs::rename(&fresh, &followed.directory).unwrap();
        followed.becomes(&[&format!("a:{command}")], SOON).await;
    }
    fs::write(followed.directory.join("a.yaml"), definition("a", "4")).unwrap();
    followed.becomes(&["a:4"], SOON).await;
    followed.end().await;
}

#[tokio::test]
async fn a_missing_directory_removes_no_plugin_and_may_return() {
    let followed = follow(&definition("a", "1")).await;
    remove_at_once(&followed.directory);
    let kept = followed.prompt.reload().await.unwrap().kept.unwrap();
    assert!(kept.seconds_left.is_none() && kept.reason.contains("cannot list"), "{kept:?}");
    followed.becomes(&["a:1"], SOON).await;
    fs::create_dir(&followed.directory).unwrap();
    fs::write(followed.directory.join("a.yaml"), definition("a", "2")).unwrap();
    followed.becomes(&["a:2"], SOON).await;
    fs::write(followed.directory.join("a.yaml"), definition("a", "3")).unwrap();
    followed.becomes(&["a:3"], SOON).await;
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
    followed.becomes(&["a:2"], LATER).await;
    followed.end().await;
}

#[tokio::test]
async fn editors_write_in_place_by_rename_and_in_pieces() {
    let followed = follow(&definition("a", "1")).await;
    let file = followed.directory.join("a.yaml");
    fs::write(&file, definition("a", "2")).unwrap();
    followed.becomes(&["a:2"], SOON).await;
    let staged = followed.directory.join(".a.yaml.swp");
    fs::write(&staged, definition("a", "3")).unwrap();
    fs::rename(&staged, &file).unwrap();
    followed.becomes(&["a:3"], SOON).await;
    // The file is truncated first; half a definition keeps the last good one.
    let text = definition("a", "4");
    let mut writer = OpenOptions::new().write(true).truncate(true).open(&file).unwrap();
    for piece in text.as_bytes().chunks(40) {
        writer.write_all(piece).unwrap();
        writer.flush().unwrap();
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    followed.becomes(&["a:4"], SOON).await;
    assert_eq!(followed.prompt.reload().await.unwrap().generation, 4);
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
        () = followed.becomes(&["a:2"], LATER) => {}
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
