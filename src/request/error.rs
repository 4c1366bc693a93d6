//! Any error that a step of a request can return.

use cmp_sandbox::NoLease;
use thiserror::Error;

use super::{
    admission::NoPermit, announcement::InvalidAnnouncements, deadline::DeadlinePassed,
    discovery::Undecided, manifests::InvalidOutput, memory::NoMemory, path::IllegalAppPath,
    receive_error::ReceiveError, run_error::RunError,
};
use crate::volume::FullVolume;

/// The thing that a request without a UID waits for if only a restart helps.
const SILENT_SPAWNER: &str = "the spawner, which does not answer: restart the container";

/// The error of each step of a request.
#[derive(Debug, Error)]
pub enum RequestError {
    /// No place became free.
    #[error(transparent)]
    Admission(#[from] NoPermit),
    /// The spawner is gone, or the sandbox failed.
    #[error(transparent)]
    Lease(#[from] NoLease),
    /// The deadline passed before the request had everything that it needs to start.
    #[error("{passed}; {}", waited(passed, awaited))]
    Late {
        /// The thing that did not arrive.
        awaited: &'static str,
        /// The deadline.
        passed: DeadlinePassed,
    },
    /// The archive was not received.
    #[error(transparent)]
    Receive(ReceiveError),
    /// The application's directory is outside the repository.
    #[error(transparent)]
    Settle(#[from] IllegalAppPath),
    /// Discovery by names failed.
    #[error(transparent)]
    Undecided(#[from] Undecided),
    /// A command failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The work volume has no space.
    #[error(transparent)]
    Volume(#[from] FullVolume),
    /// There was no memory for the command's output.
    #[error(transparent)]
    Memory(#[from] NoMemory),
    /// The command's output is not a list of manifests.
    #[error(transparent)]
    Output(#[from] InvalidOutput),
    /// The parameter announcements are invalid.
    #[error(transparent)]
    Announcements(#[from] InvalidAnnouncements),
}

impl From<ReceiveError> for RequestError {
    fn from(error: ReceiveError) -> Self {
        if let ReceiveError::Full(full) = error { full.into() } else { Self::Receive(error) }
    }
}

impl RequestError {
    /// Maps a passed deadline to the thing that was awaited.
    pub fn late(awaited: &'static str) -> impl FnOnce(DeadlinePassed) -> Self {
        move |passed| Self::Late { awaited, passed }
    }

    /// The error of a request that has got a place. If it waited longer for that than for
    /// anything else, this is the error of that `wait`; but a silent spawner is the cause of
    /// that wait too.
    pub(super) fn after(self, wait: impl FnOnce(DeadlinePassed) -> Option<NoPermit>) -> Self {
        let Self::Late { passed, awaited } = self else { return self };
        if awaited == SILENT_SPAWNER {
            return self;
        }
        wait(passed).map_or(self, Self::from)
    }

    /// The error of a request without a UID at its deadline. If the spawner is silent, only
    /// a restart helps.
    pub fn without_uid(is_silent: bool) -> impl FnOnce(DeadlinePassed) -> Self {
        Self::late(if is_silent { SILENT_SPAWNER } else { "a free UID" })
    }
}

/// The reason why a request that waited did not start.
fn waited(DeadlinePassed(deadline): &DeadlinePassed, awaited: &str) -> String {
    if deadline.is_too_short() {
        "the request did not wait: it had no more time than the 0.1s kept for its answer".into()
    } else {
        format!("until then the request waited for {awaited}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::request::{Deadline, admission::Obstacle};

    #[test]
    fn a_silent_spawner_is_also_the_cause_of_the_wait_for_a_place() {
        let passed = DeadlinePassed(Deadline::new(Some(Duration::from_secs(9)), None));
        let obstacle = Obstacle::Names { limit: 1, reserved: 0 };
        let place = |passed| Some(NoPermit::Deadline { obstacle: obstacle.clone(), passed });
        let after =
            |is_silent| RequestError::without_uid(is_silent)(passed).after(place).to_string();
        assert!(after(true).ends_with("which does not answer: restart the container"));
        assert!(after(false).starts_with("no free place: "));
    }

    #[test]
    fn a_deadline_that_leaves_no_time_is_not_blamed_on_uids() {
        let error = |milliseconds| {
            let deadline = Deadline::new(Some(Duration::from_millis(milliseconds)), None);
            RequestError::without_uid(false)(DeadlinePassed(deadline)).to_string()
        };
        for milliseconds in [0, 100] {
            let error = error(milliseconds);
            assert!(error.ends_with("the 0.1s kept for its answer"), "{error}");
        }
        assert!(error(101).ends_with("waited for a free UID"));
    }
}
