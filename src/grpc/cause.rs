//! Causes of failures, for metrics.

use tonic::Code;

use super::status::CallError;
use crate::{
    metrics::{GrpcCode, Kill, StreamFault, Timer},
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
    /// The command could not be started.
    pub(super) not_started: bool,
}

impl Cause {
    /// The causes of an error. A client that cancels and a supervisor that stops are
    /// no errors of a step.
    pub(super) fn of(error: &CallError) -> Self {
        let fault = |fault| Self { fault: Some(fault), ..Self::default() };
        match error {
            CallError::Request(RequestError::Run(error)) => Self {
                kill: killed(error),
                not_started: matches!(error, RunError::Start { .. }),
                fault: None,
            },
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
        ReceiveError::Stream(BrokenStream::NoChunk) => fault(StreamFault::Message),
        ReceiveError::Killed { excess, .. } => {
            Cause { kill: excess.as_deref().map(Excess::kill), ..Cause::default() }
        }
        ReceiveError::Deadline(_)
        | ReceiveError::Stream(_)
        | ReceiveError::Full(_)
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
}
