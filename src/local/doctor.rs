//! `doctor`: what `serve` would find here, and how to put right what is not.
//!
//! Isolation is not guessed: a supervisor is started for every tier, on
//! directories of its own, and attacks itself as it does before it serves.

mod finding;
mod isolation;
mod limits;
mod places;
mod process;
mod tools;

use cmp_sandbox::Tier;

use self::finding::{Finding, Findings, Section};
use super::{LocalError, show};
use crate::config::{Serve, TextFormat};

/// Prints what `serve` would find with these options.
pub async fn doctor(options: &Serve, format: TextFormat) -> Result<(), LocalError> {
    let mut findings = Findings::default();
    findings.add(Section::Process, process::look());
    let (is_isolated, tier) = match isolation::look(options).await {
        Ok(outcome) => {
            findings.add(Section::Isolation, outcome.findings);
            (outcome.is_had, outcome.tier)
        }
        // Of what was not tried nothing is known, and nothing is missed.
        Err(untried) => {
            findings.add(Section::Isolation, vec![untried]);
            (true, Tier::Namespaces)
        }
    };
    findings.add(Section::Places, places::look(options));
    let tools = tools::look(options, tier);
    findings.add(Section::Plugins, tools);
    findings.add(Section::Limits, limits::look(options));
    let text = match format {
        TextFormat::Text => findings.text(),
        TextFormat::Json => findings.json().map_err(|error| LocalError::Show(error.to_string()))?,
    };
    show::print(&text)?;
    match findings.failures() {
        _ if !is_isolated => Err(LocalError::Unisolated),
        0 => Ok(()),
        failures => Err(LocalError::Unhealthy { failures }),
    }
}
