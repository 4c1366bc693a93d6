//! The results of requests, a label of metrics.

use super::values::values;

values! {
    /// The result of a request.
    Outcome {
        /// Success.
        Ok = "ok",
        /// The plugin does not claim the application.
        NoMatch = "no_match",
        /// The client disconnected or cancelled the call.
        ClientCancelled = "client_cancelled",
        /// A deadline passed.
        Deadline = "deadline",
        /// A command's exit code was not 0, or it did not start.
        ExitNonzero = "exit_nonzero",
        /// A signal ended a command.
        Signaled = "signaled",
        /// A command's output was longer than the limit.
        OutputLimit = "output_limit",
        /// A request exceeded its limit for memory, disk or files.
        ResourceLimit = "resource_limit",
        /// A command's output was invalid.
        BadOutput = "bad_output",
        /// The archive or the stream was invalid.
        BadStream = "bad_stream",
        /// The client sent too little for too long.
        Stalled = "stalled",
        /// No place or no UID was free.
        Rejected = "rejected",
        /// A command could not be confined.
        Sandbox = "sandbox",
        /// The work volume had no space.
        VolumeFull = "volume_full",
        /// The supervisor stopped before the request ended.
        Shutdown = "shutdown",
    }
}
