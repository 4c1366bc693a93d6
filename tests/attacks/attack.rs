//! Attacks, and the result that each tier promises.

use std::time::Duration;

use nix::errno::Errno;

use crate::{evidence::Evidence, outcome::Outcome, setting::Setting, targets::Targets};

/// Timeout of a request that should finish in time.
const PATIENCE: Duration = Duration::from_mins(1);

/// Timeout of the first request that should exceed it. A busy machine may begin the attack,
/// or answer, too late; each further request has twice the time.
const CUT_OFF: Duration = Duration::from_millis(1500);

/// Text on standard error before an attack that should exceed its timeout, and text of the
/// error of a request that exceeds it.
pub(crate) const BEGAN: &str = "the attack begins";
const DEADLINE: &str = "the client's deadline of";

/// Something a tenant tries.
#[derive(Debug)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) payload: Payload,
    /// The result in every tier that `except` does not name.
    pub(crate) expected: Expected,
    pub(crate) except: &'static [(Setting, Expected)],
    /// Settings in which the result depends on the machine.
    pub(crate) omitted: &'static [Setting],
    pub(crate) staging: Staging,
    /// Observation that shows the test that the attack worked.
    pub(crate) evidence: Evidence,
    /// UID and capabilities of the control run.
    pub(crate) user: User,
    /// Ways that some kernels or machines do not support.
    pub(crate) lacking: &'static [Lacking],
}

/// The code of an attack. It runs with the tenant's UID.
pub(crate) type Payload = fn(&Targets) -> Outcome;

/// The prefix of a way's name, the error it fails with, and the reason to print.
pub(crate) type Lacking = (&'static str, Errno, &'static str);

/// The required result of an attack. Unless it is `Residual`, the attack must
/// leave nothing behind and change nothing outside its own request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Every way is refused.
    Refused,
    /// It works because programs need it, and it leaves no evidence behind.
    Works,
    /// The supervisor or the kernel kills the request's processes, and the request fails
    /// with an error that contains this text.
    Told(&'static str),
    /// The supervisor kills the request's processes at its deadline, after the attack has
    /// begun.
    TimedOut,
    /// It works and the test sees the evidence. docs/security.md documents it.
    Residual,
    /// The request succeeds, with an empty answer.
    Nothing,
}

/// The plugin command that runs the attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staging {
    /// `generate`.
    Generate,
    /// `init`. `generate` must then work as if nothing had happened.
    Init,
    /// `generate`, with a timeout that it exceeds.
    CutOff,
}

/// Identity of a control run. It has the UID of a tenant unless noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// Has every capability that root has on this machine.
    Mighty,
    /// Like `Mighty`, but with UID 0: access to some files depends on the UID only.
    Root,
    /// Has no capability, so process limits apply and signals reach only the same
    /// UID. For payloads that would otherwise exhaust the machine.
    Plain,
    /// Has no capability, and all other processes have the same UID.
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
            omitted: &[],
        }
    }

    pub(crate) const fn except(self, except: &'static [(Setting, Expected)]) -> Self {
        Self { except, ..self }
    }

    pub(crate) const fn staged(self, staging: Staging) -> Self {
        Self { staging, ..self }
    }

    /// Sets the evidence of success.
    pub(crate) const fn seen(self, evidence: Evidence) -> Self {
        Self { evidence, ..self }
    }

    /// Makes the control run have no capabilities.
    pub(crate) const fn plain(self) -> Self {
        self.by(User::Plain)
    }

    /// Sets the identity of the control run.
    pub(crate) const fn by(self, user: User) -> Self {
        Self { user, ..self }
    }

    pub(crate) const fn lacking(self, lacking: &'static [Lacking]) -> Self {
        Self { lacking, ..self }
    }

    /// Leaves out settings in which the result depends on the machine.
    pub(crate) const fn omit(self, omitted: &'static [Setting]) -> Self {
        Self { omitted, ..self }
    }

    pub(crate) fn expected(&self, setting: Setting) -> Expected {
        let exception = |wanted| self.except.iter().find(|(other, _)| *other == wanted);
        let exception = exception(setting).or_else(|| exception(setting.kin()));
        exception.map_or(self.expected, |(_, expected)| *expected)
    }

    /// True if the attack uses a processor until a limit of its request stops it.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.expected, Expected::Told(flag) if flag.starts_with("--max-"))
    }

    /// True if its success kills processes of others.
    pub(crate) fn kills(&self) -> bool {
        matches!(self.evidence, Evidence::Leaves(texts) if texts.contains(&"killed"))
    }

    /// Attacks that exceed their timeout are slow, so each tier runs them in one
    /// setting only.
    pub(crate) fn is_for(&self, setting: Setting) -> bool {
        let is_slow = self.staging == Staging::CutOff;
        // A group gives access to files and sockets only.
        let is_reached = setting != Setting::Grouped
            || ["fs_", "ip_"].iter().any(|prefix| self.name.starts_with(prefix));
        !self.omitted.contains(&setting) && (!is_slow || setting == setting.kin()) && is_reached
    }

    pub(crate) fn timeout(&self) -> Duration {
        match self.staging {
            Staging::Generate | Staging::Init => PATIENCE,
            Staging::CutOff => CUT_OFF,
        }
    }
}

impl Expected {
    /// Fails if the answer differs from the promised one.
    pub(crate) fn judge(self, answer: &Result<Outcome, String>) -> Result<(), String> {
        let is_right = match (self, answer) {
            (Self::Refused, Ok(outcome)) => !outcome.is_done(),
            (Self::Works | Self::Residual, Ok(outcome)) => outcome.is_done(),
            (Self::Nothing, Ok(outcome)) => outcome.ways().is_empty(),
            (Self::Told(text), Err(error)) => error.contains(text),
            (Self::TimedOut, Err(error)) => error.contains(BEGAN) && error.contains(DEADLINE),
            (_, Ok(_) | Err(_)) => false,
        };
        is_right.then_some(()).ok_or_else(|| format!("expected {self:?}, got {answer:?}"))
    }
}
