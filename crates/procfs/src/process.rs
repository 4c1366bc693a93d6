//! Lists of processes, threads and children.

use std::{fs, io, os::fd::AsRawFd};

/// Error numbers with which the kernel says that a process has ended.
const ENOENT: i32 = 2;
const ESRCH: i32 = 3;

/// Returns true if an error below `/proc/PID` means that the process has ended.
#[must_use]
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(ENOENT | ESRCH))
}

/// All processes that this one can see.
pub fn pids() -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        pids.extend(number(&entry?));
    }
    Ok(pids)
}

/// The threads of a process; none if it has ended.
pub fn threads(pid: u32) -> io::Result<Vec<u32>> {
    match fs::read_dir(format!("/proc/{pid}/task")) {
        Err(error) if is_gone(&error) => Ok(Vec::new()),
        // An error after the first entry means that the process has just ended.
        entries => Ok(entries?.map_while(Result::ok).filter_map(|entry| number(&entry)).collect()),
    }
}

/// The children of this thread.
#[must_use]
pub fn children() -> Vec<i32> {
    let list = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// A path that leads to the file behind an open descriptor of this process.
#[must_use]
pub fn descriptor_path(descriptor: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

fn number(entry: &fs::DirEntry) -> Option<u32> {
    entry.file_name().to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_and_its_first_thread_are_listed() {
        let own = std::process::id();
        assert!(pids().unwrap().contains(&own));
        assert!(threads(own).unwrap().contains(&own));
    }

    #[test]
    fn a_process_that_has_ended_has_no_threads() {
        assert_eq!(threads(u32::MAX).unwrap(), []);
    }
}
