//! Attacks, and the result that each tier promises.

use std::time::Duration;

use nix::errno::Errno;

use crate::{evidence::Evidence, outcome::Outcome, setting::Setting, targets::Targets};

/// Deadline of a request that is not meant to exceed it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Deadline of a request that is.
const CUT_OFF: Duration = Duration::from_millis(1500);

/// Something a tenant tries.
#[derive(Debug)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) payload: Payload,
    /// The same in every tier, except for those named in `except`.
    pub(crate) expected: Expected,
    pub(crate) except: &'static [(Setting, Expected)],
    pub(crate) staging: Staging,
    /// The sign by which the test sees that it worked.
    pub(crate) evidence: Evidence,
    /// User of the control run.
    pub(crate) user: User,
    /// Ways that a kernel or a machine may lack.
    pub(crate) lacking: &'static [Lacking],
}

/// Runs as the tenant.
pub(crate) type Payload = fn(&Targets) -> Outcome;

/// The beginning of a way's name, its error, and the reason for people.
pub(crate) type Lacking = (&'static str, Errno, &'static str);

/// The required result of an attack. Nothing may be left afterwards and nobody
/// may be hurt, except where `Residual` says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Every way is refused.
    Refused,
    /// It works because programs need it, and leaves no evidence behind.
    Works,
    /// The request is ended by force, and fails.
    Stopped,
    /// The same, and the error contains this text.
    Told(&'static str),
    /// It works and the evidence is seen. docs/security.md admits it.
    Residual,
    /// The request succeeds, with an empty answer.
    Nothing,
}

/// The command of the plugin that attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staging {
    /// `generate`.
    Generate,
    /// `init`. `generate` must then work as if nothing had happened.
    Init,
    /// `generate`, with a deadline that it exceeds.
    CutOff,
}

/// The user of a control run, with the UID of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// With every capability that root has on this machine.
    Mighty,
    /// The same, and UID 0: for files that look at the UID only.
    Root,
    /// Without any, so that limits of processes apply and signals stay with
    /// the UID. For payloads that would exhaust the machine.
    Plain,
    /// Without any, and everybody else has the same UID.
    Owner,
}

impl Attack {
    pub(crate) const fn new(name: &'static str, payload: Payload, expected: Expected) -> Self {
        Self {
            name,
            payload,
            expected,
            except: &[],
            staging: Staging::Generate,
            evidence: Evidence::Report,
            user: User::Mighty,
            lacking: &[],
        }
    }

    pub(crate) const fn except(self, except: &'static [(Setting, Expected)]) -> Self {
        Self { except, ..self }
    }

    pub(crate) const fn staged(self, staging: Staging) -> Self {
        Self { staging, ..self }
    }

    /// With this evidence of a success.
    pub(crate) const fn seen(self, evidence: Evidence) -> Self {
        Self { evidence, ..self }
    }

    /// Without capabilities in the control run.
    pub(crate) const fn plain(self) -> Self {
        self.by(User::Plain)
    }

    /// As another user in the control run.
    pub(crate) const fn by(self, user: User) -> Self {
        Self { user, ..self }
    }

    pub(crate) const fn lacking(self, lacking: &'static [Lacking]) -> Self {
        Self { lacking, ..self }
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
    /// Complains if an answer is not the promised one.
    pub(crate) fn judge(self, answer: &Result<Outcome, String>) -> Result<(), String> {
        let is_right = match (self, answer) {
            (Self::Refused, Ok(outcome)) => !outcome.is_done(),
            (Self::Works | Self::Residual, Ok(outcome)) => outcome.is_done(),
            (Self::Nothing, Ok(outcome)) => outcome.ways().is_empty(),
            (Self::Stopped, Err(_)) => true,
            (Self::Told(text), Err(error)) => error.contains(text),
            (_, Ok(_) | Err(_)) => false,
        };
        is_right.then_some(()).ok_or_else(|| format!("expected {self:?}, got {answer:?}"))
    }
}
