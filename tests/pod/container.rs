//! The settings of a container, and its start.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::{
        Once,
        atomic::{AtomicU32, Ordering},
    },
};

use nix::unistd::geteuid;

use crate::{
    bundle::Bundle,
    groups::{self, Groups},
    plugin::{ConfigMap, Plugin},
    running::{Parts, Running},
    skip::skip,
    victim,
    volume::{Volume, unmount},
};

/// Directory of all bundles, and the first part of their names.
const PLACE: &str = "/var/tmp";
const PREFIX: &str = "cmp-pod-";

/// UIDs of the first container, above those of other tests and of the product's
/// default. UIDs are counted across the machine, so each container has its own.
const FIRST_UID: u32 = 1_000_000;
const UIDS: u32 = 478;

/// Containers of one run, and runs at a time, whose UIDs are different.
const CONTAINERS: u32 = 500;
const RUNS: u32 = 4_000;

/// Containers that this run has started.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A container like that of `deploy/kustomize`, to be changed and started.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub(crate) memory: Option<u64>,
    pub(crate) pids: Option<u64>,
    /// Hundredths of a processor.
    pub(crate) hundredths: Option<u32>,
    pub(crate) volume: String,
    pub(crate) capabilities: Vec<String>,
    pub(crate) user: u32,
    pub(crate) descriptors: (u64, u64),
    pub(crate) is_below_init: bool,
    pub(crate) binary: PathBuf,
    /// Argo CD's own server, to compare with: one process for each plugin.
    pub(crate) peer: Option<PathBuf>,
}

impl Container {
    /// Half of the memory that the shipped manifest has: 1 GiB, a volume in memory of 1 GiB, root with three capabilities,
    /// the runtime's seccomp profile, no limit of processes or processors.
    pub(crate) fn new() -> Self {
        Self {
            memory: Some(1 << 30),
            pids: None,
            hundredths: None,
            volume: "size=1073741824".to_owned(),
            capabilities: ["SETUID", "SETGID", "KILL"].map(str::to_owned).into(),
            user: 0,
            descriptors: (1024, 524_288),
            is_below_init: false,
            binary: binary(),
            peer: None,
        }
    }

    /// Limit of the memory, for example `512Mi`.
    pub(crate) fn memory(mut self, size: &str) -> Self {
        self.memory = Some(bytes(size));
        self
    }

    /// Limit of processes and threads.
    pub(crate) fn pids(mut self, count: u64) -> Self {
        self.pids = Some(count);
        self
    }

    /// Limit of processors, in hundredths of one.
    pub(crate) fn cpus(mut self, hundredths: u32) -> Self {
        self.hundredths = Some(hundredths);
        self
    }

    /// Size of the work volume, which is in memory.
    pub(crate) fn volume_in_memory(mut self, size: &str) -> Self {
        self.volume = format!("size={}", bytes(size));
        self
    }

    /// Most files in the work volume; call after `volume_in_memory`.
    pub(crate) fn volume_files(mut self, count: u64) -> Self {
        self.volume = format!("{},nr_inodes={count}", self.volume);
        self
    }

    /// Capabilities, without `CAP_`.
    pub(crate) fn capabilities(mut self, names: &[&str]) -> Self {
        self.capabilities = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// UID and GID of the first process.
    pub(crate) fn user(mut self, user: u32) -> Self {
        self.user = user;
        self
    }

    /// Soft and hard limit of open files.
    pub(crate) fn descriptors(mut self, soft: u64, hard: u64) -> Self {
        self.descriptors = (soft, hard);
        self
    }

    /// Below a small PID 1, as with `shareProcessNamespace`.
    pub(crate) fn below_init(mut self) -> Self {
        self.is_below_init = true;
        self
    }

    /// With Argo CD's own server instead of the product.
    pub(crate) fn peer(mut self, binary: PathBuf) -> Self {
        self.peer = Some(binary);
        self.user(999)
    }

    /// Starts the container with these plugins, the victim's, and flags of `serve`,
    /// and waits until it is ready. `None`, with a message, if this machine lacks
    /// something.
    pub(crate) fn start(&self, plugins: &[Plugin], flags: &[&str]) -> Option<Running> {
        if let Some(reason) = missing() {
            skip(&reason);
            return None;
        }
        sweep_once();
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", process::id());
        let bundle = Bundle::make(&Path::new(PLACE).join(&name));
        let volume = Volume::mount(&bundle.at("work"), &self.volume).unwrap();
        let all: Vec<_> = plugins.iter().cloned().chain(victim::plugins()).collect();
        let config_map = ConfigMap::new(&bundle.at("plugins"), &all);
        let first = FIRST_UID + (process::id() % RUNS * CONTAINERS + number) * UIDS;
        let uids = first..=first + UIDS - 1;
        let own = ["--uid-range", &format!("{first}-{}", uids.end()), "--log-format", "json"];
        let arguments: Vec<_> = own.iter().chain(flags).map(|&flag| flag.to_owned()).collect();
        bundle.configure(self, &arguments);
        let groups = Groups { name };
        let is_peer = self.peer.is_some();
        Some(Running::start(Parts { bundle, volume, config_map, groups, uids, is_peer }))
    }
}

/// The product under test, or another binary for comparison.
#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
fn binary() -> PathBuf {
    let built = || env!("CARGO_BIN_EXE_cmp-supervisor").into();
    env::var_os("CMP_SUPERVISOR_BINARY").map_or_else(built, PathBuf::from)
}

/// The part of this machine that containers need and that is missing.
fn missing() -> Option<String> {
    if !geteuid().is_root() {
        return Some("needs root, to make containers".to_owned());
    }
    let has_runtime = Command::new("runc").arg("--version").output().is_ok();
    if !has_runtime {
        return Some("needs runc".to_owned());
    }
    let is_missing = |name: &&&str| !Path::new("/sys/fs/cgroup").join(name).join("tasks").exists();
    let absent = groups::NEEDED.iter().find(is_missing)?;
    Some(format!("needs the cgroup v1 hierarchy {absent}"))
}

/// Bytes of a size such as `512Mi`.
fn bytes(size: &str) -> u64 {
    let units = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)];
    let unit = units.iter().find_map(|(unit, bytes)| Some((size.strip_suffix(unit)?, bytes)));
    let (number, unit) = unit.unwrap_or((size, &1));
    number.parse::<u64>().unwrap() * unit
}

/// Removes containers of runs that were killed.
fn sweep_once() {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| {
        for entry in fs::read_dir(PLACE).unwrap().filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let run = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
            if run.is_some_and(|(pid, _)| !Path::new("/proc").join(pid).exists()) {
                remove(&Bundle(entry.path()), &Groups { name });
            }
        }
    });
}

/// Ends a container; its volumes stay.
pub(crate) fn delete(bundle: &Bundle, groups: &Groups) {
    let mut delete = Command::new("runc");
    delete.arg("--root").arg(bundle.at("state")).args(["delete", "--force", &groups.name]);
    // The container may have ended, and be gone, already.
    let _ = delete.output();
}

/// Ends a container and removes everything of it.
pub(crate) fn remove(bundle: &Bundle, groups: &Groups) {
    delete(bundle, groups);
    groups.remove();
    unmount(&bundle.at("work"));
    let _ = fs::remove_dir_all(&bundle.0);
}
