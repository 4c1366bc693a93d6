//! Requests and limits of all sidecars, and those of the new container.

use serde_json::{Value, json};

use super::{
    lists::Lists,
    plugin::Plugin,
    quantity::{MIB, bytes, mebibytes, quantity},
    report::Report,
    sidecar::Sidecar,
    work::{Source, work},
};
use crate::{budget, config::MAX_MESSAGE_MIB};

/// Longest gRPC message, if no variable sets another.
const MESSAGE: u64 = MAX_MESSAGE_MIB as u64 * MIB;

/// Memory limit of the component in deploy/kustomize, and the part of all sidecars without one.
const USUAL_LIMIT: u64 = 2048 * MIB;

/// Requests of that component.
const LEAST_REQUEST: u64 = 256 * MIB;
const LEAST_CPU: f64 = 0.1;

/// The work volume is this much smaller than the memory of all requests.
const WORK_PART: (u64, u64) = (23, 25);

/// Sizes are multiples of this.
const STEP: u64 = 64 * MIB;

/// Resources of the new container.
#[derive(Debug)]
pub(super) struct Resources {
    pub(super) container: Value,
    /// Source of the work volume.
    pub(super) work: Source,
}

impl Resources {
    pub(super) fn new(plugins: &mut [Plugin], lists: &Lists, report: &mut Report) -> Self {
        let amounts = |key| Amounts::of(plugins, key);
        let (limits, requests) =
            (amounts("/resources/limits/memory"), amounts("/resources/requests/memory"));
        let cpu = amounts("/resources/requests/cpu");
        let are_all = |amounts: &Amounts| amounts.found == plugins.len();
        let limit = limit(&limits, if are_all(&limits) { 0 } else { USUAL_LIMIT });
        let request = bytes(requests.most).max(LEAST_REQUEST).min(limit);
        let cpu_request = cpu.most.max(LEAST_CPU);
        report.summary(format!(
            "Memory limit: {} now, {} before. Memory request: {} now, {} before.",
            budget::show(limit),
            limits.shown(are_all(&limits), |sum| budget::show(bytes(sum))),
            budget::show(request),
            requests.shown(are_all(&requests), |sum| budget::show(bytes(sum))),
        ));
        report.summary(format!(
            "CPU request: {} now, {} before. Measured idle: 667 MB for ten argocd-cmp-server, \
             and 23 MB for one cmp-supervisor with ten plugins.",
            cores(cpu_request),
            cpu.shown(are_all(&cpu), cores),
        ));
        if plugins.iter().any(|p| at(&p.sidecar, "/resources/limits/cpu").is_some()) {
            report.change("CPU limits were removed: they slow down all plugins at once");
        }
        warn_of_new_limits(plugins, limit, report);
        raise(plugins, limit);
        Self {
            container: json!({
                "requests": {"cpu": cores(cpu_request), "memory": mebibytes(request)},
                "limits": {"memory": mebibytes(limit)},
            }),
            work: work(plugins, lists, work_size(limit), report),
        }
    }
}

/// One resource of all sidecars.
struct Amounts {
    sum: f64,
    most: f64,
    /// Number of sidecars that state it.
    found: usize,
}

impl Amounts {
    /// The sum for people, or that there is none.
    fn shown(&self, is_all: bool, show: impl Fn(f64) -> String) -> String {
        match self.found {
            0 => "none".to_owned(),
            _ if is_all => show(self.sum),
            _ => format!("{} (some sidecars have none)", show(self.sum)),
        }
    }

    fn of(plugins: &[Plugin], pointer: &str) -> Self {
        let stated = plugins.iter().filter_map(|plugin| quantity(at(&plugin.sidecar, pointer)?));
        let stated = stated.filter(|amount| *amount > 0.0);
        let none = Self { sum: 0.0, most: 0.0, found: 0 };
        stated.fold(none, |all, amount| Self {
            sum: all.sum + amount,
            most: all.most.max(amount),
            found: all.found + 1,
        })
    }
}

/// As much as all sidecars together, but enough for one request with the memory of
/// the largest sidecar, and no more than for two of them. `unlimited` is the part of the sidecars
/// without a limit, and the least that they all get.
fn limit(limits: &Amounts, unlimited: u64) -> u64 {
    let largest = bytes(limits.most);
    let least = budget::container_for_requests(largest, MESSAGE).max(unlimited);
    let most = budget::container_for_requests(largest.saturating_mul(2), MESSAGE);
    bytes(limits.sum).saturating_add(unlimited).clamp(least, most.max(least))
}

/// Tells which plugins have a limit only now. Another line tells of limits that are no numbers.
fn warn_of_new_limits(plugins: &[Plugin], limit: u64, report: &mut Report) {
    let is_none = |limit: &Value| quantity(limit).is_some_and(|amount| amount <= 0.0);
    let has_none =
        |plugin: &&Plugin| at(&plugin.sidecar, "/resources/limits/memory").is_none_or(is_none);
    let names: Vec<_> = plugins.iter().filter(has_none).map(|p| p.name.as_str()).collect();
    let (noun, its) = match names.as_slice() {
        [] => return,
        [_] => ("plugin", "its sidecar"),
        [..] => ("plugins", "their sidecars"),
    };
    report.check(format!(
        "{noun} `{}`: {its} had no memory limit. The new container has {} for all plugins, and a \
         request gets {} of it: for more, raise the container's limit and set spec.limits.memory",
        names.join("`, `"),
        budget::show(limit),
        budget::show(share(limit)),
    ));
}

/// Memory of a request by default.
fn share(limit: u64) -> u64 {
    budget::memory_of_requests(limit, MESSAGE) / 2
}

/// Lets requests of larger sidecars have as much memory as before.
fn raise(plugins: &mut [Plugin], limit: u64) {
    let usual = share(limit);
    for plugin in plugins {
        let had = at(&plugin.sidecar, "/resources/limits/memory").and_then(quantity).map(bytes);
        plugin.edit.memory = had.filter(|had| *had > usual).map(mebibytes);
    }
}

/// Size of a work volume in memory.
fn work_size(limit: u64) -> u64 {
    let (part, of) = WORK_PART;
    budget::memory_of_requests(limit, MESSAGE) / of * part / STEP * STEP
}

fn at<'s>(sidecar: &'s Sidecar, pointer: &str) -> Option<&'s Value> {
    let (key, rest) = pointer.strip_prefix('/')?.split_once('/')?;
    sidecar.field(key)?.pointer(&format!("/{rest}"))
}

fn cores(amount: f64) -> String {
    format!("{:.0}m", amount * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_volume_is_the_component_s() {
        assert_eq!(mebibytes(work_size(USUAL_LIMIT)), "1280Mi");
    }
}
