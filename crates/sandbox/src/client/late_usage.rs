//! Usage of a command for whose end its request has not waited.

use std::time::Duration;

use tokio::sync::oneshot;

use super::{consumption::RequestUsage, handle::End, output::Usage};
use crate::wire::plan::RawUsage;

/// Reports the usage of a command for whose end nobody waited, when nothing of its request
/// is left. Dropped without a message if there is no such command.
#[derive(Debug, Default)]
pub(super) struct LateUsage {
    listener: Option<oneshot::Sender<Usage>>,
    left: Option<Left>,
    /// CPU time of which the request has heard.
    recorded: Duration,
}

/// Processes that a request has left to themselves.
#[derive(Debug)]
pub(super) enum Left {
    /// A command: the end of its worker, and the usage of its process before the command.
    Command(End, RawUsage),
    /// Children of a command whose own usage is recorded.
    Children,
}

impl LateUsage {
    /// The usage of the next command, once it is reported.
    pub(super) fn receiver(&mut self) -> oneshot::Receiver<Usage> {
        let (listener, told) = oneshot::channel();
        self.listener = Some(listener);
        told
    }

    /// Counts a command whose usage the request knows.
    pub(super) fn record(&mut self, usage: Usage) {
        self.recorded += usage.cpu();
    }

    /// The request does not wait for an end.
    pub(super) fn leave(&mut self, left: Left) {
        self.left = Some(left);
    }

    /// Reports the usage. A shell that is killed has not waited for its children, so their
    /// time is only in what was measured; in which mode they spent it is not known.
    pub(super) fn report(self, measured: RequestUsage) {
        let (Some(listener), Some(left)) = (self.listener, self.left) else { return };
        let mut usage = match left {
            Left::Command(mut end, before) => {
                let ended = end.try_recv().ok().and_then(Result::ok);
                Usage::since(before, ended.map_or(before, |ended| ended.used))
            }
            Left::Children => Usage::default(),
        };
        let known = self.recorded + usage.cpu();
        usage.user += measured.cpu.saturating_sub(known);
        usage.max_rss = usage.max_rss.max(measured.peak_memory);
        // The supervisor may be about to end.
        let _ = listener.send(usage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::plan::Exited;

    const SECOND: Duration = Duration::from_secs(1);

    fn used(seconds: u64) -> RawUsage {
        RawUsage { user_us: seconds * 1_000_000, system_us: 0, max_rss_kib: seconds }
    }

    /// The usage of what a request has left after a command of a second.
    fn told(left: Left, measured: RequestUsage) -> Usage {
        let mut late = LateUsage::default();
        let mut told = late.receiver();
        late.record(Usage { user: SECOND, system: Duration::ZERO, max_rss: 0 });
        late.leave(left);
        late.report(measured);
        told.try_recv().unwrap()
    }

    #[test]
    fn the_kernels_usage_counts_unless_more_was_measured() {
        let (user, system) = (3 * SECOND, Duration::ZERO);
        let command = |end: Option<RawUsage>| {
            let (ended, end_of_worker) = oneshot::channel();
            if let Some(used) = end {
                ended.send(Ok(Exited { status: 9, used })).unwrap();
            }
            Left::Command(end_of_worker, used(1))
        };
        let usage = told(command(Some(used(4))), RequestUsage::default());
        assert_eq!(usage, Usage { user, system, max_rss: 4096 });
        let measured =
            RequestUsage { cpu: 9 * SECOND, peak_memory: 7 << 20, ..RequestUsage::default() };
        let usage = told(command(Some(used(4))), measured);
        assert_eq!(usage, Usage { user: 8 * SECOND, system, max_rss: 7 << 20 });
        assert_eq!(
            told(command(None), measured).user,
            8 * SECOND,
            "its worker was never waited for"
        );
        assert_eq!(told(Left::Children, measured).user, 8 * SECOND);
        assert_eq!(told(Left::Children, RequestUsage::default()), Usage::default());
    }

    #[test]
    fn nothing_is_told_of_a_request_that_has_heard_of_all_commands() {
        let mut late = LateUsage::default();
        let mut told = late.receiver();
        late.report(RequestUsage { cpu: SECOND, ..RequestUsage::default() });
        assert!(told.try_recv().is_err());
    }
}
