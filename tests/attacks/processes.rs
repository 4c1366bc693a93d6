//! The machine's processes, as root sees them.

use std::fs;

/// One process. The kernel reuses PIDs, so the start time identifies it as well.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) started: u64,
    pub(crate) parent: i32,
    pub(crate) uid: u32,
    pub(crate) nice: i32,
    pub(crate) name: String,
    pub(crate) command: String,
}

/// Returns all processes of the machine.
pub(crate) fn all() -> Vec<Process> {
    all_where(|_| true)
}

/// Returns the processes for which this is true. Most of the machine's are somebody else's,
/// and everything about them would take three times as long to read.
pub(crate) fn all_where(is_wanted: impl Fn(Owner) -> bool) -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("processes");
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| Owner::of(*pid).is_some_and(&is_wanted)).filter_map(Process::of).collect()
}

/// The user and the parent of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) uid: u32,
}

impl Owner {
    fn of(pid: i32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let (parent, rest) = status.split_once("\nPPid:")?.1.split_once('\n')?;
        let real = rest.split_once("\nUid:")?.1.split_whitespace().next()?;
        Some(Self { pid, parent: parent.trim().parse().ok()?, uid: real.parse().ok()? })
    }
}

/// The supplementary groups of a process; none if it has ended.
pub(crate) fn groups(pid: u32) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    groups.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

impl Process {
    fn of(pid: i32) -> Option<Self> {
        let Owner { parent, uid, .. } = Owner::of(pid)?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (head, fields) = stat.rsplit_once(") ")?;
        let fields: Vec<_> = fields.split(' ').collect();
        let name = head.split_once('(')?.1.to_owned();
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        Some(Self {
            pid,
            started: fields.get(19)?.parse().ok()?,
            parent,
            uid,
            nice: fields.get(16)?.parse().ok()?,
            name,
            command: command.replace('\0', " "),
        })
    }

    /// The process's supplementary groups; none if it has ended.
    pub(crate) fn groups(&self) -> Vec<u32> {
        groups(self.pid.cast_unsigned())
    }

    /// True if the process waits to end a request of this spawner. The spawner
    /// replaces such processes with each request.
    pub(crate) fn is_on_standby(&self, spawner: i32) -> bool {
        self.name == "cmp-standby" && self.parent == spawner
    }

    /// True if the process removes files of ended requests of this spawner.
    pub(crate) fn is_cleaner(&self, spawner: i32) -> bool {
        self.name == "cmp-cleaner" && self.parent == spawner
    }

    /// True if the process still exists and is not stopped.
    pub(crate) fn is_well(&self) -> bool {
        let now = Self::of(self.pid);
        let state = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let state = state.rsplit_once(") ").map_or("", |(_, rest)| rest).chars().next();
        now.is_some_and(|now| now.started == self.started)
            && !matches!(state, None | Some('T' | 't' | 'Z' | 'X'))
    }

    /// True if a variable of the process's environment has this value.
    pub(crate) fn has_variable(&self, name: &str, value: &str) -> bool {
        let entry = format!("{name}={value}");
        fs::read(format!("/proc/{}/environ", self.pid))
            .is_ok_and(|all| all.split(|byte| *byte == 0).any(|each| each == entry.as_bytes()))
    }
}
