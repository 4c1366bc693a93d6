//! The error of a command.

use std::time::Duration;

use cmp_sandbox::{Bounds, NotRun, Output, Termination, Unconfined, Unpacked};
use thiserror::Error;

use super::{
    command_clock::CommandClock,
    deadline::{Deadline, DeadlinePassed},
    defaults::CommandDefaults,
    excess::Excess,
    hint::Hint,
    memory::NoMemory,
    printable,
    said::Said,
};
use crate::{
    plugin::CommandLine,
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
    },
    /// The exit code is not 0.
    #[error("`{command}` failed exit status {code}{said}{}", shown(hint.as_ref()))]
    Exit {
        /// The command, printable.
        command: String,
        /// The exit code.
        code: i32,
        /// The texts that the command wrote.
        said: Box<Said>,
        /// The limit that it may have reached.
        hint: Option<Hint>,
    },
    /// A signal ended the command, and we did not send it.
    #[error("`{command}` failed signal: {signal}{said}{}", shown(hint.as_ref()))]
    Signal {
        /// The command, printable.
        command: String,
        /// The signal's name in Go.
        signal: String,
        /// The texts that the command wrote.
        said: Box<Said>,
        /// The limit that it may have reached.
        hint: Option<Hint>,
    },
    /// The command was stopped at the deadline.
    #[error("`{command}` failed signal: killed{said}: stopped after {:.1}s: {deadline}{}",
        after.as_secs_f64(), shown(hint.as_deref()))]
    Deadline {
        /// The command, printable.
        command: Box<str>,
        /// The texts that the command wrote.
        said: Box<Said>,
        /// The time that it ran.
        after: Duration,
        /// The deadline.
        deadline: Deadline,
        /// The limit that it may have reached.
        hint: Option<Box<Hint>>,
    },
    /// The command was stopped at its own timeout.
    #[error("`{command}` failed signal: killed{said}: stopped after {:.1}s: {}{}",
        after.as_secs_f64(), timeout_passed(*limit), shown(hint.as_deref()))]
    Timeout {
        /// The command, printable.
        command: Box<str>,
        /// The texts that the command wrote.
        said: Box<Said>,
        /// The time that it ran.
        after: Duration,
        /// The timeout.
        limit: Duration,
        /// The limit that it may have reached.
        hint: Option<Box<Hint>>,
    },
    /// The deadline passed before the command could start.
    #[error(transparent)]
    TooLate(#[from] DeadlinePassed),
    /// The command's output is longer than the limit.
    #[error(
        "`{command}` was stopped: it wrote more than {}{}",
        OUTPUT.say(*limit as u64), shown(hint.as_ref())
    )]
    OutputLimit {
        /// The command, printable.
        command: String,
        /// The limit in bytes.
        limit: usize,
        /// The setting that raises the limit.
        hint: Option<Hint>,
    },
    /// The request used more of something than its limit, or could not be measured.
    #[error("`{command}` was stopped: {excess}{}", shown(hint.as_ref()))]
    Excess {
        /// The command, printable.
        command: String,
        /// The limit.
        excess: Box<Excess>,
        /// The setting that raises the limit.
        hint: Option<Hint>,
    },
    /// The deadline passed while the output waited for memory.
    #[error(transparent)]
    Memory(#[from] NoMemory),
    /// The sandbox failed.
    #[error(transparent)]
    Unconfined(#[from] Unconfined),
}

impl RunError {
    /// The error of a command that did not start.
    pub(super) fn not_run(
        error: NotRun,
        (bounds, unpacked): (&Bounds, Option<&Unpacked>),
        defaults: &CommandDefaults,
    ) -> Self {
        match error {
            NotRun::Command(text) => {
                let hint = Hint::of_start(bounds, &defaults.reach, &text, unpacked);
                Self::Start { text, hint }
            }
            NotRun::Unconfined(unconfined) => Self::Unconfined(unconfined),
        }
    }

    /// The error of a command that its clock stopped.
    fn late(
        clock: CommandClock,
        (command, said): (String, Box<Said>),
        (after, hint): (Duration, Option<Hint>),
    ) -> Self {
        let CommandClock { deadline, timeout, .. } = clock;
        let (command, hint) = (command.into_boxed_str(), hint.map(Box::new));
        match timeout {
            Some(limit) => Self::Timeout { command, said, after, limit, hint },
            None => Self::Deadline { command, said, after, deadline, hint },
        }
    }
}

/// Returns the output of a successful command, or else the error.
pub(super) fn result(
    (output, said): (Output, Said),
    line: &CommandLine,
    (clock, excess, hint): (CommandClock, Option<Excess>, Option<Hint>),
) -> Result<Vec<u8>, RunError> {
    let Output { stdout, termination: end, took, .. } = output;
    let said = Box::new(said);
    let command = printable::command_line(line.words());
    if let Some(excess) = excess {
        return Err(RunError::Excess { command, excess: excess.into(), hint });
    }
    match end {
        Termination::Exit(0) => Ok(stdout),
        Termination::Exit(code) => Err(RunError::Exit { command, code, said, hint }),
        Termination::Signal { number, core } => {
            Err(RunError::Signal { command, signal: cmp_go::signal_text(number, core), said, hint })
        }
        Termination::Deadline | Termination::LimitExceeded { .. } => {
            Err(RunError::late(clock, (command, said), (took, hint)))
        }
        Termination::OutputLimit { limit } => Err(RunError::OutputLimit { command, limit, hint }),
    }
}

fn timeout_passed(limit: Duration) -> String {
    let flag = EXEC_TIMEOUT.raise(false);
    format!(
        "the command's timeout of {:.1}s passed: {flag} (or $ARGOCD_EXEC_TIMEOUT), or give the \
         plugin a spec.limits.timeout",
        limit.as_secs_f64()
    )
}

fn shown(hint: Option<&Hint>) -> String {
    hint.map_or(String::new(), Hint::to_string)
}
