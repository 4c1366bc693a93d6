//! Limits of cgroups, of version 2 and of version 1.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use cmp_procfs::{Mount, mounts, own_cgroup_directory};
use cmp_sandbox::SUPERVISOR_CGROUP;

use super::Bound;

/// Microseconds of a period of version 1 that does not tell it.
const PERIOD: u64 = 100_000;

/// A resource that cgroups limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Controller {
    Memory,
    Processes,
    Cpu,
}

/// The hierarchies of cgroups that this process sees.
#[derive(Debug, Default)]
pub(super) struct Cgroups(Vec<Hierarchy>);

/// One hierarchy: its version, and the directories of this process's group and
/// of all visible groups above it.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    version: Version,
    /// None if the mount is from an outer cgroup namespace.
    directories: Vec<PathBuf>,
}

#[derive(Debug, PartialEq, Eq)]
enum Version {
    /// All controllers.
    Two,
    /// The named controllers.
    One(Vec<String>),
}

impl Controller {
    /// Name in version 1.
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "pids",
            Self::Cpu => "cpu",
        }
    }

    /// Files of version 2 with a limit.
    fn files(self) -> &'static [&'static str] {
        match self {
            // Above `memory.high`, the kernel slows all processes down.
            Self::Memory => &["memory.max", "memory.high"],
            Self::Processes => &["pids.max"],
            Self::Cpu => &["cpu.max"],
        }
    }

    /// Files of version 1 with a limit.
    fn old_files(self) -> &'static [&'static str] {
        match self {
            Self::Memory => &["memory.limit_in_bytes", "memory.stat"],
            Self::Processes => &["pids.max"],
            Self::Cpu => &["cpu.cfs_quota_us"],
        }
    }
}

impl Cgroups {
    /// Finds the groups of this process. Without `/proc`, there are none.
    pub(super) fn find() -> Self {
        let mounts = mounts().unwrap_or_default();
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::of(&mounts, &groups)
    }

    fn of(mounts: &[Mount], groups: &str) -> Self {
        Self(mounts.iter().filter_map(|mount| Hierarchy::of(mount, groups)).collect())
    }

    /// Files with the number of processes that were killed for lack of memory in
    /// this process's own group. At most one exists.
    pub(super) fn oom_files(&self) -> impl Iterator<Item = File> {
        let own = self.0.iter().filter_map(|hierarchy| hierarchy.directories.first());
        let names = ["memory.events", "memory.oom_control"];
        own.flat_map(move |own| names.map(|name| own.join(name)))
            .filter_map(|path| File::open(path).ok())
    }

    /// Files with the periods of limits of the processor, of all visible groups.
    pub(super) fn cpu_tables(&self) -> impl Iterator<Item = String> {
        let groups = self.0.iter().flat_map(|hierarchy| &hierarchy.directories);
        groups.filter_map(|group| fs::read_to_string(group.join("cpu.stat")).ok())
    }

    /// True if the kernel kills all processes of this container together for lack of
    /// memory. The kubelet sets it in version 2.
    pub(super) fn are_killed_together(&self) -> bool {
        let is_two = |hierarchy: &&Hierarchy| hierarchy.version == Version::Two;
        let mut groups = self.0.iter().filter(is_two).flat_map(|of| &of.directories);
        groups.any(|group| {
            fs::read_to_string(group.join("memory.oom.group")).is_ok_and(|text| text.trim() == "1")
        })
    }

    /// True if the memory of this container's group cannot be seen in any hierarchy, although
    /// one is mounted.
    pub(super) fn are_hidden(&self) -> bool {
        let mut groups = self.0.iter().flat_map(|hierarchy| &hierarchy.directories);
        let is_any = self.0.iter().any(|hierarchy| hierarchy.directories.is_empty());
        is_any && !groups.any(|group| group.join("memory.stat").exists())
    }

    /// The tightest limit of all groups that contain this process.
    pub(super) fn limit(&self, controller: Controller) -> Option<Bound> {
        let bounds = self.0.iter().flat_map(|hierarchy| hierarchy.bounds(controller));
        bounds.min_by_key(|bound| bound.amount)
    }
}

impl Cgroups {
    /// The use of the container's group. Files that the kernel can drop do not count as
    /// memory, as for the kubelet.
    pub(super) fn used(&self, controller: Controller) -> Option<u64> {
        self.0.iter().find_map(|hierarchy| hierarchy.used(controller))
    }
}

impl Hierarchy {
    /// The spawner moves this process down, beside the groups of requests. Only the group
    /// above counts both. The root of the machine has no files with numbers.
    fn used(&self, controller: Controller) -> Option<u64> {
        let own = self.directories.first()?;
        let above = self.directories.get(1).filter(|_| own.ends_with(SUPERVISOR_CGROUP));
        above.into_iter().chain([own]).find_map(|group| self.used_by(group, controller))
    }

    fn used_by(&self, group: &Path, controller: Controller) -> Option<u64> {
        let number = |file| read(group, file);
        let is_two = self.version == Version::Two;
        match controller {
            Controller::Memory => {
                let all = number(if is_two { "memory.current" } else { "memory.usage_in_bytes" })?;
                let table = fs::read_to_string(group.join("memory.stat")).ok()?;
                let name = if is_two { "inactive_file " } else { "total_inactive_file " };
                let files = table.lines().find_map(|line| line.strip_prefix(name));
                Some(all.saturating_sub(files?.trim().parse().ok()?))
            }
            Controller::Processes => number("pids.current"),
            Controller::Cpu => None,
        }
    }

    fn of(mount: &Mount, groups: &str) -> Option<Self> {
        let names: Vec<_> = mount.options.split(',').map(str::to_owned).collect();
        let version = match mount.kind.as_str() {
            "cgroup2" => Version::Two,
            "cgroup" => Version::One(names),
            _ => return None,
        };
        let own = own_cgroup_directory(mount, groups);
        let all = own.iter().flat_map(|own| own.ancestors());
        let directories = all.take_while(|path| path.starts_with(&mount.point));
        Some(Self { version, directories: directories.map(Path::to_owned).collect() })
    }

    fn bounds(&self, controller: Controller) -> impl Iterator<Item = Bound> {
        let (version, files) = match &self.version {
            Version::Two => ("v2", controller.files()),
            Version::One(names) if names.iter().any(|name| name == controller.name()) => {
                ("v1", controller.old_files())
            }
            Version::One(_) => ("v1", [].as_slice()),
        };
        let paths = self.directories.iter().flat_map(move |at| files.iter().map(move |f| (at, f)));
        paths.filter_map(move |(directory, file)| {
            let amount = read(directory, file)?;
            Some(Bound { amount, source: format!("cgroup {version} {file}"), is_own: true })
        })
    }
}

/// The limit in a file, if there is one.
fn read(directory: &Path, file: &str) -> Option<u64> {
    let number = |file| fs::read_to_string(directory.join(file)).ok()?.trim().parse::<u64>().ok();
    match file {
        // Also counts groups above the mount.
        "memory.stat" => {
            let path = directory.join(file);
            let table = fs::read_to_string(path).ok()?;
            let line =
                table.lines().find_map(|line| line.strip_prefix("hierarchical_memory_limit "));
            line?.trim().parse().ok()
        }
        "cpu.max" => {
            let text = fs::read_to_string(directory.join(file)).ok()?;
            let (quota, period) = text.trim().split_once(' ')?;
            thousandths(quota.parse().ok()?, period.parse().ok()?)
        }
        "cpu.cfs_quota_us" => {
            thousandths(number(file)?, number("cpu.cfs_period_us").unwrap_or(PERIOD))
        }
        _ => number(file),
    }
}

/// Thousandths of a processor; at least one.
fn thousandths(quota: u64, period: u64) -> Option<u64> {
    quota.saturating_mul(1000).checked_div(period).map(|thousandths| thousandths.max(1))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn mount(kind: &str, options: &str, root: &str, point: &TempDir) -> Mount {
        Mount {
            root: root.into(),
            point: point.path().into(),
            kind: kind.to_owned(),
            options: options.to_owned(),
            ..Mount::default()
        }
    }

    /// A hierarchy with these files, each with its content.
    fn tree(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    fn limits(mount: Mount, groups: &str) -> [Option<(u64, String)>; 3] {
        let cgroups = Cgroups::of(&[mount], groups);
        [Controller::Memory, Controller::Processes, Controller::Cpu]
            .map(|controller| cgroups.limit(controller).map(|b| (b.amount, b.source)))
    }

    fn bound(amount: u64, source: &str) -> (u64, String) {
        (amount, source.to_owned())
    }

    #[test]
    fn the_tightest_limit_of_all_groups_counts() {
        let root = tree(&[
            ("pod/memory.max", "1073741824\n"),
            ("pod/pids.max", "max\n"),
            ("pod/own/memory.max", "max\n"),
            ("pod/own/memory.high", "2147483648\n"),
            ("pod/own/pids.max", "300\n"),
            ("pod/own/cpu.max", "150000 100000\n"),
            ("other/memory.max", "1\n"),
        ]);
        let expected = [
            Some(bound(1 << 30, "cgroup v2 memory.max")),
            Some(bound(300, "cgroup v2 pids.max")),
            Some(bound(1500, "cgroup v2 cpu.max")),
        ];
        assert_eq!(limits(mount("cgroup2", "rw", "/", &root), "0::/pod/own\n"), expected);
    }

    #[test]
    fn the_use_of_the_own_group_is_without_files_that_can_be_dropped() {
        let root = tree(&[
            ("own/memory.current", "5000\n"),
            ("own/memory.stat", "anon 1\ninactive_file 2000\n"),
            ("own/pids.current", "7\n"),
        ]);
        let cgroups = Cgroups::of(&[mount("cgroup2", "rw", "/", &root)], "0::/own\n");
        let used = [Controller::Memory, Controller::Processes, Controller::Cpu];
        assert_eq!(used.map(|of| cgroups.used(of)), [Some(3000), Some(7), None]);
        assert_eq!(Cgroups::default().used(Controller::Memory), None);
    }

    #[test]
    fn the_use_of_a_supervisor_beside_its_requests_is_that_of_the_group_above() {
        let own = [("own/cmp-supervisor/pids.current", "3\n"), ("own/pids.current", "7\n")];
        let used = |root: &TempDir| {
            let mount = mount("cgroup2", "rw", "/", root);
            Cgroups::of(&[mount], "0::/own/cmp-supervisor\n").used(Controller::Processes)
        };
        assert_eq!(used(&tree(&own)), Some(7));
        assert_eq!(used(&tree(&own[..1])), Some(3), "in the root of the machine");
    }

    #[test]
    fn a_group_that_is_killed_together_is_seen_from_inside() {
        for (value, expected) in [("1\n", true), ("0\n", false)] {
            let root = tree(&[("memory.oom.group", value), ("own/memory.oom.group", "0\n")]);
            let cgroups = Cgroups::of(&[mount("cgroup2", "rw", "/", &root)], "0::/own\n");
            assert_eq!(cgroups.are_killed_together(), expected);
        }
    }

    #[test]
    fn in_a_container_the_mount_is_the_own_group() {
        let root = tree(&[("memory.max", "5\n"), ("cpu.max", "max 100000\n")]);
        let expected = [Some(bound(5, "cgroup v2 memory.max")), None, None];
        assert_eq!(limits(mount("cgroup2", "rw", "/", &root), "0::/\n"), expected);
        // A mount from outside the cgroup namespace.
        assert_eq!(limits(mount("cgroup2", "rw", "/", &root), "0::/../../a\n"), expected);
    }

    #[test]
    fn a_mount_of_an_outer_namespace_hides_the_limits() {
        let root = tree(&[("memory.max", "5\n"), ("memory.stat", "anon 1\n")]);
        let outer = mount("cgroup2", "rw", "/..", &root);
        assert_eq!(limits(outer.clone(), "0::/\n"), [None, None, None]);
        let own = mount("cgroup2", "rw", "/", &root);
        let are_hidden = |mounts: &[Mount]| Cgroups::of(mounts, "0::/\n").are_hidden();
        assert!(are_hidden(std::slice::from_ref(&outer)));
        assert!(!are_hidden(&[outer, own]) && !are_hidden(&[]));
    }

    #[test]
    fn version_1_has_a_hierarchy_for_each_controller() {
        let root = tree(&[
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory.stat", "cache 1\nhierarchical_memory_limit 4096\n"),
            ("pids.max", "7\n"),
        ]);
        let groups = "5:pids:/elsewhere\n4:memory,other:/docker/abc\n0::/x\n";
        let memory = mount("cgroup", "rw,memory", "/docker/abc", &root);
        assert_eq!(
            limits(memory, groups),
            [Some(bound(4096, "cgroup v1 memory.stat")), None, None]
        );
        let quota = tree(&[("cpu.cfs_quota_us", "50000\n"), ("cpu.cfs_period_us", "200000\n")]);
        let cpu = mount("cgroup", "rw,cpu,cpuacct", "/", &quota);
        let expected = [None, None, Some(bound(250, "cgroup v1 cpu.cfs_quota_us"))];
        assert_eq!(limits(cpu, "3:cpu,cpuacct:/gone\n"), expected);
    }
}
