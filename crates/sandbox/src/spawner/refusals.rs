//! Decides when processes that the kernel refuses are a reason to end a crowd. Pure.

/// Passes in a row in which a meter is refused before somebody is ended for it. One lack of
/// a moment, of another container of the Pod for example, is nobody's fault here.
const MIN_PASSES: u32 = 3;

/// The processes that the kernel has refused, and the passes that count who has them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusals {
    /// A request got no process since the last pass was ordered, and before that. Only a
    /// pass that was ordered later counts all who took the last ones.
    of_requests: bool,
    before_pass: bool,
    /// A meter was refused since the last pass ended, and the passes in a row with one.
    of_meters: bool,
    passes: u32,
}

impl Refusals {
    /// A process was refused that a request waited for.
    pub(super) fn request(&mut self) {
        self.of_requests = true;
    }

    /// A process was refused that would have measured a request. It is due again in each
    /// pass.
    pub(super) fn meter(&mut self) {
        self.of_meters = true;
    }

    /// A pass is ordered.
    pub(super) fn pass_begins(&mut self) {
        self.before_pass |= std::mem::take(&mut self.of_requests);
    }

    /// A pass has counted all requests, and tried to measure those that are due. Returns true
    /// if a crowd is to end.
    pub(super) fn pass_ends(&mut self) -> bool {
        let of_meters = std::mem::take(&mut self.of_meters);
        self.passes = if of_meters { self.passes.saturating_add(1) } else { 0 };
        std::mem::take(&mut self.before_pass) || self.passes >= MIN_PASSES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(refusals: &mut Refusals, is_refused: bool) -> bool {
        refusals.pass_begins();
        if is_refused {
            refusals.meter();
        }
        refusals.pass_ends()
    }

    #[test]
    fn a_refused_request_waits_for_a_pass_that_begins_later() {
        let mut refusals = Refusals::default();
        refusals.pass_begins();
        refusals.request();
        assert!(!refusals.pass_ends(), "it began before");
        assert!(pass(&mut refusals, false));
        assert!(!pass(&mut refusals, false), "once");
    }

    #[test]
    fn refused_meters_are_a_reason_only_in_passes_in_a_row() {
        let mut refusals = Refusals::default();
        let ends = [true, true, false, true, true, true, true, false]
            .map(|is_refused| pass(&mut refusals, is_refused));
        assert_eq!(ends, [false, false, false, false, false, true, true, false]);
    }
}
