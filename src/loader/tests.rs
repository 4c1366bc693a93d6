//! Definitions that are used for a time, and those after them.

use std::{fs, os::unix::fs::symlink};

use cmp_sandbox::Readable;

use super::*;
use crate::request::Reach;

const GOOD: &str =
    "kind: ConfigManagementPlugin\nmetadata: {name: a}\nspec: {generate: {command: [x]}}";

const BAD: &str = "kind: ConfigManagementPlugin\nmetadata: {name: a}";

/// Reads a directory and returns true if a plugin has the Secrets of the container.
fn reader(directory: &Path) -> impl FnMut() -> bool {
    let readable = Some(Readable::fixed(&[], &["/secret"]));
    let reach = Arc::new(Reach { readable, filters_ports: true, ..Reach::default() });
    let watched = Watched::new(reach, Vec::new(), &[]);
    let places = Places { directory: Some(directory.to_owned()), single: None };
    let grace = Duration::from_mins(1);
    let (loader, state) = Loader::new(places, Tier::Uid, grace, Metrics::new());
    let mut loader = loader.examining(Bytes::new(), watched).unwrap();
    move || {
        loader.load().unwrap();
        state.borrow().desired.iter().any(|plugin| !plugin.sandbox.secrets.is_empty())
    }
}

/// Changes a volume as the kubelet does.
fn update(volume: &Path, generation: &str, files: &[(&str, &str)]) {
    fs::create_dir(volume.join(generation)).unwrap();
    for (name, text) in files {
        fs::write(volume.join(generation).join(name), text).unwrap();
    }
    symlink(generation, volume.join("..new")).unwrap();
    fs::rename(volume.join("..new"), volume.join("..data")).unwrap();
}

#[test]
fn after_two_definitions_that_were_never_used_no_plugin_is_the_only_one() {
    let volume = tempfile::tempdir().unwrap();
    let mut has_secrets = reader(volume.path());
    update(volume.path(), "..1", &[("a.yaml", GOOD)]);
    assert!(has_secrets());
    update(volume.path(), "..2", &[("b.yaml", BAD), ("c.yaml", BAD)]);
    assert!(has_secrets(), "the last definition is kept");
    update(volume.path(), "..3", &[("a.yaml", GOOD)]);
    assert!(!has_secrets());
}

#[test]
fn time_in_which_the_directory_cannot_be_read_is_no_part_of_the_grace_period() {
    let root = tempfile::tempdir().unwrap();
    let (directory, elsewhere) = (root.path().join("plugins.d"), root.path().join("elsewhere"));
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("a.yaml"), GOOD).unwrap();
    let places = Places { directory: Some(directory.clone()), single: None };
    let grace = Duration::from_mins(1);
    let (mut loader, state) = Loader::new(places, Tier::Uid, grace, Metrics::new());
    let mut left = || {
        loader.load().ok()?;
        state.borrow().kept.as_ref().and_then(|kept| kept.seconds_left)
    };
    assert_eq!(left(), None);
    fs::remove_file(directory.join("a.yaml")).unwrap();
    assert_eq!(left(), Some(60));
    assert!(left().is_some_and(|seconds| seconds < 60));
    fs::rename(&directory, &elsewhere).unwrap();
    assert_eq!(left(), None);
    fs::rename(&elsewhere, &directory).unwrap();
    assert_eq!(left(), Some(60));
}

#[test]
fn the_only_plugin_waits_while_its_directory_may_still_be_filled() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.yaml"), GOOD).unwrap();
    assert!(!reader(directory.path())());
}

#[test]
fn what_an_earlier_process_had_in_use_is_no_reload() {
    let (directory, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let start = || {
        let places = Places { directory: Some(directory.path().to_owned()), single: None };
        let (loader, state) = Loader::new(places, Tier::Uid, Duration::ZERO, Metrics::new());
        (loader.remembering(work.path()), state)
    };
    fs::write(directory.path().join("a.yaml"), GOOD).unwrap();
    start().0.load().unwrap();
    fs::write(directory.path().join("a.yaml"), BAD).unwrap();
    let (mut loader, state) = start();
    for _ in 0..2 {
        let (served, good_since) = (state.borrow().desired.len(), state.borrow().good_since);
        assert_eq!((served, good_since), (1, None));
        loader.load().unwrap();
    }
}
