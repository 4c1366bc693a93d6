//! A cgroup for each request, if this container may create cgroups.
//!
//! ```text
//! container        its processes move down, because only the lowest may have any
//! ├ cmp-supervisor   supervisor, spawner, killers, cleaners, meters
//! └ cmp-requests.ID  limits of all requests together; a lower share of CPU time
//!   ├ 1              a lease, with its limits
//!   └ 2
//! ```
//!
//! Tenants cannot enter `cmp-requests.ID`: it has mode 0700, and Landlock denies
//! writing. It is locked, so that a later start removes only what is abandoned.

mod directory;
mod place;
mod request;
mod stale;

use std::{io, path::PathBuf, thread, time::Duration};

use nix::{
    errno::Errno,
    sys::stat::Mode,
    unistd::{Pid, getpid},
};
use rand::RngExt;
use thiserror::Error;

pub(super) use self::request::RequestCgroup;
use self::{directory::Directory, place::Place};
use crate::{
    kernel::fork::{Birth, SingleThreaded},
    wire::{message::RequestLimits, usage::TotalLimits},
};

/// Name of the cgroup of supervisor and spawner.
pub const SUPERVISOR_CGROUP: &str = "cmp-supervisor";

/// Beginning of the names of the cgroups that hold those of requests.
const REQUESTS: &str = "cmp-requests.";

/// The controllers in use.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
const ENABLE: &str = "+memory +pids +cpu";
const DISABLE: &str = "-memory -pids -cpu";

/// CPU weight of all requests together; the supervisor keeps the default of 100.
const REQUESTS_WEIGHT: &str = "10";

/// Attempts to move all processes of the container, and the pause between them. A
/// probe may start a process at any time.
const MOVES: u32 = 20;
const MOVE_PAUSE: Duration = Duration::from_millis(5);

/// Reasons why requests cannot have cgroups.
#[derive(Debug, Error)]
pub(super) enum NoCgroups {
    #[error("switched off with --request-cgroups off")]
    Off,
    #[error("no cgroup v2 is mounted here")]
    NotMounted,
    #[error(
        "{} is mounted read-only: give the container writable cgroups (an option of its runtime), \
         or the capability SYS_ADMIN", .0.display()
    )]
    ReadOnly(PathBuf),
    #[error("no permission to create cgroups in {}: delegate it to this user", .0.display())]
    Permission(PathBuf),
    #[error(
        "the cgroup {} lacks the controllers {}: they belong to cgroup v1, or are not delegated",
        path.display(), missing.join(", ")
    )]
    Controllers { path: PathBuf, missing: Vec<&'static str> },
    #[error(
        "other processes run in the cgroup {}: start the supervisor in one of its own, for \
         example with `systemd-run --property Delegate=yes`", .0.display()
    )]
    Shared(PathBuf),
    #[error("the spawner gives up root in this tier of isolation")]
    NoRoot,
    #[error("cannot {step}: {error}")]
    Step { step: &'static str, error: io::Error },
}

/// The cgroups of all requests.
#[derive(Debug)]
pub(super) struct Cgroups {
    place: Place,
    /// This spawner created the cgroup of the supervisor, so it also removes it.
    is_first: bool,
    /// Holds the cgroups of requests; locked.
    name: String,
    requests: Directory,
    fork: SingleThreaded,
    /// The kernel can start a process in another cgroup.
    starts_inside: bool,
    /// Files on the work volume count as memory.
    counts_files: bool,
    /// Cgroups of leases that could not be removed yet.
    left: Vec<String>,
    /// Cgroups of other spawners, which may end later.
    others: Vec<String>,
}

impl Cgroups {
    /// Moves the supervisor and this process into a cgroup of their own, and
    /// creates the one for requests. `counts_files` means that the work volume is
    /// in memory.
    pub(super) fn open(
        fork: SingleThreaded,
        supervisor: Pid,
        counts_files: bool,
    ) -> Result<Self, NoCgroups> {
        let place = Place::find()?;
        check_controllers(&place)?;
        let made = place.directory.make(SUPERVISOR_CGROUP, Mode::from_bits_truncate(0o755));
        let is_first = match made {
            Ok(()) => true,
            Err(Errno::EEXIST) => false,
            Err(error) => return Err(place::refused(&place.path, error)),
        };
        let prepared = gather(&place, supervisor).and_then(|()| {
            let others = stale::remove(&place.directory);
            Ok((requests(&place)?, others))
        });
        match prepared {
            Ok(((name, requests), others)) => {
                let left = Vec::new();
                let mut cgroups = Self {
                    place,
                    is_first,
                    name,
                    requests,
                    fork,
                    starts_inside: false,
                    counts_files,
                    left,
                    others,
                };
                cgroups.starts_inside = cgroups.try_start();
                Ok(cgroups)
            }
            Err(error) => {
                restore(&place, is_first);
                Err(error)
            }
        }
    }

    /// Returns true if workers start in their cgroup. Otherwise they move there,
    /// which takes the kernel about 10 ms.
    pub(super) fn starts_inside(&self) -> bool {
        self.starts_inside
    }

    /// Limits all requests together.
    pub(super) fn limit(&self, limits: TotalLimits) {
        // A limit that cannot be set is measured nevertheless.
        let _ = self.requests.write("memory.max", &request::amount(limits.memory));
        let _ = self.requests.write("pids.max", &request::amount(limits.processes));
    }

    /// Creates the cgroup of a lease.
    pub(super) fn create(&self, lease: u64, limits: RequestLimits) -> io::Result<RequestCgroup> {
        let name = lease.to_string();
        self.requests.make(&name, Mode::S_IRWXU)?;
        let files = if self.counts_files { limits.disk } else { Some(0) };
        let made = self.requests.below(name.as_str()).map_err(io::Error::from);
        let made = made.and_then(|made| RequestCgroup::limit(made, name.clone(), limits, files));
        if made.is_err() {
            let _ = self.requests.remove(&name);
        }
        made
    }

    /// Removes the cgroup of a lease that has ended, and those that could not be
    /// removed before. An earlier spawner's lock may outlive it for a moment, so
    /// its cgroup is among these.
    pub(super) fn remove(&mut self, cgroup: &RequestCgroup) {
        self.left.push(cgroup.name().to_owned());
        let requests = &self.requests;
        self.left.retain(|name| !matches!(requests.remove(name), Ok(()) | Err(Errno::ENOENT)));
        let place = &self.place.directory;
        self.others.retain(|name| !stale::is_gone(place, name, 1));
    }

    /// Runs `child` in a new process in a cgroup.
    pub(super) fn fork(
        &self,
        cgroup: &RequestCgroup,
        birth: Birth<'_>,
        child: impl FnOnce() -> i32,
    ) -> io::Result<Pid> {
        if self.starts_inside {
            let birth = Birth { cgroup: Some(cgroup.directory()), ..birth };
            return self.fork.fork_at(birth, child);
        }
        let child = || if cgroup.enter().is_ok() { child() } else { NOT_ENTERED };
        self.fork.fork_at(birth, child)
    }

    /// Tests whether the kernel can start a process in another cgroup. The
    /// seccomp profile of a container may deny it.
    fn try_start(&mut self) -> bool {
        let Ok(cgroup) = self.create(0, RequestLimits::default()) else { return false };
        let birth = Birth { cgroup: Some(cgroup.directory()), ..Birth::PLAIN };
        let child = self.fork.fork_at(birth, || 0);
        let ended = child.and_then(|child| Ok(nix::sys::wait::waitpid(child, None)?));
        self.remove(&cgroup);
        ended.is_ok()
    }
}

/// Exit code of a worker that could not enter its cgroup.
const NOT_ENTERED: i32 = 125;

impl Drop for Cgroups {
    /// Removes everything that this spawner created.
    fn drop(&mut self) {
        stale::empty(&self.requests, stale::ATTEMPTS);
        // Fails if a process could not be killed; the next start tries again.
        let _ = self.place.directory.remove(&self.name);
        restore(&self.place, self.is_first);
    }
}

fn check_controllers(place: &Place) -> Result<(), NoCgroups> {
    let failed = |error| NoCgroups::Step { step: "read the controllers of the cgroup", error };
    let text = place.directory.read("cgroup.controllers").map_err(failed)?;
    let is_missing = |name: &&str| !text.split_whitespace().any(|had| had == *name);
    let missing: Vec<_> = CONTROLLERS.into_iter().filter(is_missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(NoCgroups::Controllers { path: place.path.clone(), missing })
}

/// Moves processes into the cgroup of the supervisor and enables the controllers,
/// which is possible only if no process is left outside.
fn gather(place: &Place, supervisor: Pid) -> Result<(), NoCgroups> {
    let failed = |error| NoCgroups::Step { step: "move processes to another cgroup", error };
    let inner = place.directory.below(SUPERVISOR_CGROUP).map_err(|error| failed(error.into()))?;
    let mut attempts = 0;
    loop {
        for process in [supervisor, getpid()] {
            inner.write("cgroup.procs", &process.to_string()).map_err(failed)?;
        }
        let others = place.directory.processes().map_err(failed)?;
        if place.is_container {
            for process in others {
                // It may have ended meanwhile.
                let _ = inner.write("cgroup.procs", &process.to_string());
            }
        }
        match place.directory.write("cgroup.subtree_control", ENABLE) {
            Ok(()) => return Ok(()),
            Err(error) if error.raw_os_error() == Some(Errno::EBUSY as i32) => {}
            Err(error) => return Err(failed(error)),
        }
        attempts += 1;
        if !place.is_container || attempts == MOVES {
            return Err(NoCgroups::Shared(place.path.clone()));
        }
        thread::sleep(MOVE_PAUSE);
    }
}

/// Creates and locks the cgroup that holds those of requests.
fn requests(place: &Place) -> Result<(String, Directory), NoCgroups> {
    let failed = |error| NoCgroups::Step { step: "create a cgroup for requests", error };
    let name = format!("{REQUESTS}{:08x}", rand::rng().random::<u32>());
    let make = || -> io::Result<_> {
        place.directory.make(&name, Mode::S_IRWXU)?;
        let directory = place.directory.below(name.as_str())?;
        directory.write("cgroup.subtree_control", ENABLE)?;
        directory.write("cpu.weight", REQUESTS_WEIGHT)?;
        directory.lock()?;
        Ok(directory)
    };
    match make() {
        Ok(requests) => Ok((name, requests)),
        Err(error) => {
            let _ = place.directory.remove(&name);
            Err(failed(error))
        }
    }
}

/// Moves processes back, unless another supervisor still has requests.
fn restore(place: &Place, is_first: bool) {
    if !is_first || place.directory.write("cgroup.subtree_control", DISABLE).is_err() {
        return;
    }
    if let Ok(inner) = place.directory.below(SUPERVISOR_CGROUP) {
        for process in inner.processes().unwrap_or_default() {
            // It may have ended meanwhile.
            let _ = place.directory.write("cgroup.procs", &process.to_string());
        }
    }
    let _ = place.directory.remove(SUPERVISOR_CGROUP);
}
