//! The container's limits, the budget, and the limits in force, with these options.

use std::path::Path;

use super::{Check, answer::answer};
use crate::{
    budget::Budget,
    config::Serve,
    container::{Container, is_killed_together, raise_descriptors},
    settings::{self, Setting},
};

/// Limits of the container and what follows from them.
pub(super) async fn container(options: &Serve) -> (Container, Budget, Vec<Check>) {
    // The start of a supervisor tells it.
    let _ = raise_descriptors();
    let work = options.work_dir();
    let subject = format!("the volume of {}", work.display());
    let (container, silent) = match answer(subject, move || Container::read(&work)).await {
        Ok(container) => (container, None),
        // Nothing is known of the volume then.
        Err(silent) => (Container::read(Path::new("")), Some(silent)),
    };
    let budget = Budget::derive(&container, &options.given());
    let share = |(name, amount, origin): (&str, String, &str)| {
        Check::note(format!("{name}: {amount} ({origin})"))
    };
    let mut checks: Vec<_> = silent.into_iter().chain(budget.rows().map(share)).collect();
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
    checks.push(killed_together(is_killed_together()));
    (container, budget, checks)
}

/// Tells which processes the kernel kills if the container has no memory left.
fn killed_together(together: bool) -> Check {
    if together {
        Check::note(
            "memory.oom.group is 1: if the container reaches its memory limit, the kernel kills \
             all of its processes, the supervisor included; the budget above, and ending the \
             largest request before, keep requests below the limit as far as they are measured",
        )
        .remedy(
            "demand cgroups for requests with --request-cgroups require, or set the kubelet's \
             singleProcessOOMKill",
        )
    } else {
        Check::fine(
            "if the container reaches its memory limit, the kernel kills single processes, \
             requests first",
        )
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_is_killed_as_a_whole_is_told_with_the_remedy() {
        let check = killed_together(true);
        let remedy = check.remedy.as_deref().unwrap_or_default();
        assert!(check.text.starts_with("memory.oom.group is 1: "), "{}", check.text);
        assert!(remedy.contains("--request-cgroups require"), "{remedy}");
        assert!(killed_together(false).remedy.is_none());
    }
}
