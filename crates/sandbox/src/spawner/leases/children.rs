//! The spawner's children: their purposes, messages and ends.

use std::{
    os::fd::{BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use nix::{
    sys::{
        signal::{self, Signal},
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::Pid,
};

use super::Leases;
use crate::{
    kernel::fork::Reaped,
    spawner::{
        clean,
        end_report::{EndReport, EnderSocket},
        turns::Ended,
    },
    wire::{
        message::{SpawnerEvent, WorkerEnd, WorkerEnded},
        plan::Exited,
        tier::Tier,
    },
    worker::{lacked_process, told_by_init},
};

/// Purpose of a child.
#[derive(Debug)]
pub(super) enum ChildRole {
    Worker {
        slot: usize,
        job: u64,
    },
    /// Kills all processes of a slot's tenant between two commands.
    Sweeper {
        slot: usize,
    },
    /// Sends SIGTERM to all processes of a slot's tenant, and waits until they
    /// end, at most for the grace.
    Stopper {
        slot: usize,
        grace: Duration,
    },
    /// Ends a lease, or removes a directory of an earlier spawner.
    Ender {
        ended: Ended,
        socket: EnderSocket,
        /// Its last message: what is left.
        left: Option<EndReport>,
    },
    Meter(RunningMeter),
    /// Lowers the priority of a slot's tenant.
    Demoter {
        slot: usize,
    },
}

/// A meter that is running, and the pipe of its result.
#[derive(Debug)]
pub(super) struct RunningMeter {
    pub(super) slot: usize,
    pub(super) lease: u64,
    pub(super) began: Instant,
    pub(super) result: OwnedFd,
}

/// Number of ended orphans since the start.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    all: u64,
    /// The number that was reported last.
    reported: u64,
    /// A guard may have left processes.
    may_be_strangers: bool,
}

impl Leases {
    /// The number of orphans since the start, if it has changed.
    pub(in crate::spawner) fn new_orphans(&mut self) -> Option<u64> {
        let Orphans { all, reported, .. } = &mut self.orphans;
        (*reported != *all).then(|| {
            *reported = *all;
            *all
        })
    }

    /// Handles a child that has ended.
    pub(in crate::spawner) fn reaped(&mut self, reaped: Reaped) {
        let now = Instant::now();
        match self.children.remove(&reaped.pid) {
            Some(ChildRole::Worker { slot, job }) => {
                self.orphans.may_be_strangers = true;
                self.worker_ended(slot, job, reaped);
            }
            Some(ChildRole::Sweeper { slot }) => {
                if reaped.status != 0 {
                    let why = "leftover processes of an earlier command cannot be killed";
                    self.refuse_pending(slot, why);
                }
                self.swept(slot);
            }
            Some(ChildRole::Stopper { slot, grace }) if !grace.is_zero() => {
                self.stopped_gently(slot, now);
            }
            Some(ChildRole::Ender { ended, mut socket, left }) => {
                self.turns.end(ended);
                let left = std::iter::from_fn(|| socket.receive()).last().or(left);
                self.ended(ended, clean::found(reaped.status), left.as_ref());
            }
            Some(ChildRole::Meter(look)) => self.measured(&look, &reaped, now),
            // Without a grace, it did not wait for the processes.
            Some(ChildRole::Stopper { .. } | ChildRole::Demoter { .. }) => {}
            None if self.reserve.remove(reaped.pid, now) => {}
            None if self.cleaner.is(reaped.pid) => {
                let unfinished = self.cleaner.ended();
                self.end_unfinished(unfinished);
            }
            None if self.is_census(reaped.pid) => {}
            // A tenant's orphan; the spawner adopted it as the nearest subreaper.
            None => {
                self.orphans.all += 1;
                self.orphans.may_be_strangers = true;
            }
        }
    }

    /// Kills the processes of a guard that was killed itself: the spawner adopts them, and
    /// nobody else would end them. Their own children are adopted next.
    pub(in crate::spawner) fn kill_strangers(&mut self) {
        let is_due = std::mem::take(&mut self.orphans.may_be_strangers);
        if !is_due || self.prepared.tier.has_own_uids() {
            return;
        }
        let list = self.prepared.children.as_ref().and_then(|list| list.read().ok());
        for pid in list.into_iter().flatten().filter(|pid| !self.has_created(*pid)) {
            // It stays a child until it is waited for, so the number is its own.
            let _ = signal::kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
        }
    }

    /// Lets children that were stopped continue: a stopped ender or killer would block its
    /// lease for ever. Workers are not asked for: tenants can stop and continue them and
    /// their orphans, which are children too, without a pause.
    pub(in crate::spawner) fn resume_stopped(&self) {
        let look = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
        let is_ours = |child: &ChildRole| !matches!(child, ChildRole::Worker { .. });
        for (pid, _) in self.children.iter().filter(|(_, child)| is_ours(child)) {
            if let Ok(WaitStatus::Stopped(..)) = waitid(Id::Pid(*pid), look) {
                // Allowed for every process of the same session.
                let _ = signal::kill(*pid, Signal::SIGCONT);
            }
        }
    }

    /// Connections of children that may send a message.
    pub(in crate::spawner) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let enders = self.children.values().filter_map(|child| match child {
            ChildRole::Ender { socket, .. } => socket.watched(),
            ChildRole::Worker { .. }
            | ChildRole::Sweeper { .. }
            | ChildRole::Stopper { .. }
            | ChildRole::Demoter { .. }
            | ChildRole::Meter(_) => None,
        });
        enders.chain(self.census_socket()).chain(self.cleaner.socket())
    }

    /// Handles the messages of children.
    pub(in crate::spawner) fn hear(&mut self) {
        let mut waiting = Vec::new();
        for child in self.children.values_mut() {
            let ChildRole::Ender { ended, socket, left } = child else { continue };
            match socket.receive() {
                Some(EndReport::Waiting) => waiting.push(*ended),
                Some(report @ (EndReport::Processes(_) | EndReport::Files(_))) => {
                    *left = Some(report);
                }
                None => {}
            }
        }
        self.hear_cleaner();
        for ended in waiting {
            let lease = match ended {
                Ended::Lease(slot) => self.slots.any_lease_mut(slot),
                Ended::Stale(_) => None,
            };
            match lease {
                // A worker that was just forked still has the spawner's UID and
                // could create files after the cleanup.
                Some(lease) if !lease.workers.is_empty() => lease.awaits_workers = true,
                Some(_) | None => self.turns.wait(ended),
            }
        }
        self.serve_turns();
    }

    /// Gives turns to processes that wait for them.
    pub(super) fn serve_turns(&mut self) {
        while let Some(next) = self.turns.next() {
            let is_next = |child: &&ChildRole| matches!(child, ChildRole::Ender { ended, .. } if *ended == next);
            if let Some(ChildRole::Ender { socket, .. }) = self.children.values().find(is_next) {
                // If it has ended, its end is handled soon.
                let _ = socket.give_turn();
            } else {
                self.turns.end(next);
            }
        }
    }

    fn worker_ended(&mut self, index: usize, job: u64, reaped: Reaped) {
        let has_init = self.prepared.tier == Tier::Namespaces;
        let status = if has_init { told_by_init(reaped.status) } else { reaped.status };
        if let Some(lease) = self.slots.any_lease_mut(index) {
            lease.workers.remove(&reaped.pid);
            if lease.workers.is_empty() && std::mem::take(&mut lease.awaits_workers) {
                self.turns.wait(Ended::Lease(index));
                self.serve_turns();
            }
        }
        // A worker with a UID of its own has no watcher: this would be its command's code.
        if self.prepared.tier != Tier::Uid && lacked_process(status) {
            self.passes.refused(Instant::now());
        }
        self.report_excess(index);
        self.wake_without_workers(index);
        self.start_waiting(index);
        let exited = Exited { status, used: reaped.into() };
        let end = Some(WorkerEnd::Exited(exited));
        self.reports.push(SpawnerEvent::WorkerEnded(WorkerEnded { job, end }));
    }
}
