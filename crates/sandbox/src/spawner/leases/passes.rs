//! The times of passes over all processes, and the child that makes them.

use std::{
    collections::BTreeSet,
    fs,
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use nix::unistd::{Pid, SysconfVar, sysconf};

use super::Leases;
use crate::spawner::{
    census::{Ask, Census, Equipment, Survey, Volume},
    refusals::Refusals,
    victim,
};

/// Time between two passes while requests use CPU time, and while none does.
const BUSY: Duration = Duration::from_millis(50);
const IDLE: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(1);

/// The time between two passes is at least this many times as long as the CPU
/// time of a pass, so passes take at most a twentieth or a hundredth of a core.
const BUSY_COST: u32 = 20;
const IDLE_COST: u32 = 100;

/// Time between two questions about sockets, unless requests have many descriptors.
const SOCKETS: Duration = Duration::from_millis(100);

/// The first and the last local port of the Pod.
const PORT_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// File with the number of descriptors that all processes of a UID may watch with epoll.
const MAX_WATCHES: &str = "/proc/sys/fs/epoll/max_user_watches";

/// Ticks in a second, if the kernel does not tell.
const TICKS: u32 = 100;

/// The state of passes.
#[derive(Debug)]
pub(super) struct Passes {
    census: Option<Census>,
    next: Option<Instant>,
    last: Option<Instant>,
    sockets: Option<Instant>,
    was_busy: bool,
    volume: Option<Volume>,
    tick: Duration,
    /// Processes that the kernel has refused.
    pub(super) refusals: Refusals,
    /// Local ports that all requests together may have.
    pub(super) ports: u64,
    /// Descriptors that one request may watch with epoll, if all have one UID; `None` if the
    /// kernel has no limit.
    pub(super) watches: Option<u64>,
}

impl Passes {
    pub(super) fn new() -> Self {
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten();
        let ticks = ticks.and_then(|ticks| u32::try_from(ticks).ok()).filter(|ticks| *ticks > 0);
        Self {
            census: None,
            next: None,
            last: None,
            sockets: None,
            was_busy: false,
            volume: None,
            tick: Duration::from_secs(1) / ticks.unwrap_or(TICKS),
            refusals: Refusals::default(),
            ports: victim::port_limit(&fs::read_to_string(PORT_RANGE).unwrap_or_default()),
            watches: fs::read_to_string(MAX_WATCHES)
                .ok()
                .and_then(|most| victim::watch_limit(&most)),
        }
    }

    /// Makes a pass soon, because a command begins.
    pub(super) fn begin(&mut self, now: Instant) {
        let soon = now + BUSY;
        self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
        self.last = self.last.or(Some(now));
    }

    /// Makes a pass now that includes sockets. If one is running, it is the only one.
    pub(super) fn hurry(&mut self, now: Instant) {
        if self.next.is_some() {
            (self.next, self.sockets) = (Some(now), None);
            self.was_busy = true;
        }
    }

    /// A request got no process: a pass tells who has them. Without requests to watch, there
    /// is none.
    pub(super) fn refused(&mut self, now: Instant) {
        if self.next.is_some() {
            self.refusals.request();
            self.hurry(now);
        }
    }

    /// Unit of CPU time.
    pub(super) fn tick(&self) -> Duration {
        self.tick
    }

    /// Time since the last pass.
    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last))
    }

    /// Growth of the work volume since the last pass.
    pub(super) fn volume_since(&self, survey: &Survey) -> Volume {
        let before = self.volume.filter(|_| survey.is_complete).unwrap_or(survey.volume);
        Volume {
            bytes: survey.volume.bytes.saturating_sub(before.bytes),
            inodes: survey.volume.inodes.saturating_sub(before.inodes),
        }
    }

    /// Sets the time of the next pass. `is_busy` is `None` if there is nothing
    /// to watch.
    pub(super) fn end(&mut self, survey: &Survey, is_busy: Option<bool>, now: Instant) {
        if survey.is_complete {
            self.volume = is_busy.map(|_| survey.volume);
        }
        self.last = is_busy.map(|_| now);
        self.was_busy = is_busy.unwrap_or_default();
        let pause = if self.was_busy {
            BUSY.max(survey.cost * BUSY_COST)
        } else {
            IDLE.max(survey.cost * IDLE_COST)
        };
        self.next = is_busy.map(|_| now + pause.min(LONGEST));
        if is_busy.is_none() {
            self.refusals = Refusals::default();
        }
    }

    /// Time of the next pass.
    pub(super) fn due(&self) -> Option<Instant> {
        let asked = self.census.as_ref().and_then(Census::patience);
        asked.or(self.next)
    }
}

impl Leases {
    /// The socket on which results of passes arrive.
    pub(super) fn census_socket(&self) -> Option<BorrowedFd<'_>> {
        self.passes.census.as_ref().map(Census::socket)
    }

    /// Returns true if this is the process that makes passes.
    pub(super) fn is_census(&self, pid: Pid) -> bool {
        self.passes.census.as_ref().is_some_and(|census| census.pid() == pid)
    }

    /// Uses a result that has arrived, and orders a pass if one is due.
    pub(super) fn pass_if_due(&mut self, now: Instant) {
        self.receive(now);
        if self.passes.due().is_none_or(|due| due > now) {
            return;
        }
        if let Some(census) = self.passes.census.as_mut().filter(|census| census.is_asked()) {
            // The machine is busy.
            census.wait(now);
            return self.surveyed(&Survey::default(), now);
        }
        if self.passes.census.is_none() {
            self.start_census();
        }
        let is_asked = self.passes.sockets.is_some_and(|asked| now < asked + SOCKETS);
        // The first pass with sockets tells what an earlier request has left to the UID.
        let is_new =
            self.prepared.uids.is_some() && self.active().any(|lease| !lease.tally.knows_sockets());
        let ask = Ask { sockets: (self.passes.was_busy || is_new) && !is_asked };
        if ask.sockets {
            self.passes.sockets = Some(now);
        }
        self.passes.refusals.pass_begins();
        let asked = self.passes.census.as_mut().map(|census| census.ask(ask, now));
        self.pressure.restart(now);
        if !matches!(asked, Some(Ok(()))) {
            self.passes.census = None;
            self.surveyed(&Survey::default(), now);
        }
    }

    fn receive(&mut self, now: Instant) {
        let Some(census) = &mut self.passes.census else { return };
        match census.receive() {
            Ok(None) => {}
            Ok(Some(survey)) => self.surveyed(&survey, now),
            Err(_ended) => {
                self.passes.census = None;
                self.surveyed(&Survey::default(), now);
            }
        }
    }

    /// Starts the child that makes passes.
    pub(super) fn start_census(&mut self) {
        let prepared = &self.prepared;
        let tenants = |pool: &crate::spawner::uid_pool::UidPool| {
            pool.pairs.iter().map(|pair| pair.tenant.as_raw()).collect::<BTreeSet<_>>()
        };
        let equipment = Equipment {
            user: prepared.census_user,
            tenants: prepared.uids.as_ref().map(tenants),
            root: prepared.root.directory.as_fd(),
            diagnostics: prepared.diagnostics.as_ref().ok().map(AsFd::as_fd),
            spawner: Pid::this(),
            ports: self.passes.ports,
        };
        self.passes.census = Census::start(self.fork, &equipment).ok();
    }
}
