//! The result of a command.

use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;

use super::excerpt::Excerpt;
use crate::wire::{exceeded::ExceededLimit, refusal::Observed};

/// The result of a command that ran.
#[derive(Clone, Debug)]
pub struct Output {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Beginning and end of standard error.
    pub stderr: Box<Excerpt>,
    /// The end of the command: exit code, signal or limit.
    pub termination: Termination,
    /// Time from the end of the archive, or from the order if it had ended before, until
    /// the command's end.
    pub took: Duration,
    /// Time at which its worker was ordered, which decides what it may read; `None` if it did
    /// not start.
    pub ordered: Option<SystemTime>,
    /// Usage; `None` if the command had not ended yet.
    pub usage: Option<Usage>,
    /// Accesses that the kernel refused, if commands are observed.
    pub observed: Observed,
}

impl Output {
    /// The result if the worker ended before the command started.
    pub(super) fn before_start(termination: Termination, took: Duration) -> Self {
        let (stdout, stderr) = (Vec::new(), Box::default());
        let observed = Observed::default();
        Self { stdout, stderr, termination, took, ordered: None, usage: None, observed }
    }
}

/// The way a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    /// It exited with this code.
    Exit(i32),
    /// A signal killed it.
    Signal {
        /// Number of the signal.
        number: i32,
        /// Memory was written to a core file.
        core: bool,
    },
    /// We stopped it because the deadline passed.
    Deadline,
    /// It had succeeded, but when the deadline passed, a process that it had started still
    /// had its standard output open.
    Held,
    /// We stopped it because its standard output exceeded the limit.
    OutputLimit {
        /// The limit in bytes.
        limit: usize,
    },
    /// We stopped it because its request exceeded a limit.
    LimitExceeded {
        /// Kind of the limit.
        what: ExceededLimit,
        /// The limit in bytes, files or processes; `None` if it could not be
        /// measured. For a limit of all requests together, this is their limit.
        limit: Option<u64>,
        /// This request's part of it, if the limit is one of all requests together.
        used: Option<u64>,
    },
}

impl Termination {
    pub(super) const KILLED: Self = Self::Signal { number: Signal::SIGKILL as i32, core: false };

    /// True if nobody stopped it.
    #[must_use]
    pub fn is_own(self) -> bool {
        matches!(self, Self::Exit(_) | Self::Signal { .. })
    }

    /// True if the deadline passed.
    #[must_use]
    pub fn is_late(self) -> bool {
        matches!(self, Self::Deadline | Self::Held)
    }
}

/// CPU time and memory of a command and its children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Largest resident set of one process in bytes.
    pub max_rss: u64,
}

impl Usage {
    /// CPU time in both modes.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }
}
