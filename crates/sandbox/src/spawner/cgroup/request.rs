//! The cgroup of one request.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use super::Directory;
use crate::{
    spawner::tally::Counted,
    wire::{exceeded::ExceededLimit, message::RequestLimits},
};

/// Processes of ours in the cgroup: an init or guard, and the worker before it becomes the
/// command. A tenant cannot take their room, because the limit of its
/// UID is without them. A second command therefore starts while those of the first one,
/// which were just killed, still count.
const OWN_PROCESSES: u64 = 2;

/// A cgroup with the limits of a request.
#[derive(Debug)]
pub(in crate::spawner) struct RequestCgroup {
    directory: Directory,
    name: String,
    /// Processes killed for lack of memory, and times that the limit of this
    /// cgroup was the reason, as reported last.
    killed: u64,
    reached: u64,
    /// Most bytes of cached files in a reading.
    cached: u64,
}

impl RequestCgroup {
    /// `files` are the bytes that count as memory in addition.
    pub(super) fn limit(
        directory: Directory,
        name: String,
        limits: RequestLimits,
        files: Option<u64>,
    ) -> io::Result<Self> {
        let memory = limits.memory.zip(files).map(|(memory, files)| memory.saturating_add(files));
        directory.write("memory.max", &amount(memory))?;
        directory.write("memory.oom.group", "1")?;
        // Absent if the kernel does not count swap.
        if directory.has("memory.swap.max") {
            directory.write("memory.swap.max", "0")?;
        }
        let processes = limits.processes.map(|most| most.saturating_add(OWN_PROCESSES));
        directory.write("pids.max", &amount(processes))?;
        Ok(Self { directory, name, killed: 0, reached: 0, cached: 0 })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Moves this process into the cgroup.
    pub(super) fn enter(&self) -> io::Result<()> {
        self.directory.write("cgroup.procs", "0")
    }

    /// Kills all processes in it, even while they fork.
    pub(in crate::spawner) fn kill(&self) {
        // Absent before Linux 5.14; a killer follows in any case.
        let _ = self.directory.write("cgroup.kill", "1");
    }

    /// The kernel's numbers; `None` if it does not tell them.
    pub(in crate::spawner) fn usage(&mut self) -> Option<Counted> {
        let number = |file, key| self.directory.number(file, key);
        let memory = number("memory.current", None)?;
        let [cached, shared, objects] =
            self.directory.numbers("memory.stat", ["file", "shmem", "slab"]);
        // Cached files of disks are given back when memory is needed.
        let files = cached.saturating_sub(shared);
        // Nobody knows how many there were at the peak. They may be gone by now.
        self.cached = self.cached.max(files);
        // Absent before Linux 5.19.
        let peak = number("memory.peak", None).unwrap_or(memory);
        Some(Counted {
            memory: memory.saturating_sub(files),
            peak: peak.saturating_sub(self.cached),
            objects,
            processes: number("pids.current", None)?,
            cpu: Duration::from_micros(number("cpu.stat", Some("usage_usec"))?),
        })
    }

    /// Returns the exceeded limit if the kernel has killed processes for lack of
    /// memory since the last call.
    pub(in crate::spawner) fn take_excess(&mut self) -> Option<ExceededLimit> {
        let count = |key| self.directory.number("memory.events", Some(key)).unwrap_or_default();
        let (killed, reached) = (count("oom_kill"), count("oom"));
        let (is_killed, is_own) = (killed > self.killed, reached > self.reached);
        (self.killed, self.reached) = (killed, reached);
        is_killed.then_some(if is_own { ExceededLimit::Memory } else { ExceededLimit::TotalMemory })
    }
}

/// A limit as the kernel expects it.
pub(super) fn amount(limit: Option<u64>) -> String {
    limit.map_or("max".to_owned(), |limit| limit.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_kernels_numbers_are_read_without_cached_files() {
        let place = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("memory.current", "1000\n"),
            ("memory.peak", "1500\n"),
            ("memory.stat", "anon 500\nfile 400\nkernel 100\nshmem 150\nslab 80\n"),
            ("pids.current", "3\n"),
            ("cpu.stat", "usage_usec 2500\nuser_usec 2000\nsystem_usec 500\n"),
        ] {
            fs::write(place.path().join(file), text).unwrap();
        }
        let directory = Directory::at(place.path()).unwrap();
        let mut cgroup =
            RequestCgroup { directory, name: String::new(), killed: 0, reached: 0, cached: 0 };
        let cpu = Duration::from_micros(2500);
        let expected = Counted { memory: 750, peak: 1250, objects: 80, processes: 3, cpu };
        assert_eq!(cgroup.usage(), Some(expected));
        fs::write(place.path().join("memory.stat"), "file 150\nshmem 150\nslab 80\n").unwrap();
        let later = Counted { memory: 1000, ..expected };
        assert_eq!(cgroup.usage(), Some(later), "the peak may have had the files");
        fs::remove_file(place.path().join("memory.current")).unwrap();
        assert_eq!(cgroup.usage(), None, "without the controller");
    }
}
