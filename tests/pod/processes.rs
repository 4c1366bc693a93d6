//! Processes of a container, seen from outside.

use std::fs;

/// A process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) uid: u32,
    pub(crate) effective_uid: u32,
    pub(crate) state: char,
    pub(crate) resident: u64,
    pub(crate) descriptors: usize,
    /// Name of the program, at most 15 bytes.
    pub(crate) name: String,
    pub(crate) command: String,
}

impl Process {
    /// A process, or `None` if it has ended.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let fields = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.split_ascii_whitespace())
        };
        let field = |name: &str| fields(name)?.next();
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count);
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        Some(Self {
            pid,
            parent: field("PPid:")?.parse().ok()?,
            uid: field("Uid:")?.parse().ok()?,
            effective_uid: fields("Uid:")?.nth(1)?.parse().ok()?,
            state: field("State:")?.chars().next()?,
            resident: field("VmRSS:").and_then(|kib| kib.parse().ok()).unwrap_or(0) * 1024,
            descriptors: descriptors.unwrap_or(0),
            name: field("Name:")?.to_owned(),
            command: String::from_utf8_lossy(&command).replace('\0', " ").trim().to_owned(),
        })
    }
}
