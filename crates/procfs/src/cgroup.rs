//! The control group of this process, in the hierarchy of version 2.

use std::{fs, io, path::PathBuf};

/// Path of this process's cgroup below the root of its cgroup namespace; `None`
/// if the kernel has no hierarchy of version 2.
pub fn own_cgroup() -> io::Result<Option<PathBuf>> {
    fs::read_to_string("/proc/self/cgroup").map(|table| unified(&table))
}

/// The line of version 2 has the number 0 and no controllers.
fn unified(table: &str) -> Option<PathBuf> {
    table.lines().find_map(|line| line.strip_prefix("0::")).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_version_1_are_skipped() {
        let table = "4:memory:/a\n1:cpu,cpuacct:/b\n0::/system.slice/x\n";
        assert_eq!(unified(table), Some("/system.slice/x".into()));
        assert_eq!(unified("4:memory:/a\n"), None);
    }
}
