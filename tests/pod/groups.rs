//! The cgroups of a container.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

/// Mount point of the hierarchies.
const ROOT: &str = "/sys/fs/cgroup";

/// Hierarchies that a container needs.
pub(crate) const NEEDED: [&str; 3] = ["memory", "pids", "cpu"];

/// Hierarchies that a container may have a group in.
const ALL: [&str; 10] = [
    "memory", "pids", "cpu", "cpuacct", "cpuset", "blkio", "devices", "freezer", "systemd",
    "unified",
];

/// Name of the container's group below that of its Pod.
pub(crate) const CONTAINER: &str = "container";

/// The groups of a Pod, below the root of each hierarchy, and of its container.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    pub(crate) name: String,
}

impl Groups {
    fn file(&self, hierarchy: &str, file: &str) -> PathBuf {
        self.of_pod(hierarchy).join(CONTAINER).join(file)
    }

    fn of_pod(&self, hierarchy: &str) -> PathBuf {
        PathBuf::from(ROOT).join(hierarchy).join(&self.name)
    }

    fn read(&self, hierarchy: &str, file: &str) -> String {
        fs::read_to_string(self.file(hierarchy, file)).unwrap_or_default()
    }

    fn number(&self, hierarchy: &str, file: &str) -> u64 {
        self.read(hierarchy, file).trim().parse().unwrap_or_default()
    }

    /// The number after a name in a file of names and numbers.
    fn named(&self, hierarchy: &str, file: &str, name: &str) -> u64 {
        let text = self.read(hierarchy, file);
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or_default()
    }

    /// PIDs of all processes of the container.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let list = self.read("pids", "cgroup.procs");
        list.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Memory in use, the files of a volume in memory included.
    pub(crate) fn memory(&self) -> u64 {
        self.number("memory", "memory.usage_in_bytes")
    }

    /// The most memory that was in use, also after the container's end.
    pub(crate) fn memory_peak(&self) -> u64 {
        let file = self.of_pod("memory").join("memory.max_usage_in_bytes");
        fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
    }

    /// Limit of the memory.
    pub(crate) fn memory_limit(&self) -> u64 {
        self.number("memory", "memory.limit_in_bytes")
    }

    /// Processes that the kernel killed because the memory was used up.
    pub(crate) fn oom_kills(&self) -> u64 {
        self.named("memory", "memory.oom_control", "oom_kill")
    }

    /// Forks that failed because of the limit of processes.
    pub(crate) fn forks_refused(&self) -> u64 {
        self.named("pids", "pids.events", "max")
    }

    /// CPU time in use since the start.
    pub(crate) fn processor_time(&self) -> Duration {
        Duration::from_nanos(self.number("cpuacct", "cpuacct.usage"))
    }

    /// Changes a limit while the container runs, as resizing a Pod does.
    pub(crate) fn set(&self, hierarchy: &str, file: &str, value: &str) {
        fs::write(self.file(hierarchy, file), value).unwrap();
    }

    /// Limits the processes of the Pod, which its container does not see.
    pub(crate) fn limit_pod(&self, processes: &str) {
        fs::write(self.of_pod("pids").join("pids.max"), processes).unwrap();
    }

    /// Uses more memory in the container than it has, by a process that the kernel
    /// then kills.
    pub(crate) fn run_out_of_memory(&self) {
        let list = self.file("memory", "cgroup.procs");
        let enter = format!("echo 1000 > /proc/self/oom_score_adj; echo $$ > {}", list.display());
        let take = format!("dd if=/dev/zero of=/dev/null bs={} count=1", self.memory_limit() * 2);
        let mut command = Command::new("sh");
        let status = command.args(["-c", &format!("{enter}; exec {take}")]).status().unwrap();
        assert_eq!(status.signal(), Some(9), "it was not killed: {status}");
    }

    /// Prefers the container to other work on this machine, for figures.
    pub(crate) fn prefer(&self) {
        fs::write(self.of_pod("cpu").join("cpu.shares"), "100000").unwrap();
    }

    /// Removes the groups after the container's end.
    pub(crate) fn remove(&self) {
        for hierarchy in ALL {
            let pod = self.of_pod(hierarchy);
            remove(&pod.join(CONTAINER));
            remove(&pod);
        }
    }
}

fn remove(directory: &Path) {
    // A group stays busy for a moment after its last process has ended.
    for _ in 0..100 {
        let _ = fs::remove_dir(directory);
        if !directory.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}
