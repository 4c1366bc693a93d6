//! `spec.sandbox`, `spec.workspace` and `spec.limits`, from their raw form to their meaning.

mod limits;
mod sandbox;
mod workspace;

pub(crate) use self::sandbox::may_name_cache;
pub(super) use self::{
    limits::LimitsManifest, sandbox::SandboxManifest, workspace::WorkspaceManifest,
};
use super::{InvalidManifest, Step};

/// Most items of a list: they travel in one message to a process that keeps its
/// memory small.
const MAX_LIST: usize = 32;
const TOO_LONG: &str = "at most 32 items";

/// Checks the values of one section. It reports all invalid values at once, so
/// that a user can correct them together.
struct Judge<'f> {
    section: &'static str,
    faults: &'f mut Vec<InvalidManifest>,
}

impl Judge<'_> {
    /// Reports an invalid value at `keys`, and the values that are valid.
    fn refuse(&mut self, keys: impl IntoIterator<Item = Step>, expected: impl Into<String>) {
        let path = [key("spec"), key(self.section)].into_iter().chain(keys).collect();
        self.faults.push(InvalidManifest::Value { path, expected: expected.into() });
    }
}

fn key(name: &str) -> Step {
    Step::Key(name.to_owned())
}
