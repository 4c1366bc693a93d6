//! Processes of the spawner.

use std::fs;

/// Children of a process that have one of these names.
pub(crate) fn children(parent: i32, names: &[&str]) -> Vec<i32> {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    let is_named = |pid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        names.contains(&name.trim_end())
    };
    list.split_whitespace().map(|pid| pid.parse().unwrap()).filter(is_named).collect()
}
