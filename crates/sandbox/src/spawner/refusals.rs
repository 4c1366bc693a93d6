//! Decides when refused processes are a reason to end a crowd. Pure.

use std::time::{Duration, Instant};

/// Time for which the kernel must refuse meters before a request is ended for it. Another
/// container of the Pod may take all processes for a moment.
const LASTING: Duration = Duration::from_secs(2);

/// The processes that the kernel has refused, and the passes that count who has them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusals {
    /// A request got no process since the last pass was ordered. That pass may have counted
    /// before the last processes were taken.
    after_order: bool,
    /// A request got no process before the last pass was ordered.
    before_order: bool,
    /// A meter was refused since the last pass ended.
    of_meter: bool,
    /// End of the first of the last passes that all had a refused meter.
    since: Option<Instant>,
}

impl Refusals {
    /// A process was refused that a request waited for.
    pub(super) fn request(&mut self) {
        self.after_order = true;
    }

    /// A process was refused that would have measured a request. It is due again in each
    /// pass.
    pub(super) fn meter(&mut self) {
        self.of_meter = true;
    }

    /// A pass is ordered.
    pub(super) fn pass_begins(&mut self) {
        self.before_order |= std::mem::take(&mut self.after_order);
    }

    /// A pass has counted all requests, and tried to measure those that are due. Returns true
    /// if a crowd is to end.
    pub(super) fn pass_ends(&mut self, now: Instant) -> bool {
        let is_refused = std::mem::take(&mut self.of_meter);
        self.since = is_refused.then(|| self.since.unwrap_or(now));
        let lasts = self.since.is_some_and(|since| now.duration_since(since) >= LASTING);
        std::mem::take(&mut self.before_order) || lasts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_waits_for_a_pass_that_begins_later() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        refusals.pass_begins();
        refusals.request();
        assert!(!refusals.pass_ends(now), "it began before");
        refusals.pass_begins();
        assert!(refusals.pass_ends(now));
        refusals.pass_begins();
        assert!(!refusals.pass_ends(now), "once");
    }

    #[test]
    fn refused_meters_are_a_reason_only_if_they_are_refused_for_long() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let mut pass = |seconds, is_refused| {
            refusals.pass_begins();
            if is_refused {
                refusals.meter();
            }
            refusals.pass_ends(start + Duration::from_secs(seconds))
        };
        assert!(!pass(0, true) && !pass(1, true) && !pass(2, false), "one was measured");
        assert!(!pass(3, true) && !pass(4, true), "not for long");
        assert!(pass(5, true) && pass(6, true));
        assert!(!pass(7, false));
    }
}
