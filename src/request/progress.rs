//! The data of a running request, and its progress.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cmp_sandbox::{Redactor, Unpacked, Usage};
use serde::{Deserialize, Serialize};

use super::{deadline::Deadline, encrypted::Encrypted};
use crate::{
    metrics::{PluginMetrics, Waiting},
    plugin::PluginDefinition,
};

/// The data that all steps of a request share.
#[derive(Debug)]
pub struct RequestContext {
    /// The definition with which its connection was accepted.
    pub plugin: Arc<PluginDefinition>,
    /// Masks secrets in its texts.
    pub redactor: Arc<Redactor>,
    /// The time at which it must end.
    pub deadline: Deadline,
    /// The progress so far.
    pub progress: Progress,
}

/// A part of a request that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waiting for a free place.
    Queue,
    /// Receiving and unpacking the archive.
    Receive,
    /// `spec.init`.
    Init,
    /// `spec.generate`.
    Generate,
    /// `spec.discover`.
    Discover,
    /// `spec.parameters.dynamic`.
    Parameters,
    /// Turning output into manifests.
    Split,
}

impl Phase {
    /// The name in logs, metrics and errors.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Receive => "receive",
            Self::Init => "init",
            Self::Generate => "generate",
            Self::Discover => "discover",
            Self::Parameters => "parameters",
            Self::Split => "split",
        }
    }
}

/// The progress of a request, for its log line and its metrics.
#[derive(Debug, Default)]
pub struct Progress {
    /// Compressed bytes received.
    pub received: u64,
    /// Files and bytes unpacked.
    pub unpacked: Option<Unpacked>,
    /// The UID of its commands.
    pub uid: Option<u32>,
    /// The reason of discovery by names for its answer.
    pub reason: Option<String>,
    /// Resources used by each command.
    pub usage: Vec<(Phase, Usage)>,
    phases: Vec<(Phase, Duration)>,
    current: Option<(Phase, Instant)>,
    metrics: Option<PluginMetrics>,
    /// Set while the request waits for its turn.
    waiting: Option<Waiting>,
}

impl Progress {
    /// The progress of a new request, which counts among those that wait while it
    /// does.
    #[must_use]
    pub fn new(metrics: PluginMetrics) -> Self {
        Self { metrics: Some(metrics), ..Self::default() }
    }

    /// Begins a phase and ends the previous one, unless they are the same.
    pub fn enter(&mut self, phase: Phase) {
        if self.phase() == Some(phase) {
            return;
        }
        let now = Instant::now();
        self.close(now);
        self.current = Some((phase, now));
        let metrics = self.metrics.as_ref().filter(|_| phase == Phase::Queue);
        self.waiting = metrics.map(PluginMetrics::waits);
    }

    /// Counts manifests that are still encrypted.
    pub(super) fn leaves_encrypted(&self, found: Option<&Encrypted>) {
        if let (Some(metrics), Some(found)) = (&self.metrics, found) {
            metrics.encrypted(found.count() as u64);
        }
    }

    /// Ends the last phase.
    pub fn finish(&mut self) {
        self.close(Instant::now());
    }

    /// The current phase.
    #[must_use]
    pub fn phase(&self) -> Option<Phase> {
        self.current.map(|(phase, _)| phase)
    }

    /// All phases that have ended, in order.
    #[must_use]
    pub fn phases(&self) -> &[(Phase, Duration)] {
        &self.phases
    }

    fn close(&mut self, now: Instant) {
        if let Some((phase, began)) = self.current.take() {
            self.phases.push((phase, now - began));
            self.waiting = None;
        }
    }
}
