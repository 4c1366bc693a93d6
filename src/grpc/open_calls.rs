//! The number of calls that are open at a time, over all connections.

use http_body_util::BodyExt;
use tokio::sync::watch;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};
use tonic::{Status, body::Body};
use tracing::warn;

use super::warning_pause::WarningPause;
use crate::budget::Budget;

/// Calls that each plugin may have open in any case. Argo CD makes one at a time on a
/// connection, so a client that opens thousands takes no plugin away from others.
const OWN: usize = 8;

/// Counts the calls of all plugins, and refuses more than the memory for them allows. A call
/// takes memory before its first message has arrived. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OpenCalls {
    budget: watch::Receiver<Budget>,
    all: TaskTracker,
    /// Calls of one plugin.
    own: TaskTracker,
    warning_pause: WarningPause,
}

/// Counts a call until it is dropped.
#[derive(Debug)]
pub(super) struct OpenCall {
    /// Held until the call has ended.
    _tokens: [TaskTrackerToken; 2],
}

impl OpenCall {
    /// Counts the call until its answer is sent.
    pub(super) fn until_sent(self, answer: Body) -> Body {
        Body::new(answer.map_frame(move |frame| {
            let _open = &self;
            frame
        }))
    }
}

impl OpenCalls {
    /// Counts within `budget`.
    #[must_use]
    pub fn new(budget: watch::Receiver<Budget>) -> Self {
        let warning_pause = WarningPause::default();
        Self { budget, all: TaskTracker::new(), own: TaskTracker::new(), warning_pause }
    }

    /// Counts the calls of one more plugin, within the same budget.
    pub(super) fn of_plugin(&self) -> Self {
        Self { own: TaskTracker::new(), ..self.clone() }
    }

    /// Counts one more call. The error is the answer to it.
    pub(super) fn enter(&self) -> Result<OpenCall, Status> {
        let call = OpenCall { _tokens: [self.all.token(), self.own.token()] };
        let most = self.budget.borrow().open_calls();
        if self.all.len() <= most || self.own.len() <= OWN {
            return Ok(call);
        }
        self.warn(most);
        Err(Status::resource_exhausted(format!(
            "{most} calls of all plugins are open: end calls that wait for nothing, raise the \
             container's memory limit, or raise --max-queue"
        )))
    }

    fn warn(&self, calls: usize) {
        if self.warning_pause.is_over() {
            warn!(
                calls,
                "calls are refused: clients have as many open as the memory for them allows: raise \
                 the container's memory limit or --max-queue"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Share;

    fn within(queue: usize) -> OpenCalls {
        let budget = Budget { queue: Share::new(queue, ""), ..Budget::default() };
        OpenCalls::new(watch::channel(budget).1)
    }

    #[test]
    fn calls_are_refused_until_others_end() {
        let calls = within(10).of_plugin();
        let mut open: Vec<_> = (0..20).map(|_| calls.enter().unwrap()).collect();
        let error = calls.enter().unwrap_err();
        assert_eq!(error.code(), tonic::Code::ResourceExhausted);
        assert!(error.message().starts_with("20 calls of all plugins are open"), "{error}");
        open.pop();
        open.push(calls.enter().unwrap());
        assert!(calls.enter().is_err());
    }

    #[test]
    fn a_plugin_keeps_some_calls_if_another_has_all() {
        let calls = within(10);
        let [greedy, other] = [(); 2].map(|()| calls.of_plugin());
        let _all: Vec<_> = (0..20).map(|_| greedy.enter().unwrap()).collect();
        let open: Vec<_> = (0..OWN).map(|_| other.enter().unwrap()).collect();
        assert!(other.enter().is_err() && greedy.enter().is_err());
        drop(open);
        assert!(greedy.enter().is_err());
    }
}
