//! `doctor`: checks this environment for `serve`, with a remedy for each problem.
//!
//! Isolation is tested: for each tier, a private supervisor starts and runs the
//! attacks of the trial.

mod accounts;
mod answer;
mod check;
mod isolation;
mod limits;
mod places;
mod process;
mod tools;

use cmp_sandbox::Tier;

use self::check::{Check, Checks, Section};
use super::{LocalError, show};
use crate::config::{Serve, TextFormat};

/// Checks the environment with these options of `serve`, and prints the result.
pub async fn doctor(options: &Serve, format: TextFormat) -> Result<(), LocalError> {
    let mut checks = Checks::default();
    checks.add(Section::Process, process::look());
    let (is_isolated, tier, landlock) = match isolation::look(options).await {
        Ok(outcome) => {
            checks.add(Section::Isolation, outcome.checks);
            (outcome.is_available, outcome.tier, outcome.landlock)
        }
        // Isolation could not be tested, so plugins are checked as if it were best.
        Err(untried) => {
            checks.add(Section::Isolation, vec![untried]);
            (true, Tier::Namespaces, 0)
        }
    };
    let (container, budget, resources) = limits::container(options).await;
    checks
        .add(Section::Places, places::look(options, &budget, container.memory.amount, tier).await);
    checks.add(Section::Plugins, tools::look(options, tier, landlock).await);
    checks.add(Section::Container, resources);
    checks.add(Section::Limits, limits::look(options, &budget));
    let text = match format {
        TextFormat::Text => checks.text(),
        TextFormat::Json => checks.json().map_err(|error| LocalError::Show(error.to_string()))?,
    };
    show::print(&text)?;
    match checks.failures() {
        _ if !is_isolated => Err(LocalError::Unisolated),
        0 => Ok(()),
        failures => Err(LocalError::Unhealthy { failures }),
    }
}
