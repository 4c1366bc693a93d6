//! Lists of processes, threads and children.

use std::{
    fs::{self, File},
    io,
    os::{fd::AsRawFd, unix::fs::FileExt},
};

/// Error numbers with which the kernel says that a process has ended.
const ENOENT: i32 = 2;
const ESRCH: i32 = 3;

/// Returns true if an error below `/proc/PID` means that the process has ended.
#[must_use]
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(ENOENT | ESRCH))
}

/// Returns true if `/proc` shows the processes of this process's PID namespace: it may be
/// a mount of another one.
pub fn shows_own() -> io::Result<bool> {
    let own = fs::read_link("/proc/self")?;
    Ok(own.to_str() == Some(&std::process::id().to_string()))
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

/// Longest list of children in bytes: about ten thousand.
const MAX_CHILDREN: usize = 64 << 10;

/// The kernel's list of the children of one thread, kept open.
#[derive(Debug)]
pub struct ChildList(File);

impl ChildList {
    /// Opens the list of the calling thread. Kernels without `CONFIG_PROC_CHILDREN`
    /// have none.
    pub fn open() -> io::Result<Self> {
        File::open("/proc/thread-self/children").map(Self)
    }

    /// All children that nobody has waited for yet. The list is complete if the thread
    /// itself calls this, because only it could wait for one meanwhile.
    pub fn read(&self) -> io::Result<Vec<u32>> {
        let mut text = vec![0; 4096];
        let mut end = 0;
        loop {
            let place = text.get_mut(end..).unwrap_or_default();
            match self.0.read_at(place, end as u64)? {
                0 => break,
                length => end += length,
            }
            if end == text.len() {
                if end >= MAX_CHILDREN {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                text.resize(2 * end, 0);
            }
        }
        text.truncate(end);
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        let numbers = text.split_whitespace().map(str::parse);
        numbers.collect::<Result<_, _>>().map_err(io::Error::other)
    }
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
    fn a_child_is_listed_until_it_has_been_waited_for() {
        let list = ChildList::open().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        assert!(list.read().unwrap().contains(&child.id()));
        child.wait().unwrap();
        assert!(!list.read().unwrap().contains(&child.id()));
    }

    #[test]
    fn many_children_are_all_listed() {
        let list = ChildList::open().unwrap();
        let start = |_| std::process::Command::new("true").spawn().unwrap();
        let mut children: Vec<_> = (0..1_000).map(start).collect();
        let listed = list.read().unwrap();
        assert!(children.iter().all(|child| listed.contains(&child.id())));
        for child in &mut children {
            child.wait().unwrap();
        }
        assert_eq!(list.read().unwrap(), []);
    }

    #[test]
    fn a_process_that_has_ended_has_no_threads() {
        assert_eq!(threads(u32::MAX).unwrap(), []);
    }
}
