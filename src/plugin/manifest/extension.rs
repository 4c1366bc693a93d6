//! `spec.sandbox` and `spec.limits`, from their raw form to their meaning.

mod limits;
mod sandbox;

pub(super) use self::{limits::LimitsManifest, sandbox::SandboxManifest};
use super::{InvalidManifest, Step};

/// Judges the values of one section. Every one that means nothing is told: who
/// puts one right should not find the next only then.
struct Judge<'f> {
    section: &'static str,
    faults: &'f mut Vec<InvalidManifest>,
}

impl Judge<'_> {
    /// Tells that the value at `keys` means nothing, and what would.
    fn refuse(&mut self, keys: impl IntoIterator<Item = Step>, wanted: impl Into<String>) {
        let path = [key("spec"), key(self.section)].into_iter().chain(keys).collect();
        self.faults.push(InvalidManifest::Value { path, wanted: wanted.into() });
    }
}

fn key(name: &str) -> Step {
    Step::Key(name.to_owned())
}
