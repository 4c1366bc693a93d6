//! The refusals of a command, each told once.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use nix::{errno::Errno, libc, unistd::Pid};

use super::{
    address::Address,
    calls::{Access, Call},
    registers::Registers,
    tracee::Tracee,
    used::Used,
};
use crate::{
    kernel::policy::{KERNEL, Policy, mount_points},
    wire::{
        plan::Answer,
        refusal::{Attempt, KernelLimit, MAX_REFUSALS, News, NewsKind, Refusal, Totals},
        tier::Tier,
    },
    worker::{Job, WorkerContext},
};

/// Errors of a refused access.
const REFUSED: [Errno; 3] = [Errno::EACCES, Errno::EPERM, Errno::EROFS];

/// Most names of programs that are remembered.
const MAX_PROGRAMS: usize = 256;

/// The paths that a missing file may have been hidden at.
#[derive(Debug)]
pub(in crate::worker) struct Sights {
    workspace: PathBuf,
    /// `None` if the sandbox hides nothing.
    hiding: Option<Hiding>,
}

/// A root that shows only a part of the image.
#[derive(Debug)]
struct Hiding {
    shown: Vec<PathBuf>,
    mounts: BTreeSet<PathBuf>,
}

impl Sights {
    pub(super) fn new(job: &Job<'_>, context: &WorkerContext<'_>) -> Self {
        let shown = context.policy.into_iter().flat_map(Policy::image).map(Path::to_owned);
        let hiding = (context.tier == Tier::Namespaces).then(|| Hiding {
            shown: shown.collect(),
            // Without them, files that a mask hides are not reported.
            mounts: mount_points().unwrap_or_default(),
        });
        Self { workspace: job.tenant.workspace.clone(), hiding }
    }

    /// True if a refused path is the request's own, or if a missing one is missing
    /// for everybody.
    fn hides_nothing_at(&self, path: &Path, access: Access, errno: Errno) -> bool {
        let is_own = self.is_own(path) && access != Access::Execute;
        is_own || errno == Errno::ENOENT && !self.may_hide(path)
    }

    fn is_own(&self, path: &Path) -> bool {
        path.starts_with(&self.workspace)
    }

    /// True if a missing file may exist outside of the sandbox.
    fn may_hide(&self, path: &Path) -> bool {
        let Some(Hiding { shown, mounts }) = &self.hiding else { return false };
        let is_in = |other: &PathBuf| path.starts_with(other);
        // Files missing in /proc are missing for everybody.
        !KERNEL.iter().any(|kernel| path.starts_with(kernel))
            && (!shown.iter().any(is_in) || mounts.iter().any(is_in))
    }
}

/// The refusals so far.
#[derive(Debug)]
pub(super) struct Notes {
    sights: Sights,
    known: Vec<Refusal>,
    /// Names of programs that were executed.
    found: BTreeSet<String>,
    /// Indexes of the refusals of each process.
    of_process: BTreeMap<Pid, BTreeSet<usize>>,
    used: Used,
    totals: Totals,
}

impl Notes {
    pub(super) fn new(sights: Sights) -> Self {
        let totals = Totals::default();
        let (known, found, of_process) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        let used = Used::new(&sights.workspace);
        Self { sights, known, found, of_process, used, totals }
    }

    /// Something is not observed or not kept.
    pub(super) fn lose(&mut self) {
        self.totals.lost += 1;
    }

    /// This many processes and threads exist. The request may be ended at any time, so
    /// the first ones are told at once.
    pub(super) fn counts(&mut self, tasks: usize, job: &mut Job<'_>) {
        let tasks = tasks as u64;
        if tasks > self.totals.processes {
            self.totals.processes = tasks;
            if tasks.is_power_of_two() {
                job.answer(news(NewsKind::Totals(Totals { lost: 0, ..self.totals })));
            }
        }
    }

    /// A process is about to execute a program, which may fail.
    pub(super) fn program(tracee: Tracee, call: Option<Call>) -> Option<String> {
        let Some(Call::Path { at, access: Access::Execute }) = call else { return None };
        tracee.path(at)?.rsplit('/').next().map(str::to_owned)
    }

    /// A program was executed.
    pub(super) fn found(&mut self, name: String, job: &mut Job<'_>) {
        let looks_for_it = |known: &Refusal| known.attempt.looks_for(&name);
        if self.found.len() >= MAX_PROGRAMS || self.found.contains(&name) {
            return;
        }
        if self.known.iter().any(looks_for_it) {
            job.answer(news(NewsKind::Found(name.clone())));
        }
        self.found.insert(name);
    }

    /// A call has ended.
    pub(super) fn ended(
        &mut self,
        tracee: Tracee,
        (call, end): (Call, Registers),
        job: &mut Job<'_>,
    ) {
        match end.error() {
            Some(errno) if REFUSED.contains(&errno) || errno == Errno::ENOENT => {
                self.refused(tracee, (call, errno), job);
            }
            Some(errno) if let Some(limit) = call.reached(errno) => {
                self.add(tracee, (Attempt::Limit(limit), errno), job);
            }
            // A connection that fails, or is not complete yet, needs its port too.
            _ => {
                if let Some(what) = self.used.by(tracee, call, end) {
                    job.answer(news(what));
                }
            }
        }
    }

    /// A process has used up its CPU time.
    pub(super) fn timed_out(&mut self, tracee: Tracee, job: &mut Job<'_>) {
        self.add(tracee, (Attempt::Limit(KernelLimit::Cpu), Errno::ETIME), job);
    }

    /// A call has failed.
    fn refused(&mut self, tracee: Tracee, (call, errno): (Call, Errno), job: &mut Job<'_>) {
        let Some(attempt) = self.attempt(tracee, call, errno) else { return };
        if self.found.iter().any(|name| attempt.looks_for(name)) {
            return;
        }
        self.add(tracee, (attempt, errno), job);
    }

    fn add(&mut self, tracee: Tracee, (attempt, errno): (Attempt, Errno), job: &mut Job<'_>) {
        let process = tracee.process();
        let known = self.known.iter().position(|known| known.attempt == attempt);
        let index = known.unwrap_or(self.known.len());
        if known.is_none() {
            if self.known.len() >= MAX_REFUSALS {
                return self.lose();
            }
            let program = Tracee::program(process);
            let refusal = Refusal { attempt, errno: errno as i32, program, has_failed: false };
            tell(&refusal, job);
            self.known.push(refusal);
        }
        self.of_process.entry(process).or_default().insert(index);
    }

    /// A process has ended well. Another one may get its number.
    pub(super) fn succeeded(&mut self, process: Pid) {
        self.of_process.remove(&process);
    }

    /// A process has ended with an error.
    pub(super) fn failed(&mut self, process: Pid, job: &mut Job<'_>) {
        for index in self.of_process.remove(&process).unwrap_or_default() {
            let found = &self.found;
            let matters = |known: &&mut Refusal| {
                !known.has_failed && !found.iter().any(|name| known.attempt.looks_for(name))
            };
            if let Some(refusal) = self.known.get_mut(index).filter(matters) {
                refusal.has_failed = true;
                tell(refusal, job);
            }
        }
    }

    /// The command has ended, if it ever began.
    pub(super) fn end(&self, job: &mut Job<'_>) {
        if self.totals.processes == 0 {
            return;
        }
        job.answer(news(NewsKind::Totals(self.totals)));
    }

    fn attempt(&self, tracee: Tracee, call: Call, errno: Errno) -> Option<Attempt> {
        if let Call::Path { at, access } = call
            && (REFUSED.contains(&errno) || self.is_absence(access, errno))
        {
            let path = tracee.path(at)?;
            let is_told = !self.sights.hides_nothing_at(Path::new(&path), access, errno);
            return is_told.then(|| access.of(path));
        }
        if !REFUSED.contains(&errno) {
            return None;
        }
        match call {
            Call::Path { .. } | Call::Limited(_) => None,
            Call::Connect { address, length, .. } => {
                Some(match Address::read(tracee, address, length)? {
                    Address::Port(port) => Attempt::Connect(port),
                    Address::File(path) => Attempt::SocketFile(path),
                })
            }
            Call::Bind { address, length } => match Address::read(tracee, address, length)? {
                Address::Port(port) => Some(Attempt::Listen(port)),
                Address::File(path) => {
                    let is_own = self.sights.is_own(Path::new(&path));
                    (!is_own).then_some(Attempt::SocketFile(path))
                }
            },
            Call::Socket { family: libc::AF_INET | libc::AF_INET6, .. } => Some(Attempt::Internet),
            Call::Socket { family, .. } => (family == libc::AF_UNIX).then_some(Attempt::UnixSocket),
        }
    }

    /// Missing files are looked at only where the sandbox hides some: programs look for
    /// many files in vain.
    fn is_absence(&self, access: Access, errno: Errno) -> bool {
        errno == Errno::ENOENT && access != Access::Write && self.sights.hiding.is_some()
    }
}

impl Access {
    fn of(self, path: String) -> Attempt {
        match self {
            Self::Read => Attempt::Read(path),
            Self::Write => Attempt::Write(path),
            Self::Execute => Attempt::Execute(path),
        }
    }
}

fn tell(refusal: &Refusal, job: &mut Job<'_>) {
    job.answer(news(NewsKind::Refused(refusal.into())));
}

fn news(what: NewsKind) -> Answer {
    Answer::Observed(News { what: Some(what) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_sandbox_may_hide_is_a_missing_file() {
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        let hiding = |hiding| Sights { workspace: "/work/1".into(), hiding };
        let shown = paths(&["/usr", "/etc"]);
        let mounts = paths(&["/etc/secret", "/proc"]).into_iter().collect();
        let sights = hiding(Some(Hiding { shown, mounts }));
        let hidden = ["/keys/a", "/etc/secret/a"].map(|path| sights.may_hide(Path::new(path)));
        assert_eq!(hidden, [true; 2]);
        let missing = ["/usr/bin/x", "/etc/x", "/proc/1/x"];
        assert_eq!(missing.map(|path| sights.may_hide(Path::new(path))), [false; 3]);
        assert!(!hiding(None).may_hide(Path::new("/keys/a")));
    }
}
