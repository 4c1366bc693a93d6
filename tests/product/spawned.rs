//! Processes of the spawner.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::Value;

/// Children of a process that have one of these names.
pub(crate) fn children(parent: i32, names: &[&str]) -> Vec<i32> {
    let is_named = |pid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        names.contains(&name.trim_end())
    };
    all_children(parent).into_iter().filter(is_named).collect()
}

/// Children of a process, also those that have no name yet.
pub(crate) fn all_children(parent: i32) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// True if a process is gone, or waits for its parent: nothing else reaps an orphan than the
/// first process of the machine or container, which may be slow, or not do it.
pub(crate) fn has_ended(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.map_or(true, |stat| stat.contains(") Z "))
}

#[test]
fn the_last_error_of_the_spawner_is_a_line_of_the_log() {
    let last = |format: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        // It gets its orders from a socket.
        let output = command.args(["spawner", format]).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let line = last("json");
    let read: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
    assert_eq!(read["level"], "fatal");
    assert!(read["msg"].as_str().unwrap().starts_with("the spawner ended: "), "{line}");
    assert!(line.ends_with('\n') && line.lines().count() == 1, "{line}");
    assert!(last("text").contains(" fatal   the spawner ended: "));
}
