//! Advice about an access that the sandbox refused.

use std::path::Path;

use cmp_sandbox::{Attempt, Bounds, Refusal};
use serde::{Deserialize, Serialize};

use super::{READ_ONLY, denial::Denial, reach::Reach};
use crate::settings::Setting;

/// The key of a definition that opens something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// This path in `spec.sandbox.read`.
    Read(String),
    /// This port in `spec.sandbox.network`.
    Port(u16),
    /// `any` as `spec.sandbox.network`.
    AnyPort,
    /// A higher value for this key of `spec.limits`.
    Limit(String),
}

/// A sentence, and the key that opens what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The sentence.
    pub text: String,
    /// The key; `None` if no key should be set.
    pub opening: Option<Opening>,
}

impl Advice {
    pub(super) fn by(opening: Opening, text: String) -> Self {
        Self { text, opening: Some(opening) }
    }

    /// The advice to raise a limit. `own` is true if the plugin's definition sets it.
    pub(super) fn raise(row: &Setting, own: bool, fact: &str) -> Self {
        let text = format!("{fact}: {}", row.raise(own));
        Self::by(Opening::Limit(row.key_name().to_owned()), text)
    }

    pub(super) fn only(text: impl Into<String>) -> Self {
        Self { text: text.into(), opening: None }
    }
}

impl Reach {
    /// The advice about an observed refusal; `None` if the sandbox has no part in it.
    /// This accesses the path.
    pub(in crate::request) fn advise(&self, bounds: &Bounds, refusal: &Refusal) -> Option<Advice> {
        match &refusal.attempt {
            Attempt::Connect(port) => {
                let denial = Denial::Connect { port: Some(*port), is_certain: true };
                self.port(&bounds.network, &denial)
            }
            Attempt::Listen(_) => self.port(&bounds.network, &Denial::Listen),
            Attempt::Internet => Some(Advice::only(
                "it has no network: name its TCP ports in spec.sandbox.network, for example 443",
            )),
            Attempt::Limit(_) => None,
            Attempt::UnixSocket => Some(Advice::only(
                "requests have no Unix sockets without UIDs of their own, or with a group of the Pod \
                 for a Secret of mode 0440: --isolation uid with defaultMode: 0444, and --isolation \
                 namespaces, have them",
            )),
            Attempt::SocketFile(path) => self.path(bounds, &Denial::Socket(path.clone())),
            Attempt::Read(path) | Attempt::Execute(path) if refusal.is_absence() => {
                self.hidden(bounds, path)
            }
            Attempt::Execute(path) if self.is_own(path) => Some(Advice::only(
                "files of the repository are not executable: set spec.preserveFileMode, or name \
                 the interpreter",
            )),
            Attempt::Write(path) if bounds.is_read_only && self.is_own(path) => {
                Some(Advice::only(READ_ONLY))
            }
            Attempt::Read(path) | Attempt::Write(path) if self.is_own(path) => {
                Some(Advice::only(format!("the sandbox closes `{path}`, and no key opens it")))
            }
            Attempt::Write(path) => self.path(bounds, &Denial::Write(path.clone())),
            Attempt::Read(path) | Attempt::Execute(path) if refusal.is_write_protected() => {
                self.path(bounds, &Denial::Write(path.clone()))
            }
            Attempt::Read(path) | Attempt::Execute(path) => {
                self.path(bounds, &Denial::Path(path.clone()))
            }
        }
    }

    /// The advice about a file that is missing in the sandbox, if it may exist outside.
    /// `render --observe` looks again, with more rights.
    fn hidden(&self, bounds: &Bounds, path: &str) -> Option<Advice> {
        let exists =
            self.readable.as_ref().is_some_and(|readable| readable.may_exist(Path::new(path)));
        let absent = || self.path(bounds, &Denial::Absent(path.to_owned()));
        let closed = || self.path(bounds, &Denial::Path(path.to_owned()));
        if exists { absent().or_else(closed) } else { None }
    }

    fn is_own(&self, path: &str) -> bool {
        self.readable.as_ref().is_some_and(|readable| readable.is_own(Path::new(path)))
    }
}
