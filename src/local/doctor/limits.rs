//! The container's limits, the budget, and the limits in force, with these options.

use super::Check;
use crate::{
    budget::Budget,
    config::Serve,
    container::{Container, raise_descriptors},
    settings::{self, Setting},
};

/// Limits of the container and what follows from them.
pub(super) fn container(options: &Serve) -> (Budget, Vec<Check>) {
    raise_descriptors();
    let container = Container::read(&options.work_dir());
    let budget = Budget::derive(&container, &options.given());
    let share = |(name, amount, origin): (&str, String, &str)| {
        Check::note(format!("{name}: {amount} ({origin})"))
    };
    let mut checks: Vec<_> = budget.rows().map(share).into();
    checks.push(Check::note(format!(
        "processors: {} ({})",
        container.processors(),
        container.cpu.source
    )));
    let warning = |text: &String| match text.rsplit_once(": ") {
        Some((text, remedy)) => Check::warning(text).remedy(remedy),
        None => Check::warning(text),
    };
    checks.extend(budget.warnings.iter().map(warning));
    (budget, checks)
}

pub(super) fn look(options: &Serve, budget: &Budget) -> Vec<Check> {
    let ports = shown(&settings::NETWORK, &options.network.to_string());
    let limits = options.limits(budget).into_iter();
    let limits = limits.map(|(row, limit)| shown(row, &row.show(limit)));
    [ports].into_iter().chain(limits).collect()
}

fn shown(row: &Setting, value: &str) -> Check {
    let flag = row.flag.map_or("", |flag| flag.name);
    Check::note(format!("--{flag}: {value} ({}: {})", row.heading.title(), row.about))
}
