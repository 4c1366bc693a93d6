//! The values under which a call is counted. Each error has one row here.

use cmp_sandbox::NoLease;
use tonic::Code;

use super::{call_error::CallError, stream::NoHeader};
use crate::{
    metrics::{GrpcCode, Kill, Outcome, StreamFault, Timer},
    plugin::shell_name,
    request::{
        BrokenStream, Clock, Deadline, Excess, Failure, InvalidOutput, NoMemory, ReceiveError,
        RequestError, RunError, admission::NoPermit, announcement::InvalidAnnouncements,
    },
};

/// The values under which a call is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) outcome: Outcome,
    /// The clock that ended the request, if one did.
    pub(super) clock: Option<Timer>,
    /// The reason why the running command was killed.
    pub(super) kill: Option<Kill>,
    /// The fault of the archive.
    pub(super) fault: Option<StreamFault>,
    /// The program of the command, or one in its shell, is missing or cannot be executed.
    pub(super) not_started: bool,
}

/// Exit codes of shells whose last program is missing or cannot be executed.
const NOT_STARTED: [i32; 2] = [126, 127];

impl Account {
    /// A call without any special cause. A client that cancels and a supervisor that
    /// stops are no errors of a step.
    pub(super) const fn plain(outcome: Outcome) -> Self {
        Self { outcome, clock: None, kill: None, fault: None, not_started: false }
    }

    /// A call that failed.
    pub(super) fn of(error: &CallError) -> Self {
        match error {
            CallError::Header(NoHeader::Broken(error)) => broken(error),
            CallError::Header(NoHeader::Silent) => STALLED,
            CallError::Header(NoHeader::End | NoHeader::NoMetadata) => {
                Self::faulty(StreamFault::Message)
            }
            CallError::CutOff => Self::plain(Outcome::Shutdown),
            CallError::Large { .. } => Self::plain(Outcome::OutputLimit),
            CallError::Request(error) => failed(error),
        }
    }

    const fn faulty(fault: StreamFault) -> Self {
        Self { fault: Some(fault), ..Self::plain(Outcome::BadStream) }
    }

    const fn killed(outcome: Outcome, kill: Kill) -> Self {
        Self { kill: Some(kill), ..Self::plain(outcome) }
    }

    /// A call whose deadline passed, while a command ran or not.
    pub(super) fn of_deadline(deadline: &Deadline, runs_command: bool) -> Self {
        if runs_command { Self::stopped(deadline) } else { Self::late(deadline) }
    }

    fn late(deadline: &Deadline) -> Self {
        let clock = match deadline.clock() {
            Clock::Client => Timer::Client,
            Clock::Plugin => Timer::Plugin,
        };
        Self { clock: Some(clock), ..Self::plain(Outcome::Deadline) }
    }

    /// A call that was late while a command ran.
    fn stopped(deadline: &Deadline) -> Self {
        let kill = match deadline.clock() {
            Clock::Client => Kill::ClientDeadline,
            Clock::Plugin => Kill::PluginTimeout,
        };
        Self { kill: Some(kill), ..Self::late(deadline) }
    }
}

/// A request that a step ended.
fn failed(error: &RequestError) -> Account {
    let plain = Account::plain;
    match error {
        RequestError::Admission(NoPermit::Full { .. } | NoPermit::Memory { .. }) => {
            plain(Outcome::Rejected)
        }
        RequestError::Admission(NoPermit::Deadline { passed, .. })
        | RequestError::Late { passed, .. }
        | RequestError::Memory(NoMemory { passed, .. }) => Account::late(&passed.0),
        RequestError::Lease(NoLease::SpawnerGone(_) | NoLease::Unconfined(_)) => {
            plain(Outcome::Sandbox)
        }
        RequestError::Volume(_) => plain(Outcome::VolumeFull),
        RequestError::Receive(error) => not_received(error),
        RequestError::Settle(_) => Account::faulty(StreamFault::Directory),
        RequestError::Undecided(_) => plain(Outcome::BadStream),
        RequestError::Run(error) => not_run(error),
        RequestError::Output(
            InvalidOutput::Large { .. }
            | InvalidOutput::Memory { .. }
            | InvalidOutput::NoRoom { .. },
        )
        | RequestError::Announcements(InvalidAnnouncements::Memory { .. }) => {
            plain(Outcome::OutputLimit)
        }
        RequestError::Output(_)
        | RequestError::Announcements(
            InvalidAnnouncements::Output(_) | InvalidAnnouncements::Null { .. },
        ) => plain(Outcome::BadOutput),
    }
}

/// An archive that was not received.
fn not_received(error: &ReceiveError) -> Account {
    match error {
        ReceiveError::Deadline(passed) | ReceiveError::NoIndexMemory(passed) => {
            Account::late(&passed.0)
        }
        ReceiveError::Stream(error) => broken(error),
        ReceiveError::Killed { excess: Some(excess), .. } => exceeded(excess),
        ReceiveError::Killed { excess: None, .. } => Account::plain(Outcome::Signaled),
        ReceiveError::Full(_) => Account::plain(Outcome::VolumeFull),
        ReceiveError::NoTurn(_) | ReceiveError::Unconfined(_) => Account::plain(Outcome::Sandbox),
        ReceiveError::Checksum => Account::faulty(StreamFault::Checksum),
        ReceiveError::Large { .. } => Account::faulty(StreamFault::TooLarge),
        ReceiveError::Archive(_) => Account::faulty(StreamFault::Archive),
    }
}

/// A client that stopped sending.
const STALLED: Account = Account { clock: Some(Timer::Stream), ..Account::plain(Outcome::Stalled) };

/// A stream that ended early.
fn broken(error: &BrokenStream) -> Account {
    match error {
        BrokenStream::Stalled { .. } => STALLED,
        BrokenStream::Transport => Account::plain(Outcome::ClientCancelled),
        BrokenStream::NoChunk | BrokenStream::Unreadable { .. } => {
            Account::faulty(StreamFault::Message)
        }
    }
}

/// A command that did not run to its end, or failed.
fn not_run(error: &RunError) -> Account {
    match error {
        RunError::Start { lacks_program, .. } => {
            Account { not_started: *lacks_program, ..Account::plain(Outcome::ExitNonzero) }
        }
        RunError::TooLate(passed) => Account::late(&passed.0),
        RunError::Memory(NoMemory { passed, .. }) => Account::stopped(&passed.0),
        RunError::NoRoom { .. } => Account::killed(Outcome::OutputLimit, Kill::OutputLimit),
        RunError::Unconfined(_) => Account::plain(Outcome::Sandbox),
        RunError::Failed(failed) => match &failed.failure {
            Failure::Exit(code) => {
                let not_started = is_not_started(&failed.command, *code);
                Account { not_started, ..Account::plain(Outcome::ExitNonzero) }
            }
            Failure::Signal(_) => Account::plain(Outcome::Signaled),
            Failure::Deadline(deadline) => Account::stopped(deadline),
            Failure::Timeout(_) => Account {
                clock: Some(Timer::Command),
                ..Account::killed(Outcome::Deadline, Kill::ExecTimeout)
            },
            Failure::OutputLimit(_) => Account::killed(Outcome::OutputLimit, Kill::OutputLimit),
            Failure::Excess(excess) => exceeded(excess),
        },
    }
}

fn exceeded(excess: &Excess) -> Account {
    Account::killed(Outcome::ResourceLimit, excess.kill())
}

/// True if a shell ended like this because it could not start a program.
fn is_not_started(command: &str, code: i32) -> bool {
    let program = command.split_whitespace().next().unwrap_or_default();
    NOT_STARTED.contains(&code) && shell_name(program).is_some()
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
    use std::time::Duration;

    use super::*;
    use crate::request::{FailedCommand, Said};

    #[test]
    fn a_late_command_is_killed_by_the_clock_that_is_due() {
        let (one, two) = (Some(Duration::from_secs(1)), Some(Duration::from_secs(2)));
        for (client, plugin, kill) in
            [(one, two, Kill::ClientDeadline), (two, one, Kill::PluginTimeout)]
        {
            let deadline = Deadline::new(client, plugin);
            assert_eq!(Account::stopped(&deadline).kill, Some(kill));
            assert_eq!(Account::late(&deadline).kill, None);
        }
    }

    #[test]
    fn a_fault_of_an_archive_is_no_kill() {
        let account = Account::of(&ReceiveError::Checksum.into());
        assert_eq!(account, Account::faulty(StreamFault::Checksum));
    }

    #[test]
    fn a_command_without_its_program_is_counted_and_one_with_a_long_variable_is_not() {
        for lacks_program in [true, false] {
            let start = RunError::Start { text: String::new(), hint: None, lacks_program };
            let expected =
                Account { not_started: lacks_program, ..Account::plain(Outcome::ExitNonzero) };
            assert_eq!(Account::of(&start.into()), expected);
        }
    }

    #[test]
    fn a_command_that_exceeds_its_own_timeout_is_killed_by_that() {
        let failed = FailedCommand {
            command: "x".to_owned(),
            failure: Failure::Timeout(Duration::ZERO),
            said: Said::default(),
            after: Duration::ZERO,
            hint: None,
        };
        let Account { outcome, clock, kill, .. } =
            Account::of(&RunError::from(Box::new(failed)).into());
        assert_eq!((outcome, clock), (Outcome::Deadline, Some(Timer::Command)));
        assert_eq!(kill, Some(Kill::ExecTimeout));
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
                after: Duration::ZERO,
                hint: None,
            };
            let account = Account::of(&RunError::from(Box::new(failed)).into());
            let expected = Account { not_started, ..Account::plain(Outcome::ExitNonzero) };
            assert_eq!(account, expected, "{code}");
        }
    }
}
