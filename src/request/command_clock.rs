//! The time at which a command must end.

use std::time::{Duration, Instant};

use super::{
    deadline::Deadline, hint::Hint, progress::RequestContext, run_error::RunError, said::Said,
};
use crate::settings::EXEC_TIMEOUT;

/// The end of a command, and the setting that it follows from.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandClock {
    pub(super) instant: Option<Instant>,
    deadline: Deadline,
    /// The command's own timeout, if it passes before the deadline.
    timeout: Option<Duration>,
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

    /// The error of a command that was stopped by this clock.
    pub(super) fn passed(
        self,
        (command, said): (String, Box<Said>),
        after: Duration,
        hint: Option<Hint>,
    ) -> RunError {
        let (deadline, command, hint) =
            (self.deadline, command.into_boxed_str(), hint.map(Box::new));
        match self.timeout {
            Some(limit) => RunError::Timeout { command, said, after, limit, hint },
            None => RunError::Deadline { command, said, after, deadline, hint },
        }
    }
}

pub(super) fn timeout_passed(limit: Duration) -> String {
    let flag = EXEC_TIMEOUT.raise(false);
    format!(
        "the command's timeout of {:.1}s passed: {flag} (or $ARGOCD_EXEC_TIMEOUT), or give the \
         plugin a spec.limits.timeout",
        limit.as_secs_f64()
    )
}
