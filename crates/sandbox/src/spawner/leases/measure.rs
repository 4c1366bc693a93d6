//! Measures the usage of requests while their commands run.
//!
//! A pass over all processes tells which requests have used CPU time. Only these
//! are then measured precisely, each by a child of its own.

use std::{
    io::pipe,
    os::fd::AsFd,
    time::{Instant, SystemTime},
};

use nix::unistd::Pid;

use super::{ChildRole, Leases, children::RunningMeter};
use crate::{
    kernel::{fork::Reaped, no_process},
    spawner::{
        census::{Row, Survey, is_socket_refused},
        cgroup::RequestCgroup,
        meter::{self, Earlier, MeterIdentity, Reading, Subject},
        schedule::{Pass, Schedule},
        slot::LeaseRecord,
        uid_pool::UidPair,
    },
    wire::{
        exceeded::{ExceededLimit, LimitExceeded},
        message::{RequestLimits, SpawnerEvent},
        tier::Tier,
        usage::{MAX_REPORTED, UsageReport},
    },
};

impl Leases {
    /// Measures a lease's usage regularly until the lease ends.
    pub(in crate::spawner) fn watch(&mut self, lease: u64) {
        let now = Instant::now();
        let slot = self.slots.find(lease);
        let lease = slot.and_then(|slot| self.slots.lease_mut(slot));
        if let Some(lease) = lease.filter(|lease| lease.schedule.is_none()) {
            lease.schedule = Some(Schedule::begin(now, lease.limits));
            self.passes.begin(now);
            self.pressure.begin(now);
        }
    }

    /// Uses the result of a pass.
    pub(super) fn surveyed(&mut self, survey: &Survey, now: Instant) {
        let elapsed = self.passes.elapsed(now);
        let has_grown = self.pressure.has_grown();
        let (tick, growth) = (self.passes.tick(), self.passes.volume_since(survey));
        let (has_files, container) = (self.total.volume_is_memory, self.pressure.used());
        let mut is_busy = false;
        let mut is_watching = false;
        for slot in 0..self.slots.len() {
            let key = self.slots.uids(slot).map(|pair| pair.tenant.as_raw());
            let Some(lease) = self.slots.working_mut(slot) else { continue };
            let LeaseRecord { schedule: Some(schedule), tally, workers, cgroup, .. } = lease else {
                continue;
            };
            is_watching = true;
            let row = match key {
                Some(user) => survey.rows.get(&user).copied(),
                None => sum(workers
                    .keys()
                    .filter_map(|pid| survey.rows.get(&pid.as_raw().unsigned_abs()))),
            };
            tally.within(container);
            let progress = if survey.is_complete {
                tally.surveyed(row.as_ref(), tick)
            } else {
                tally.unseen()
            };
            // Reading costs the kernel time, and without CPU time nothing changes.
            let has_news = progress.has_changed || !progress.cpu.is_zero();
            let counted = cgroup.as_mut().filter(|_| has_news).and_then(RequestCgroup::usage);
            let progress =
                counted.map_or(progress, |counted| tally.counted(counted, has_files, progress));
            tally.volume_grew(growth);
            tally.rise.add(survey.volume.bytes);
            is_busy |= progress.has_changed || !progress.cpu.is_zero();
            let is_near = has_grown || tally.is_near(&schedule.limits());
            let pass = Pass { now, progress, elapsed, is_near };
            let id = lease.id;
            let excess = schedule.passed(&pass).or_else(|| too_many(schedule, tally.processes()));
            match excess {
                Some(excess) => self.exceeded(id, excess),
                None => self.measure_if_due(slot, &pass),
            }
        }
        self.judge_crowd(survey, now);
        self.end_largest(now);
        if let Some(ports) = survey.ports {
            self.end_port_takers(ports);
        }
        self.lower_priorities(now);
        self.report_usage();
        self.passes.end(survey, is_watching.then_some(is_busy), now);
        if !is_watching {
            self.pressure.end();
        }
    }

    /// Starts a meter for a slot if it is due. Never two at once: the meter of
    /// the slot's previous lease may still run.
    fn measure_if_due(&mut self, slot: usize, pass: &Pass) {
        let is_running = |child: &ChildRole| matches!(child, ChildRole::Meter(meter_run) if meter_run.slot == slot);
        let is_busy = self.children.values().any(is_running);
        let earlier = self.earlier(slot);
        let pair = self.slots.uids(slot);
        let identity = pair.map(|UidPair { killer, tenant }| MeterIdentity { own: killer, tenant });
        let Some(lease) = self.slots.working_mut(slot) else { return };
        let Some(schedule) = lease.schedule.as_mut() else { return };
        let Some(limits) = schedule.take_due(pass) else { return };
        let watches = self.passes.watches.filter(|_| pair.is_none());
        let limits = RequestLimits { watches, ..limits };
        // The container may have no process or descriptor left. The pass still
        // counts processes.
        let Some((result, report)) = pipe().ok().filter(|_| !is_busy) else {
            return schedule.postpone(pass.now);
        };
        lease.tally.measuring();
        let workers: Vec<Pid> = lease.workers.keys().copied().collect();
        let subject = Subject {
            root: &self.prepared.root.directory,
            workspace: &lease.workspace,
            identity,
            workers: &workers,
            shared: lease.shared.as_ref(),
            since: lease.since,
            earlier,
            // A tenant must not read its observer, so nobody can.
            may_hide: self.prepared.tier == Tier::None || self.prepared.observes,
            has_own_mounts: self.prepared.tier == Tier::Namespaces,
            buffers: lease.tally.sockets(),
            has_hidden_sockets: self.prepared.diagnostics.as_ref().is_err_and(is_socket_refused),
            growth: lease.tally.rise.growth(),
        };
        let run = RunningMeter { slot, lease: lease.id, began: pass.now, result: result.into() };
        match self.fork.fork(|| meter::run(&subject, limits, report.as_fd())) {
            Ok(pid) => drop(self.children.insert(pid, ChildRole::Meter(run))),
            Err(error) => {
                schedule.postpone(pass.now);
                if no_process::is_limit(&error) {
                    self.passes.refusals.meter();
                }
            }
        }
    }

    /// The files of earlier requests in the caches of a slot's lease.
    fn earlier(&self, slot: usize) -> Earlier {
        let leases = || self.slots.iter().filter_map(|(_, slot)| Some((slot, slot.lease()?)));
        let own = self.slots.iter().nth(slot).and_then(|(_, slot)| slot.lease());
        let shared = own.and_then(|lease| lease.shared.as_ref());
        let has_same = |lease: &LeaseRecord| {
            let theirs = lease.shared.as_ref().map(|theirs| &theirs.directory);
            theirs == shared.map(|shared| &shared.directory)
        };
        let current = leases().filter(|(_, lease)| has_same(lease));
        let current = current.filter_map(|(slot, _)| Some(slot.uids?.tenant.as_raw())).collect();
        let since = own.map_or(SystemTime::UNIX_EPOCH, |lease| lease.since);
        let left = shared.and_then(|shared| self.prepared.caches.left(shared));
        Earlier { since: left.map_or(since, |left| left.max(since)), current }
    }

    /// Handles a meter that has ended.
    pub(super) fn measured(&mut self, meter_run: &RunningMeter, reaped: &Reaped, now: Instant) {
        let RunningMeter { slot, lease: id, began, result } = meter_run;
        let reading = Reading::receive(result);
        let cost = reaped.user + reaped.system;
        let lease = self.slots.working_mut(*slot).filter(|lease| lease.id == *id);
        let Some(LeaseRecord { schedule: Some(schedule), tally, .. }) = lease else { return };
        if let Some(gauge) = reading.gauge() {
            tally.measured(gauge);
        }
        let excess = schedule.measured(*began..now, cost, reading.measurement());
        if let Some(excess) = excess {
            self.exceeded(*id, excess);
        }
        self.report_usage();
    }

    /// Ends the measurements of a lease and reports its limit.
    fn exceeded(&mut self, id: u64, excess: ExceededLimit) {
        self.reports.push(SpawnerEvent::LimitExceeded(LimitExceeded {
            lease: id,
            what: excess.into(),
            limit: None,
            used: None,
        }));
        self.end_grace(id);
    }

    /// Ends the grace of a lease that is being released. The supervisor has finished with
    /// it, and would not end it.
    pub(super) fn end_grace(&mut self, id: u64) {
        let Some(slot) = self.slots.find(id) else { return };
        if self.slots.release_mut(slot).is_some_and(|release| release.is_stopping()) {
            self.step(slot, |release| release.stopped(Instant::now()));
        }
    }

    /// Leases whose commands run and that have not exceeded a limit.
    pub(super) fn active(&self) -> impl Iterator<Item = &LeaseRecord> {
        let working = self.slots.iter().filter_map(|(_, slot)| slot.working());
        working.filter(|lease| lease.schedule.as_ref().is_some_and(Schedule::is_active))
    }

    fn report_usage(&mut self) {
        let mut changed = Vec::new();
        for slot in 0..self.slots.len() {
            if let Some(lease) = self.slots.working_mut(slot) {
                changed.extend(lease.tally.report(lease.id));
            }
        }
        let reports = changed.chunks(MAX_REPORTED);
        let reports = reports.map(|part| UsageReport { leases: part.to_vec() });
        self.reports.extend(reports.map(SpawnerEvent::Usage));
    }
}

fn too_many(schedule: &mut Schedule, processes: u64) -> Option<ExceededLimit> {
    let is_over = schedule.limits().processes.is_some_and(|limit| processes > limit);
    (is_over && schedule.is_active()).then(|| {
        schedule.end();
        ExceededLimit::Processes
    })
}

/// The rows of all workers of a request together; `None` if there are none.
fn sum<'r>(rows: impl Iterator<Item = &'r Row>) -> Option<Row> {
    rows.copied().reduce(|sum, row| Row {
        key: sum.key,
        processes: sum.processes.saturating_add(row.processes),
        running: sum.running.saturating_add(row.running),
        own: sum.own.saturating_add(row.own),
        shared: sum.shared.saturating_add(row.shared),
        tables: sum.tables.saturating_add(row.tables),
        sockets: None,
        orphans: 0,
        ticks: sum.ticks.saturating_add(row.ticks),
        members: sum.members.wrapping_add(row.members),
        ports: sum.ports.saturating_add(row.ports),
    })
}
