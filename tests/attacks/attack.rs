//! What is tried, and what each tier promises to come of it.

use std::time::Duration;

use crate::{setting::Setting, targets::Targets};

/// How long a request may take that is not meant to be cut off.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long one may take that is.
const CUT_OFF: Duration = Duration::from_millis(1500);

/// Something a tenant tries.
#[derive(Debug)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) payload: Payload,
    /// The same in every tier, but for those named in `except`.
    pub(crate) expected: Expected,
    pub(crate) except: &'static [(Setting, Expected)],
    pub(crate) staging: Staging,
}

/// Runs as the tenant.
pub(crate) type Payload = fn(&Targets) -> Outcome;

/// What a payload could do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It worked: an escape, unless it is something that every tenant may do.
    Done(String),
    /// It was refused.
    Refused(String),
}

/// What must come of an attack. That nothing is left afterwards and nobody is
/// hurt holds for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// It is refused.
    Refused,
    /// It works, because programs need it.
    Works,
    /// It may work or fail, or end its own request: only the aftermath counts.
    Harmless,
    /// The request is ended by force, and fails.
    Stopped,
    /// It is, and the error says this.
    Told(&'static str),
    /// It works here, and docs/security.md says so. Newer kernels may refuse it.
    Residual,
}

/// Which command of the plugin attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staging {
    /// `generate`.
    Generate,
    /// `init`, and `generate` must then work as if nothing had happened.
    Init,
    /// `generate`, with so little time that it is cut off.
    CutOff,
}

impl Attack {
    pub(crate) const fn new(name: &'static str, payload: Payload, expected: Expected) -> Self {
        Self { name, payload, expected, except: &[], staging: Staging::Generate }
    }

    pub(crate) const fn except(self, except: &'static [(Setting, Expected)]) -> Self {
        Self { except, ..self }
    }

    pub(crate) const fn staged(self, staging: Staging) -> Self {
        Self { staging, ..self }
    }

    pub(crate) fn expected(&self, setting: Setting) -> Expected {
        let exception = |wanted| self.except.iter().find(|(other, _)| *other == wanted);
        let exception = exception(setting).or_else(|| exception(setting.kin()));
        exception.map_or(self.expected, |(_, expected)| *expected)
    }

    /// Those that take the longest are tried once in each tier.
    pub(crate) fn is_for(&self, setting: Setting) -> bool {
        self.staging != Staging::CutOff || setting == setting.kin()
    }

    pub(crate) fn timeout(&self) -> Duration {
        match self.staging {
            Staging::Generate | Staging::Init => PATIENCE,
            Staging::CutOff => CUT_OFF,
        }
    }
}

impl Expected {
    /// Complains if an answer is not what was promised.
    pub(crate) fn judge(self, answer: &Result<Outcome, String>) -> Result<(), String> {
        match (self, answer) {
            (Self::Refused | Self::Residual, Ok(Outcome::Refused(_)))
            | (Self::Works | Self::Residual, Ok(Outcome::Done(_)))
            | (Self::Stopped, Err(_))
            | (Self::Harmless, _) => Ok(()),
            (Self::Told(text), Err(error)) if error.contains(text) => Ok(()),
            (_, answer) => Err(format!("expected it to be {self:?}, but: {answer:?}")),
        }
    }
}

/// What a result means for whoever tried.
pub(crate) fn tried<T, E: std::fmt::Display>(result: Result<T, E>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done("it worked".to_owned()),
        Err(error) => Outcome::Refused(error.to_string()),
    }
}

/// Several ways to the same end: one that works is enough.
pub(crate) fn any(ways: impl IntoIterator<Item = (&'static str, Outcome)>) -> Outcome {
    let mut refused = Vec::new();
    for (way, outcome) in ways {
        match outcome {
            Outcome::Done(how) => return Outcome::Done(format!("{way}: {how}")),
            Outcome::Refused(why) => refused.push(format!("{way}: {why}")),
        }
    }
    Outcome::Refused(refused.join("; "))
}
