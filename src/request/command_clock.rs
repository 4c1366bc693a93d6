//! The time at which a command must end.

use std::time::{Duration, Instant};

use super::{deadline::Deadline, progress::RequestContext};

/// The end of a command, and the setting that it follows from.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandClock {
    pub(super) instant: Option<Instant>,
    pub(super) deadline: Deadline,
    /// The command's own timeout, if it passes before the deadline.
    pub(super) timeout: Option<Duration>,
}

impl CommandClock {
    /// Starts the clock of a command. A plugin's own timeout is part of the
    /// deadline, and replaces `timeout`.
    pub(super) fn start(timeout: Option<Duration>, context: &RequestContext) -> Self {
        let deadline = context.deadline;
        let timeout = timeout.filter(|_| context.plugin.limits.timeout.is_none());
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let is_earlier = |end: &Instant| deadline.instant().is_none_or(|at| *end < at);
        match end.filter(is_earlier) {
            Some(end) => Self { instant: Some(end), deadline, timeout },
            None => Self { instant: deadline.instant(), deadline, timeout: None },
        }
    }
}
