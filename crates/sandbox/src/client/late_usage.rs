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
    /// The end of the command's worker, and the usage of its process before the command.
    command: Option<(End, RawUsage)>,
    /// CPU time of earlier commands of the request.
    recorded: Duration,
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

    /// The request does not wait for the end of a command.
    pub(super) fn abandon(&mut self, end: End, before: RawUsage) {
        self.command = Some((end, before));
    }

    /// Reports the usage. A shell that is killed has not waited for its children, so their
    /// time is only in what was measured; in which mode they spent it is not known.
    pub(super) fn report(self, measured: RequestUsage) {
        let (Some(listener), Some((mut end, before))) = (self.listener, self.command) else {
            return;
        };
        let ended = end.try_recv().ok().and_then(Result::ok);
        let mut usage = Usage::since(before, ended.map_or(before, |ended| ended.used));
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

    /// The usage of a command that a request has left after one of a second.
    fn told(end: Option<RawUsage>, measured: RequestUsage) -> Usage {
        let (ended, end_of_worker) = oneshot::channel();
        let mut late = LateUsage::default();
        let mut told = late.receiver();
        late.record(Usage { user: SECOND, system: Duration::ZERO, max_rss: 0 });
        late.abandon(end_of_worker, used(1));
        if let Some(used) = end {
            ended.send(Ok(Exited { status: 9, used })).unwrap();
        }
        late.report(measured);
        told.try_recv().unwrap()
    }

    #[test]
    fn the_kernels_usage_counts_unless_more_was_measured() {
        let (user, system) = (3 * SECOND, Duration::ZERO);
        let usage = told(Some(used(4)), RequestUsage::default());
        assert_eq!(usage, Usage { user, system, max_rss: 4096 });
        let measured =
            RequestUsage { cpu: 9 * SECOND, peak_memory: 7 << 20, ..RequestUsage::default() };
        let usage = told(Some(used(4)), measured);
        assert_eq!(usage, Usage { user: 8 * SECOND, system, max_rss: 7 << 20 });
        assert_eq!(told(None, measured).user, 8 * SECOND, "its worker was never waited for");
    }

    #[test]
    fn nothing_is_told_of_a_request_that_has_heard_of_all_commands() {
        let mut late = LateUsage::default();
        let mut told = late.receiver();
        late.report(RequestUsage { cpu: SECOND, ..RequestUsage::default() });
        assert!(told.try_recv().is_err());
    }
}
