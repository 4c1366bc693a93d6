//! Evidence by which a test sees that an attack worked.

use crate::{attack::Expected, outcome::Outcome};

/// A control run must produce this evidence. An attack on the sandbox must not,
/// unless the tier is documented not to stop it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The payload's report is the only evidence: the call changes nothing.
    Report,
    /// Every proof in the report contains one of these texts, which only the target
    /// holds.
    Brings(&'static [&'static str]),
    /// The comparison with the state before contains these texts: all of them after
    /// a control run, at least one after an attack on the sandbox.
    Leaves(&'static [&'static str]),
    /// The attack called these servers of the test.
    Calls(&'static [&'static str]),
    /// These paths exist in the attacker's workspace.
    Makes(&'static [&'static str]),
    /// The attack uses more of this resource than an arena's limit.
    Takes(Resource),
    /// The command still runs at its deadline.
    Runs,
    /// Like `Runs`, and SIGTERM does not end the command.
    Outlives,
    /// The command ends with success and prints nothing.
    Silent,
    /// The command prints more than an arena's limit.
    Floods,
}

/// A resource that is limited for each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Memory,
    Disk,
    Entries,
}

/// The test's own observations after an attack.
pub(crate) struct Seen<'a> {
    /// Differences to the state before. Empty if there are none.
    pub(crate) left: &'a str,
    /// Servers that were called.
    pub(crate) calls: &'a [&'static str],
}

impl Evidence {
    /// Fails if the evidence of an attack contradicts the promise of the tier.
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
            return Err(format!(
                "it works in this tier, but the comparison has none of {texts:?}: {:?}",
                seen.left
            ));
        }
        Ok(())
    }

    /// Fails if a proof contains none of the expected texts.
    pub(crate) fn judge_proofs(self, outcome: &Outcome) -> Result<(), String> {
        let Self::Brings(texts) = self else { return Ok(()) };
        let proves = |proof: &&String| texts.iter().any(|text| proof.contains(text));
        match outcome.proofs().find(|proof| !proves(proof)) {
            Some(proof) => Err(format!("{proof:?} has none of {texts:?}")),
            None => Ok(()),
        }
    }
}
