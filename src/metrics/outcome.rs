//! The results of requests, a label of metrics.

use serde::{Deserialize, Serialize};

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Success.
    Ok,
    /// The plugin does not claim the application.
    NoMatch,
    /// The client disconnected or cancelled the call.
    ClientCancelled,
    /// A deadline passed.
    Deadline,
    /// A command's exit code was not 0, or it did not start.
    ExitNonzero,
    /// A signal ended a command.
    Signaled,
    /// A command's output was longer than the limit.
    OutputLimit,
    /// A request exceeded its limit for memory, disk or files.
    ResourceLimit,
    /// A command's output was invalid.
    BadOutput,
    /// The archive or the stream was invalid.
    BadStream,
    /// The client sent too little for too long.
    Stalled,
    /// No place or no UID was free.
    Rejected,
    /// A command could not be confined.
    Sandbox,
    /// The work volume had no space.
    VolumeFull,
    /// The supervisor stopped before the request ended.
    Shutdown,
}

impl Outcome {
    pub(crate) const ALL: [Self; 15] = [
        Self::Ok,
        Self::NoMatch,
        Self::ClientCancelled,
        Self::Deadline,
        Self::ExitNonzero,
        Self::Signaled,
        Self::OutputLimit,
        Self::ResourceLimit,
        Self::BadOutput,
        Self::BadStream,
        Self::Stalled,
        Self::Rejected,
        Self::Sandbox,
        Self::VolumeFull,
        Self::Shutdown,
    ];

    /// The name in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NoMatch => "no_match",
            Self::ClientCancelled => "client_cancelled",
            Self::Deadline => "deadline",
            Self::ExitNonzero => "exit_nonzero",
            Self::Signaled => "signaled",
            Self::OutputLimit => "output_limit",
            Self::ResourceLimit => "resource_limit",
            Self::BadOutput => "bad_output",
            Self::BadStream => "bad_stream",
            Self::Stalled => "stalled",
            Self::Rejected => "rejected",
            Self::Sandbox => "sandbox",
            Self::VolumeFull => "volume_full",
            Self::Shutdown => "shutdown",
        }
    }
}
