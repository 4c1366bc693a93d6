//! The only process with privileges.
//!
//! It forks workers under leased UIDs, kills their processes, and removes their
//! files. It has one thread, an empty environment and a state machine for each
//! slot. It never reads a byte that a tenant wrote. When the supervisor ends,
//! the spawner releases all leases and ends too.

mod abandoned;
mod backoff;
mod caches;
mod census;
mod cgroup;
mod claims;
mod clean;
mod cleaner;
mod demote;
mod descendants;
mod duty;
mod employment;
mod end_duty;
mod end_report;
mod kill;
mod leases;
mod leftovers;
mod meter;
mod needed;
mod not_prepared;
mod pressure;
mod priority;
mod process_check;
mod refusals;
mod release;
mod reserve;
mod rise;
mod root;
mod schedule;
mod setup;
mod slot;
mod tally;
mod turns;
mod uid_pool;
mod victim;

use std::{
    io, iter,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
        stat::{Mode, umask},
    },
    unistd::{chdir, setsid},
};

pub use self::{
    abandoned::PRIVATE,
    caches::CACHES,
    cgroup::SUPERVISOR_CGROUP,
    root::{HOME_PATH, WORKSPACES},
    uid_pool::most_leases,
};
use self::{leases::Leases, not_prepared::NotPrepared};
pub(crate) use self::{
    root::FRAME,
    setup::{home_contents, path_rules, policy},
};
use crate::{
    kernel::{
        fork::{self, SingleThreaded},
        limits::ProcessLimits,
    },
    wire::{
        channel,
        message::{Order, OrderKind, SetupOrder, SpawnerEvent, SpawnerReport},
        transient::persist,
    },
    worker::Channels,
};

/// Longest time after the supervisor has ended for commands that got SIGTERM before.
const LAST_GRACE: Duration = Duration::from_secs(4);

/// Longest time to release all leases after that. A process that is left then does not
/// react to SIGKILL.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// Most orders in a row without upkeep: a few requests' at once.
const MOST_ORDERS: u32 = 16;

/// Longest sleep; only because poll(2) takes a timeout.
const LONGEST_SLEEP: Duration = Duration::from_hours(1);

/// Entry point of the spawner's process; see [`crate::Spawner::start`].
pub fn spawner_main() -> io::Result<()> {
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    let nothing = std::fs::File::open("/dev/null")?;
    nix::unistd::dup2_stdin(nothing)?;
    run(control)
}

/// Runs the spawner until the supervisor closes the other end of `control`.
pub(super) fn run(control: OwnedFd) -> io::Result<()> {
    let begun = begin();
    let received = persist(|| channel::receive::<Order>(&control));
    let received = received.map_err(cannot("receive the setup"))?;
    let Some((order, _)) = received else { return Ok(()) };
    let Some(OrderKind::Setup(setup)) = order.what else {
        return Err(io::Error::other("the first order must be the setup"));
    };
    let prepared = begun.and_then(|(fork, signals)| Ok((signals, prepare(fork, &setup)?)));
    match prepared {
        Ok((signals, leases)) => EventLoop { control, signals, leases }.serve(),
        Err(error) => {
            let report = SpawnerReport::from(SpawnerEvent::NotReady(error.tell()));
            persist(|| channel::send(&control, &report, &[]))
                .map_err(cannot("report to the supervisor"))
        }
    }
}

/// Errors are kept until the setup has been read: closing the socket before that
/// would discard the report.
fn begin() -> Result<(SingleThreaded, SignalFd), NotPrepared> {
    let fork = SingleThreaded::check().map_err(NotPrepared::Threads)?;
    let step = "leave the session of the supervisor";
    let watched = detach().map_err(|error| NotPrepared::Step { step, error })?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let signals = SignalFd::with_flags(&watched, flags).map_err(|errno| {
        let error = errno.into();
        NotPrepared::Call { name: "signalfd4", since: "2.6.27", error }
    })?;
    know_processor();
    Ok((fork, signals))
}

/// Asks for the features of the processor once. Workers decompress with them, and each
/// would ask again, which takes a virtual machine 50 µs: every question goes to its
/// hypervisor.
fn know_processor() {
    #[cfg(target_arch = "x86_64")]
    let _ = std::arch::is_x86_feature_detected!("avx2");
}

/// Resets everything that was inherited from the supervisor's parent. Returns the signals to
/// read from a descriptor.
fn detach() -> io::Result<SigSet> {
    fork::default_actions();
    // Workers unpack archives, even before their commands have a limit of their own.
    fork::ignore_large_files();
    umask(Mode::S_IWGRP | Mode::S_IWOTH);
    // A new session: ^C in a terminal reaches only the supervisor, which then
    // releases the leases in order. EPERM means that this process leads a
    // session already.
    match setsid() {
        Ok(_) | Err(Errno::EPERM) => {}
        Err(error) => return Err(error.into()),
    }
    chdir("/")?;
    prctl::set_child_subreaper(true)?;
    prctl::set_no_new_privs()?;
    prctl::set_dumpable(false)?;
    // All workers inherit these limits.
    ProcessLimits::inherited().install()?;
    let mut watched = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        watched.add(signal);
    }
    watched.thread_block()?;
    Ok(watched)
}

fn prepare(fork: SingleThreaded, setup: &SetupOrder) -> Result<Leases, NotPrepared> {
    let prepared = setup::prepare(fork, setup)?;
    let mut leases = Leases::new(fork, prepared, setup.leases);
    leases.remove_stale()?;
    Ok(leases)
}

struct EventLoop {
    control: OwnedFd,
    signals: SignalFd,
    leases: Leases,
}

/// Things that have arrived.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    order: bool,
    signal: bool,
    /// A message of a child.
    message: bool,
}

impl EventLoop {
    /// Executes orders until the supervisor closes its end.
    fn serve(mut self) -> io::Result<()> {
        let served = self.serve_orders();
        self.end_all()?;
        match served {
            // A connection that closes mid-message counts as closed.
            Err(error) if channel::is_closed(&error) => Ok(()),
            served => served,
        }
    }

    fn serve_orders(&mut self) -> io::Result<()> {
        self.report(SpawnerEvent::Ready(self.leases.ready()))?;
        // Orders since the last upkeep.
        let mut orders = 0;
        loop {
            let sleep = if orders == 0 { LONGEST_SLEEP } else { Duration::ZERO };
            let ready = self.wait(Instant::now() + sleep, PollFlags::POLLIN)?;
            self.handle_signals(ready)?;
            // A request waits for the end of its command, and nobody for the upkeep.
            self.send_reports()?;
            if ready.order {
                if !self.handle_order()? {
                    return Ok(());
                }
                self.send_reports()?;
                orders += 1;
                if orders < MOST_ORDERS {
                    continue;
                }
            }
            orders = 0;
            self.leases.advance(Instant::now());
            self.send_reports()?;
        }
    }

    /// The supervisor has ended, so its requests end too.
    fn end_all(&mut self) -> io::Result<()> {
        let last = Instant::now() + LAST_GRACE;
        let until = last + RELEASE_TIMEOUT;
        self.leases.release_all(last);
        while self.leases.any_releasing() && Instant::now() < until {
            let ready = self.wait(until, PollFlags::empty())?;
            self.handle_signals(ready)?;
            self.leases.advance(Instant::now());
        }
        Ok(())
    }

    /// Sleeps until an order, a signal or a child's message arrives or something is due.
    fn wait(&self, until: Instant, orders: PollFlags) -> io::Result<Arrived> {
        let until = self.leases.due().map_or(until, |due| due.min(until));
        let sleep = until.saturating_duration_since(Instant::now());
        // Rounded up: a wake-up too early would repeat itself.
        let millis = sleep.as_nanos().div_ceil(1_000_000);
        let timeout = PollTimeout::try_from(i32::try_from(millis).unwrap_or(i32::MAX))
            .unwrap_or(PollTimeout::MAX);
        // Without a supervisor, its end would be told again and again.
        let control = (!orders.is_empty()).then(|| PollFd::new(self.control.as_fd(), orders));
        let others = iter::once(self.signals.as_fd()).chain(self.leases.sockets());
        let others = others.map(|socket| PollFd::new(socket, PollFlags::POLLIN));
        let mut watched: Vec<_> = control.into_iter().chain(others).collect();
        persist(|| match poll(&mut watched, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        })
        .map_err(cannot("wait for orders"))?;
        let mut any = watched.iter().map(|watched| watched.any().unwrap_or(true));
        let order = !orders.is_empty() && any.next().unwrap_or(true);
        let signal = any.next().unwrap_or(true);
        Ok(Arrived { order, signal, message: any.any(|any| any) })
    }

    /// Collects children that ended or stopped, and the messages of others.
    fn handle_signals(&mut self, Arrived { signal, message, .. }: Arrived) -> io::Result<()> {
        if signal {
            // The content of a signal does not matter: one may stand for many
            // children.
            let read = || Ok(self.signals.read_signal()?);
            while read().map_err(cannot("read a signal"))?.is_some() {}
            for reaped in fork::reap_some() {
                self.leases.reaped(reaped);
            }
            self.leases.kill_strangers();
            self.leases.resume_stopped();
        }
        if signal || message {
            self.leases.hear();
        }
        Ok(())
    }

    /// Executes one order. Returns false if there are no more.
    fn handle_order(&mut self) -> io::Result<bool> {
        let received = persist(|| channel::receive::<Order>(&self.control));
        let received = received.map_err(cannot("receive an order"))?;
        let Some((order, descriptors)) = received else { return Ok(false) };
        match order.what {
            Some(OrderKind::Lease(order)) => self.leases.lease(order, channels(descriptors)),
            Some(OrderKind::Start(order)) => self.leases.start(order, channels(descriptors)),
            Some(OrderKind::Watch(lease)) => self.leases.watch(lease),
            Some(OrderKind::Stop(lease)) => self.leases.stop(lease),
            Some(OrderKind::Beat(number)) => {
                self.report(SpawnerEvent::Beat(number))?;
                if let Some(orphans) = self.leases.new_orphans() {
                    self.report(SpawnerEvent::Orphans(orphans))?;
                }
            }
            Some(OrderKind::Release(order)) => {
                let grace = Duration::from_millis(order.grace_ms.into());
                self.leases.release(order.lease, grace, order.is_cut_off);
            }
            Some(OrderKind::LimitTotal(limits)) => self.leases.limit_total(limits),
            Some(OrderKind::Setup(_)) | None => {}
        }
        Ok(true)
    }

    fn send_reports(&mut self) -> io::Result<()> {
        for event in self.leases.take_reports() {
            self.report(event)?;
        }
        Ok(())
    }

    fn report(&self, event: SpawnerEvent) -> io::Result<()> {
        let report = SpawnerReport::from(event);
        persist(|| channel::send(&self.control, &report, &[]))
            .map_err(cannot("report to the supervisor"))
    }
}

/// Adds the step to an error that ends the spawner. Its kind stays, because the end of the
/// supervisor is told by it.
fn cannot(step: &'static str) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("the spawner ended: cannot {step}: {error}"))
}

/// The worker's descriptors; `None` if the kernel dropped them.
fn channels(descriptors: Vec<OwnedFd>) -> Option<Channels> {
    Channels::of(descriptors.into_iter())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_second_thread_is_reported_instead_of_forking() {
        let (control, theirs) = channel::packet_pair().unwrap();
        let order = Order::from(OrderKind::Setup(SetupOrder::default()));
        channel::send(&control, &order, &[]).unwrap();
        thread::spawn(move || run(theirs)).join().unwrap().unwrap();
        let (report, _) = channel::receive::<SpawnerReport>(&control).unwrap().unwrap();
        let Some(SpawnerEvent::NotReady(unfit)) = report.event else { panic!("{report:?}") };
        assert!(unfit.reason.contains("must have one thread: found"), "{}", unfit.reason);
    }
}
