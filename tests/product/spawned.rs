//! Processes of the spawner.

use std::fs;

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
