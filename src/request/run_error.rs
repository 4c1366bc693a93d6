//! The error of a command.

use std::{
    borrow::Cow,
    fmt::{self, Formatter},
    time::Duration,
};

use cmp_sandbox::{Bounds, NotRun, Termination, Unconfined, Unpacked};
use thiserror::Error;

use super::{
    command_clock::CommandClock,
    deadline::{Deadline, DeadlinePassed},
    defaults::CommandDefaults,
    excess::Excess,
    hint::Hint,
    memory::NoMemory,
    said::Said,
    seconds::Seconds,
};
use crate::{
    budget::{Budget, show},
    settings::{EXEC_TIMEOUT, OUTPUT},
};

/// Reasons why a command failed. The texts are Argo CD's.
#[derive(Debug, Error)]
pub enum RunError {
    /// The command could not be started.
    #[error("{text}{}", shown(hint.as_ref()))]
    Start {
        /// The reason, in Go's words.
        text: String,
        /// The thing that the sandbox refused.
        hint: Option<Hint>,
        /// Its program is missing or cannot be executed.
        lacks_program: bool,
    },
    /// The command ended with an error, or was stopped.
    #[error(transparent)]
    Failed(#[from] Box<FailedCommand>),
    /// The deadline passed before the command could start.
    #[error(transparent)]
    TooLate(#[from] DeadlinePassed),
    /// The deadline passed while the output waited for memory.
    #[error(transparent)]
    Memory(#[from] NoMemory),
    /// One request cannot have the memory that the output needs.
    #[error(
        "`{command}` was stopped: its output of more than {} needs more than the {} of memory that \
         one output may have ({origin}): print less, or raise the container's \
         resources.limits.memory", show(*length as u64), show(*most as u64)
    )]
    NoRoom {
        /// The command, printable.
        command: String,
        /// Bytes that it printed until then.
        length: usize,
        /// Most bytes for one output.
        most: usize,
        /// The origin of the memory for outputs.
        origin: Cow<'static, str>,
    },
    /// The sandbox failed.
    #[error(transparent)]
    Unconfined(#[from] Unconfined),
}

/// A command that ran and failed.
#[derive(Debug, Error)]
pub struct FailedCommand {
    /// The command, printable.
    pub command: String,
    /// The reason.
    pub failure: Failure,
    /// The texts that the command wrote.
    pub said: Said,
    /// The time that it ran.
    pub after: Duration,
    /// The limit that it may have reached, or the setting that raises the limit.
    pub hint: Option<Hint>,
}

/// Reasons why a command that ran has failed.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The exit code is not 0.
    Exit(i32),
    /// This signal, by its name in Go, ended the command, and we did not send it.
    Signal(String),
    /// The command was stopped at the deadline.
    Deadline(Deadline),
    /// The command was stopped at its own timeout.
    Timeout(Duration),
    /// The command's output is longer than this limit in bytes.
    OutputLimit(usize),
    /// The request used more of something than its limit, or could not be measured.
    Excess(Excess),
}

impl RunError {
    /// The error of a command that did not start.
    pub(super) fn not_run(
        error: NotRun,
        bounds: &Bounds,
        unpacked: Option<&Unpacked>,
        defaults: &CommandDefaults,
    ) -> Self {
        let (text, lacks_program) = match error {
            NotRun::Command(text) => (text, true),
            NotRun::Refused(text) => (text, false),
            NotRun::Unconfined(unconfined) => return Self::Unconfined(unconfined),
        };
        let hint = Hint::of_start(bounds, &defaults.reach, &text, unpacked);
        Self::Start { text, hint, lacks_program }
    }
}

impl Failure {
    /// The failure of a command with this end; `None` if it succeeded. `clock` has stopped
    /// it, if something did that is no limit.
    pub(super) fn of(end: Termination, clock: &CommandClock, budget: &Budget) -> Option<Self> {
        if let Some(excess) = Excess::of(end, budget) {
            return Some(Self::Excess(excess));
        }
        match end {
            Termination::Exit(0) => None,
            Termination::Exit(code) => Some(Self::Exit(code)),
            Termination::Signal { number, core } => {
                Some(Self::Signal(cmp_go::signal_text(number, core)))
            }
            Termination::Deadline | Termination::Held | Termination::LimitExceeded { .. } => {
                Some(clock.timeout.map_or(Self::Deadline(clock.deadline), Self::Timeout))
            }
            Termination::OutputLimit { limit } => Some(Self::OutputLimit(limit)),
        }
    }
}

impl fmt::Display for FailedCommand {
    fn fmt(&self, text: &mut Formatter<'_>) -> fmt::Result {
        let Self { command, failure, said, after, hint } = self;
        let after = Seconds(*after);
        write!(text, "`{command}` ")?;
        match failure {
            Failure::Exit(code) => write!(text, "failed exit status {code}{said}"),
            Failure::Signal(signal) => write!(text, "failed signal: {signal}{said}"),
            Failure::Deadline(deadline) => {
                write!(text, "failed signal: killed{said}: stopped after {after}: {deadline}")
            }
            Failure::Timeout(limit) => {
                let passed = timeout_passed(*limit);
                write!(text, "failed signal: killed{said}: stopped after {after}: {passed}")
            }
            Failure::OutputLimit(limit) => {
                write!(text, "was stopped: it wrote more than {}", OUTPUT.say(*limit as u64))
            }
            Failure::Excess(excess) => write!(text, "was stopped: {excess}"),
        }?;
        text.write_str(&shown(hint.as_ref()))
    }
}

fn timeout_passed(limit: Duration) -> String {
    let flag = EXEC_TIMEOUT.raise(false);
    format!(
        "the command's timeout of {} passed: {flag} (or $ARGOCD_EXEC_TIMEOUT), or give the \
         plugin a spec.limits.timeout",
        Seconds(limit)
    )
}

fn shown(hint: Option<&Hint>) -> String {
    hint.map_or(String::new(), Hint::to_string)
}
