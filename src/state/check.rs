//! The checks behind `/readyz` and `/livez`, printed as components of
//! Kubernetes print theirs.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::{Deserialize, Serialize};
use tokio::sync::watch::Sender;
use tracing::{info, warn};

use super::State;

/// A part of the supervisor whose condition others report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// The process that gives leases.
    Spawner,
    /// The leases, some of which may be quarantined.
    Leases,
    /// The directory of workspaces and its volume.
    WorkVolume,
    /// The directory of sockets.
    Sockets,
}

/// The condition of a component, with details for its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It works.
    Good(String),
    /// It works, but requests wait for it, for this reason.
    Strained(String),
    /// It does not work; the supervisor is not ready.
    Bad(String),
}

/// The result of one check.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name, as in `[+]name ok`.
    pub name: String,
    /// False if the supervisor is not ready because of it.
    pub ok: bool,
    /// The reason or details; may be empty.
    pub detail: String,
    /// True if requests wait because of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strained: bool,
}

impl Check {
    fn new(name: &str, ok: bool, detail: String) -> Self {
        Self { name: name.to_owned(), ok, detail, strained: false }
    }
}

impl Component {
    const fn name(self) -> &'static str {
        match self {
            Self::Spawner => "spawner",
            Self::Leases => "leases",
            Self::WorkVolume => "work-volume",
            Self::Sockets => "sockets",
        }
    }

    /// True if only a restart of the container can repair it.
    const fn is_vital(self) -> bool {
        matches!(self, Self::Spawner)
    }
}

/// Sets the condition of a component. Readers of the state wake up only if it
/// has changed.
pub fn report(states: &Sender<State>, component: Component, condition: Condition) {
    states.send_if_modified(|state| {
        let was_bad = matches!(state.conditions.get(&component), Some(Condition::Bad(_)));
        match &condition {
            Condition::Bad(reason) if !was_bad => {
                warn!(check = component.name(), reason, "not ready: a check fails");
            }
            Condition::Good(_) | Condition::Strained(_) if was_bad => {
                info!(check = component.name(), "a check passes again");
            }
            Condition::Bad(_) | Condition::Good(_) | Condition::Strained(_) => {}
        }
        let known = state.conditions.insert(component, condition);
        known.as_ref() != state.conditions.get(&component)
    });
}

/// Prints checks, one line each, and the result for the whole page.
#[must_use]
pub fn print(page: &str, checks: &[Check]) -> String {
    let mut text = String::new();
    for Check { name, ok, detail, .. } in checks {
        let (sign, result) = if *ok { ('+', "ok") } else { ('-', "failed") };
        let separator = if detail.is_empty() { "" } else { ": " };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "[{sign}]{name} {result}{separator}{}", one_line(detail));
    }
    let result = if checks.iter().all(|check| check.ok) { "passed" } else { "failed" };
    let _ = writeln!(text, "{page} check {result}");
    text
}

/// Details contain errors, which may have several lines.
fn one_line(detail: &str) -> String {
    detail.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// The checks of a state. Each is ready if all of them are good.
pub(super) fn readiness(state: &State) -> Vec<Check> {
    let mut checks = vec![
        Check::new("startup", state.started, startup(state)),
        Check::new("shutdown", !state.stopping, shutdown(state)),
        Check::new("definitions", true, definitions(state)),
        Check::new("plugins", !state.serves_none(), plugins(state)),
    ];
    checks.extend(components(&state.conditions, |_| true));
    checks
}

/// The checks whose failure only a restart can repair.
pub(super) fn liveness(state: &State) -> Vec<Check> {
    // This page was answered, so the supervisor's threads run.
    let http = Check::new("http", true, String::new());
    let vital = components(&state.conditions, Component::is_vital);
    std::iter::once(http).chain(vital).collect()
}

fn components(
    conditions: &BTreeMap<Component, Condition>,
    is_wanted: impl Fn(Component) -> bool,
) -> impl Iterator<Item = Check> {
    conditions.iter().filter(move |(component, _)| is_wanted(**component)).map(
        |(component, condition)| {
            let (ok, strained, detail) = match condition {
                Condition::Good(detail) => (true, false, detail),
                Condition::Strained(reason) => (true, true, reason),
                Condition::Bad(reason) => (false, false, reason),
            };
            Check { strained, ..Check::new(component.name(), ok, detail.clone()) }
        },
    )
}

fn shutdown(state: &State) -> String {
    if state.stopping { "stopping" } else { "" }.to_owned()
}

fn startup(state: &State) -> String {
    if state.started { String::new() } else { "no plugin has been served yet".to_owned() }
}

fn definitions(state: &State) -> String {
    let problems = state.problems.len();
    let mut parts = vec![format!("generation {}", state.generation)];
    if problems > 0 {
        parts.push(format!("{problems} with problems"));
    }
    if let Some(kept) = &state.kept {
        parts.push(format!("serving the last good ones: {}", kept.reason));
    }
    parts.join(", ")
}

fn plugins(state: &State) -> String {
    let (served, desired) = (state.served.len(), state.desired.len());
    if desired == 0 {
        return "no plugin is defined, so none is served".to_owned();
    }
    let mut text = format!("{served} of {desired} served");
    for (name, reason) in &state.failed {
        let _ = write!(text, "; not served: {name}: {reason}");
    }
    for (name, reasons) in &state.unusable {
        let _ = write!(text, "; not up: {name}: {}", reasons.join("; "));
    }
    text
}
