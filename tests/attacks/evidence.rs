//! The sign by which a test sees that an attack worked.

use crate::{attack::Expected, outcome::Outcome};

/// Seen after a control run, where it has to be, and after an attack on the
/// sandbox, where it must not be, unless the tier admits that it does not stop
/// the attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// Only the payload's report: the call succeeds and changes nothing.
    Report,
    /// Every proof in the report contains one of these texts. Only the target
    /// has them.
    Brings(&'static [&'static str]),
    /// The comparison with the state before has all of these texts.
    Leaves(&'static [&'static str]),
    /// These servers of the test were called.
    Calls(&'static [&'static str]),
    /// These paths are in the attacker's workspace.
    Makes(&'static [&'static str]),
    /// More of this than an arena's limit is in use.
    Takes(Resource),
    /// The command still runs at its deadline.
    Runs,
    /// The same, and SIGTERM does not end it.
    Outlives,
    /// The command ends with success and prints nothing.
    Silent,
    /// The command prints more than an arena's limit.
    Floods,
}

/// Something that a request has a limit of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Memory,
    Disk,
    Entries,
}

/// Observations of the test itself after an attack.
pub(crate) struct Seen<'a> {
    /// Differences to the state before, or nothing.
    pub(crate) left: &'a str,
    /// Servers that were called.
    pub(crate) calls: &'a [&'static str],
}

impl Evidence {
    /// Complains if the evidence of an attack in a tier contradicts the promise.
    pub(crate) fn judge(
        self,
        expected: Expected,
        answer: &Result<Outcome, String>,
        seen: &Seen<'_>,
    ) -> Result<(), String> {
        if let Ok(outcome) = answer {
            self.judge_proofs(outcome)?;
        }
        let may_call = matches!(expected, Expected::Works | Expected::Residual);
        let names = if let Self::Calls(names) = self
            && may_call
        {
            names
        } else {
            &[]
        };
        let is_known = seen.calls.iter().all(|name| names.contains(name));
        if !is_known || names.is_empty() != seen.calls.is_empty() {
            return Err(format!("calls reached {:?}, expected some of {names:?}", seen.calls));
        }
        let Self::Leaves(texts) = self else { return Ok(()) };
        let is_seen = texts.iter().any(|text| seen.left.contains(text));
        if expected == Expected::Residual && !is_seen {
            return Err(format!("it works here, and none of {texts:?} is seen: {:?}", seen.left));
        }
        Ok(())
    }

    /// Complains about a proof that proves nothing.
    pub(crate) fn judge_proofs(self, outcome: &Outcome) -> Result<(), String> {
        let Self::Brings(texts) = self else { return Ok(()) };
        let proves = |proof: &&String| texts.iter().any(|text| proof.contains(text));
        match outcome.proofs().find(|proof| !proves(proof)) {
            Some(proof) => Err(format!("{proof:?} has none of {texts:?}")),
            None => Ok(()),
        }
    }
}
