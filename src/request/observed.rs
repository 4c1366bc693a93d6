//! The observations of a request's commands, with advice.

use std::collections::BTreeSet;

use cmp_sandbox::{Attempt, Bounds, KernelLimit, Output, Refusal};

use super::hint::{Advice, Reach, exceeded, reached};
use crate::{metrics::Phase, plugin::Limits};

/// The program that exceeds a limit of the whole request.
const REQUEST: &str = "its processes";

/// The observations of one command.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The phase of the command.
    pub phase: Phase,
    /// The accesses that the sandbox refused.
    pub sightings: Vec<Sighting>,
    /// Most processes and threads at a time.
    pub processes: u64,
    /// TCP ports that it connected to.
    pub ports: BTreeSet<u16>,
    /// It created internet sockets.
    pub is_online: bool,
    /// Variables of tools for the caches that it filled in its HOME.
    pub caches: BTreeSet<String>,
    /// Bytes of its standard output.
    pub output: u64,
    /// Refusals and processes that were not observed.
    pub lost: u64,
}

/// A refused access.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// The access and the kernel's reason, in words.
    pub what: String,
    /// The program that tried.
    pub program: String,
    /// The remedy.
    pub advice: Advice,
    /// The process that tried has failed.
    pub has_failed: bool,
}

impl Observation {
    /// Explains what was observed; `None` if nothing was.
    pub(super) fn new(
        phase: Phase,
        output: &Output,
        (reach, bounds, limits): (&Reach, &Bounds, &Limits),
    ) -> Option<Self> {
        let observed = &output.observed;
        if observed.processes == 0 && observed.refusals.is_empty() {
            return None;
        }
        let sighting = |refusal: &Refusal| {
            let advice = if let Attempt::Limit(limit) = refusal.attempt {
                reached(limit, bounds, limits)?
            } else {
                reach.advise(bounds, refusal)?
            };
            let (program, has_failed) = (refusal.program.clone(), refusal.has_failed);
            Some(Sighting { what: words(refusal), program, advice, has_failed })
        };
        let exceeded = exceeded(output.termination, limits).map(|(what, advice)| Sighting {
            what: what.to_owned(),
            program: REQUEST.to_owned(),
            advice,
            has_failed: true,
        });
        let refused = observed.refusals.iter().filter_map(sighting);
        Some(Self {
            phase,
            sightings: refused.chain(exceeded).collect(),
            processes: observed.processes,
            ports: observed.ports.clone(),
            is_online: observed.is_online,
            caches: observed.caches.clone(),
            output: output.stdout.len() as u64,
            lost: observed.lost,
        })
    }
}

fn words(refusal: &Refusal) -> String {
    let what = match &refusal.attempt {
        Attempt::Read(path) => format!("read {path}"),
        Attempt::Write(path) => format!("write {path}"),
        Attempt::Execute(path) => format!("execute {path}"),
        Attempt::Connect(port) => format!("connect to TCP port {port}"),
        Attempt::Listen(port) => format!("listen on TCP port {port}"),
        Attempt::SocketFile(path) => format!("use the socket {path}"),
        Attempt::Internet => "create a socket for the internet".to_owned(),
        Attempt::UnixSocket => "create a Unix socket".to_owned(),
        Attempt::Limit(KernelLimit::Processes) => "create a process or thread".to_owned(),
        Attempt::Limit(KernelLimit::Memory) => "allocate memory".to_owned(),
        Attempt::Limit(KernelLimit::FileSize) => "make a file longer".to_owned(),
        Attempt::Limit(KernelLimit::Cpu) => "use more CPU time".to_owned(),
    };
    format!("{what}: {}", cmp_go::errno_text(refusal.errno))
}
