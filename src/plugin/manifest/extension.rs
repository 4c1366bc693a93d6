//! `spec.sandbox` and `spec.limits`, from their raw form to their meaning.

mod limits;
mod sandbox;

use serde_json::Value;

pub(super) use self::{limits::LimitsManifest, sandbox::SandboxManifest};
use super::{InvalidManifest, Step};

/// Judges the values of one section. Every one that means nothing is told: who
/// puts one right should not find the next only then.
struct Judge<'f> {
    section: &'static str,
    faults: &'f mut Vec<InvalidManifest>,
}

/// How a value is written.
struct Form<T> {
    /// What people are told of it.
    wanted: &'static str,
    meaning: fn(&str) -> Option<T>,
}

impl Judge<'_> {
    /// Tells that the value at `keys` means nothing, and what would.
    fn refuse(&mut self, keys: impl IntoIterator<Item = Step>, wanted: &'static str) {
        let path = [key("spec"), key(self.section)].into_iter().chain(keys).collect();
        self.faults.push(InvalidManifest::Value { path, wanted });
    }

    /// The meaning of a value that is there; without any, that is told.
    fn read<T>(&mut self, name: &str, value: &Value, form: &Form<T>) -> Option<T> {
        let meant = match value {
            Value::Null => return None,
            Value::Number(number) => (form.meaning)(&number.to_string()),
            Value::String(text) => (form.meaning)(text),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        if meant.is_none() {
            self.refuse([key(name)], form.wanted);
        }
        meant
    }
}

fn key(name: &str) -> Step {
    Step::Key(name.to_owned())
}
