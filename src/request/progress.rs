//! A request's course, and how far it came.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cmp_sandbox::{Redactor, Unpacked, Usage};
use serde::{Deserialize, Serialize};

use super::deadline::Deadline;
use crate::plugin::PluginDefinition;

/// What a request goes by from its first step to its last.
#[derive(Debug)]
pub struct Course {
    /// The definition its connection was accepted with.
    pub plugin: Arc<PluginDefinition>,
    /// What its texts must not show.
    pub redactor: Arc<Redactor>,
    /// Until when.
    pub deadline: Deadline,
    /// How far it came.
    pub progress: Progress,
}

/// A part of a request that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waiting for a place among the requests at work.
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
    /// The word for it in logs, metrics and errors.
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

/// What is known of a request so far: log line and metrics are made of it.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Compressed bytes that arrived.
    pub received: u64,
    /// What came out of them.
    pub unpacked: Option<Unpacked>,
    /// The user its commands run as.
    pub uid: Option<u32>,
    /// Why the plugin claims the application or does not, if names decided.
    pub reason: Option<String>,
    /// What its commands used.
    pub usage: Vec<(Phase, Usage)>,
    phases: Vec<(Phase, Duration)>,
    current: Option<(Phase, Instant)>,
}

impl Progress {
    /// A phase begins; the one before it has ended, unless it is the same.
    pub fn enter(&mut self, phase: Phase) {
        if self.phase() == Some(phase) {
            return;
        }
        let now = Instant::now();
        self.close(now);
        self.current = Some((phase, now));
    }

    /// The last phase has ended.
    pub fn finish(&mut self) {
        self.close(Instant::now());
    }

    /// The phase the request is in.
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
        }
    }
}
