//! The data of a running request, and its progress.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cmp_sandbox::{Network, Redactor, Unpacked, Usage};
use tokio::sync::oneshot;

use super::{
    admission::NewestDefinition, deadline::Deadline, encrypted::Encrypted, observed::Observation,
};
pub use crate::metrics::Phase;
use crate::{
    evidence::Evidence,
    metrics::{Method, Outcome, PluginMetrics, RequestLimit, Waiting},
    plugin::{CommandLine, PluginDefinition},
    traces::Trace,
};

/// The data that all steps of a request share.
#[derive(Debug)]
pub struct RequestContext {
    /// The definition with which its connection was accepted.
    pub plugin: Arc<PluginDefinition>,
    /// The plugin's newest definition, for the limit of its requests on all connections.
    pub newest: NewestDefinition,
    /// Masks secrets in its texts.
    pub redactor: Arc<Redactor>,
    /// The time at which it must end.
    pub deadline: Deadline,
    /// The progress so far.
    pub progress: Progress,
}

impl RequestContext {
    /// Begins the plugin's time, once the client has packed the repository. Returns the deadline.
    pub(crate) fn begin_plugin(&mut self) -> Deadline {
        self.deadline = self.deadline.with_plugin(self.plugin.limits.timeout);
        self.deadline
    }

    /// Begins to receive the archive. Errors of the deadline tell a wait until then.
    pub(super) fn begin_to_receive(&mut self) {
        self.progress.enter(Phase::Receive);
        let waited = self.progress.time_in(Phase::Queue).unwrap_or_default();
        self.deadline = self.deadline.after_queue(waited);
    }

    /// Masks the parts of values at the cuts of its texts: a bundle masks more values than
    /// other texts do, and cannot recognise a part later.
    pub(crate) fn at_cuts(&self) -> &Redactor {
        self.progress.evidence.as_ref().map_or(&self.redactor, |evidence| &evidence.redactor)
    }
}

/// The progress of a request, for its log line and its metrics.
#[derive(Debug, Default)]
pub struct Progress {
    /// Compressed bytes received.
    pub received: u64,
    /// Files and bytes unpacked.
    pub unpacked: Option<Unpacked>,
    /// An earlier request has unpacked them, and others may read them too.
    pub is_repository_shared: bool,
    /// The number of manifests in its answer.
    pub manifests: Option<usize>,
    /// The UID of its commands.
    pub uid: Option<u32>,
    /// The reason of discovery for its answer.
    pub reason: Option<String>,
    /// Resources used by each command.
    pub usage: Vec<Usage>,
    /// The further usage of a command that did not end by itself, told when nothing is left of
    /// the request.
    pub late_usage: Option<oneshot::Receiver<Usage>>,
    /// Most memory in bytes that its commands used at a time, as far as it was
    /// measured.
    pub peak_memory: u64,
    /// Refused accesses and usage of each command, if commands are observed.
    pub observed: Vec<Observation>,
    /// Ports that its commands may connect to.
    pub network: Network,
    /// Its trace, if traces are sent.
    pub trace: Option<Trace>,
    /// Its content, if failed requests are kept.
    pub evidence: Option<Evidence>,
    /// The largest used fraction of each limit.
    limits_used: Vec<(RequestLimit, f64)>,
    phases: Vec<(Phase, Duration)>,
    current: Option<(Phase, Instant)>,
    metrics: Option<(PluginMetrics, Method)>,
    /// Set while the request waits for its turn.
    waiting: Option<Waiting>,
}

impl Progress {
    /// The progress of a new request, which counts among those that wait while it
    /// does.
    #[must_use]
    pub fn new(metrics: PluginMetrics, method: Method, evidence: Option<Evidence>) -> Self {
        Self { metrics: Some((metrics, method)), evidence, ..Self::default() }
    }

    /// Begins a phase and ends the previous one, unless they are the same.
    pub fn enter(&mut self, phase: Phase) {
        if self.current.is_some_and(|(current, _)| current == phase) {
            return;
        }
        let now = Instant::now();
        self.close(now);
        self.current = Some((phase, now));
        if let Some(trace) = &mut self.trace {
            trace.enter(phase);
        }
        let metrics = self.metrics.as_ref().filter(|_| phase == Phase::Queue);
        self.waiting = metrics.map(|(metrics, method)| metrics.waits(*method));
    }

    /// The variables of a request's command, with its trace if there is one.
    pub(super) fn environment(&mut self, variables: &[Bytes], line: &CommandLine) -> Vec<Bytes> {
        let program = line.words().next().unwrap_or_default();
        let trace = self.trace.as_mut().map(|trace| trace.variable(program).into());
        variables.iter().cloned().chain(trace).collect()
    }

    /// Counts manifests that are still encrypted.
    pub(super) fn leaves_encrypted(&self, found: Option<&Encrypted>) {
        if let (Some((metrics, _)), Some(found)) = (&self.metrics, found) {
            metrics.encrypted(found.count() as u64);
        }
    }

    /// Ends the last phase: its time, and its place among those that wait, unless there was none.
    pub fn finish(&mut self, outcome: Outcome) {
        if outcome == Outcome::Rejected
            && let Some(waiting) = self.waiting.take()
        {
            waiting.refuse();
        }
        self.close(Instant::now());
    }

    /// The current phase, or the last one of a request that has finished.
    #[must_use]
    pub fn phase(&self) -> Option<Phase> {
        let last = || self.phases.last().map(|(phase, _)| *phase);
        self.current.map(|(phase, _)| phase).or_else(last)
    }

    /// All phases that have ended, in order.
    #[must_use]
    pub fn phases(&self) -> &[(Phase, Duration)] {
        &self.phases
    }

    /// True while a command runs.
    #[must_use]
    pub fn runs_command(&self) -> bool {
        // Discovery by names has no UID.
        let is_command = |phase| match phase {
            Phase::Init | Phase::Generate | Phase::Discover | Phase::Parameters => true,
            Phase::Open | Phase::Queue | Phase::Receive | Phase::Split => false,
        };
        self.uid.is_some() && self.current.is_some_and(|(phase, _)| is_command(phase))
    }

    /// The largest used fraction of each limit that was measured.
    #[must_use]
    pub fn limits_used(&self) -> &[(RequestLimit, f64)] {
        &self.limits_used
    }

    /// Records the use of a limit. Nothing is known about a limit of which nothing
    /// was used.
    #[expect(clippy::cast_precision_loss, reason = "a fraction need not be exact")]
    pub(super) fn uses(&mut self, limit: RequestLimit, used: u64, bound: Option<u64>) {
        let Some(bound) = bound.filter(|_| used > 0) else { return };
        let ratio = used as f64 / bound.max(1) as f64;
        match self.limits_used.iter_mut().find(|(known, _)| *known == limit) {
            Some((_, most)) => *most = most.max(ratio),
            None => self.limits_used.push((limit, ratio)),
        }
    }

    /// Time in a phase that has ended, if there was one.
    #[must_use]
    pub fn time_in(&self, phase: Phase) -> Option<Duration> {
        let mut times = self.phases.iter().filter(|(ended, _)| *ended == phase);
        times.next().map(|(_, first)| times.fold(*first, |sum, (_, more)| sum + *more))
    }

    fn close(&mut self, now: Instant) {
        if let Some((phase, began)) = self.current.take() {
            self.phases.push((phase, now - began));
            self.waiting = None;
        }
        if let Some(trace) = &mut self.trace {
            trace.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_measured_part_of_a_limit_counts() {
        let mut progress = Progress::default();
        for (used, bound) in [(0, Some(4)), (2, None), (2, Some(4)), (3, Some(4)), (1, Some(4))] {
            progress.uses(RequestLimit::Memory, used, bound);
        }
        progress.uses(RequestLimit::Disk, 0, Some(4));
        assert_eq!(progress.limits_used(), [(RequestLimit::Memory, 0.75)]);
    }

    #[test]
    fn a_request_without_a_lease_runs_no_command() {
        let mut progress = Progress::default();
        progress.enter(Phase::Discover);
        assert!(!progress.runs_command());
    }

    #[test]
    fn no_command_runs_once_the_last_phase_has_ended() {
        let mut progress = Progress { uid: Some(1000), ..Progress::default() };
        progress.enter(Phase::Receive);
        assert!(!progress.runs_command());
        progress.enter(Phase::Generate);
        assert!(progress.runs_command());
        progress.finish(Outcome::Ok);
        assert_eq!((progress.phase(), progress.runs_command()), (Some(Phase::Generate), false));
    }
}
