//! Causes of failures, for metrics.

use tonic::Code;

use super::status::CallError;
use crate::{
    metrics::{GrpcCode, Kill, StreamFault, Timer},
    plugin::shell_name,
    request::{
        BrokenStream, Clock, Deadline, Excess, Failure, NoMemory, ReceiveError, RequestError,
        RunError,
    },
};

/// The causes of a failure that have metrics of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cause {
    /// The reason why the running command was killed.
    pub(super) kill: Option<Kill>,
    /// The fault of the archive.
    pub(super) fault: Option<StreamFault>,
    /// The command, or a program in its shell, could not be started.
    pub(super) not_started: bool,
}

/// Exit codes of shells whose last program is missing or cannot be executed.
const NOT_STARTED: [i32; 2] = [126, 127];

impl Cause {
    /// The causes of an error. A client that cancels and a supervisor that stops are
    /// no errors of a step.
    pub(super) fn of(error: &CallError) -> Self {
        let fault = |fault| Self { fault: Some(fault), ..Self::default() };
        match error {
            CallError::Request(RequestError::Run(error)) => {
                Self { kill: killed(error), not_started: is_not_started(error), fault: None }
            }
            CallError::Request(RequestError::Receive(error)) => received(error),
            CallError::Request(RequestError::Settle(_)) => fault(StreamFault::Directory),
            CallError::Header(error) if error.is_fault() => fault(StreamFault::Message),
            CallError::Header(_)
            | CallError::Request(_)
            | CallError::CutOff
            | CallError::Large { .. } => Self::default(),
        }
    }
}

fn is_not_started(error: &RunError) -> bool {
    match error {
        RunError::Start { .. } => true,
        RunError::Failed(failed) => {
            let program = failed.command.split_whitespace().next().unwrap_or_default();
            let is_code =
                matches!(failed.failure, Failure::Exit(code) if NOT_STARTED.contains(&code));
            is_code && shell_name(program).is_some()
        }
        RunError::TooLate(_) | RunError::Memory(_) | RunError::Unconfined(_) => false,
    }
}

fn killed(error: &RunError) -> Option<Kill> {
    match error {
        RunError::Failed(command) => match &command.failure {
            Failure::Deadline(deadline) => Some(late(deadline)),
            Failure::Timeout(_) => Some(Kill::ExecTimeout),
            Failure::OutputLimit(_) => Some(Kill::OutputLimit),
            Failure::Excess(excess) => Some(excess.kill()),
            Failure::Exit(_) | Failure::Signal(_) => None,
        },
        RunError::Memory(NoMemory { passed, .. }) => Some(late(&passed.0)),
        RunError::Start { .. } | RunError::TooLate(_) | RunError::Unconfined(_) => None,
    }
}

fn late(deadline: &Deadline) -> Kill {
    match deadline.clock() {
        Clock::Client => Kill::ClientDeadline,
        Clock::Plugin => Kill::PluginTimeout,
    }
}

fn received(error: &ReceiveError) -> Cause {
    let fault = |fault| Cause { fault: Some(fault), ..Cause::default() };
    match error {
        ReceiveError::Checksum => fault(StreamFault::Checksum),
        ReceiveError::Large { .. } => fault(StreamFault::TooLarge),
        ReceiveError::Archive(_) => fault(StreamFault::Archive),
        ReceiveError::Stream(BrokenStream::NoChunk | BrokenStream::Unreadable { .. }) => {
            fault(StreamFault::Message)
        }
        ReceiveError::Killed { excess, .. } => {
            Cause { kill: excess.as_deref().map(Excess::kill), ..Cause::default() }
        }
        ReceiveError::Deadline(_)
        | ReceiveError::Stream(_)
        | ReceiveError::Full(_)
        | ReceiveError::NoTurn(_)
        | ReceiveError::Unconfined(_) => Cause::default(),
    }
}

impl From<Clock> for Timer {
    fn from(clock: Clock) -> Self {
        match clock {
            Clock::Client => Self::Client,
            Clock::Plugin => Self::Plugin,
        }
    }
}

/// The label of a code. This server returns no others.
pub(super) fn label(code: Code) -> GrpcCode {
    match code {
        Code::Ok => GrpcCode::Ok,
        Code::Cancelled => GrpcCode::Canceled,
        Code::DeadlineExceeded => GrpcCode::DeadlineExceeded,
        Code::ResourceExhausted => GrpcCode::ResourceExhausted,
        Code::Internal => GrpcCode::Internal,
        Code::Unavailable => GrpcCode::Unavailable,
        Code::Unknown
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::DataLoss
        | Code::Unauthenticated => GrpcCode::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{FailedCommand, Said};

    #[test]
    fn a_late_command_is_killed_by_the_clock_that_is_due() {
        use std::time::Duration;
        let (one, two) = (Some(Duration::from_secs(1)), Some(Duration::from_secs(2)));
        for (client, plugin, kill) in
            [(one, two, Kill::ClientDeadline), (two, one, Kill::PluginTimeout)]
        {
            let deadline = Deadline::new(client, plugin);
            assert_eq!(late(&deadline), kill);
        }
    }

    #[test]
    fn a_fault_of_an_archive_is_no_kill() {
        let cause = Cause::of(&ReceiveError::Checksum.into());
        let expected = Cause { fault: Some(StreamFault::Checksum), ..Cause::default() };
        assert_eq!(cause, expected);
        let missing = Cause::of(&RunError::Start { text: String::new(), hint: None }.into());
        assert_eq!(missing, Cause { not_started: true, ..Cause::default() });
    }

    #[test]
    fn a_program_that_a_shell_cannot_start_is_counted() {
        for (command, code, not_started) in [
            ("sh -c x", 1, false),
            ("/bin/bash x", 126, true),
            ("sh -c x", 127, true),
            ("sh -c x", 128, false),
            ("python3 x", 127, false),
        ] {
            let failed = FailedCommand {
                command: command.to_owned(),
                failure: Failure::Exit(code),
                said: Said::default(),
                after: std::time::Duration::ZERO,
                hint: None,
            };
            let cause = Cause::of(&RunError::from(Box::new(failed)).into());
            assert_eq!(cause, Cause { not_started, ..Cause::default() }, "{code}");
        }
    }
}
