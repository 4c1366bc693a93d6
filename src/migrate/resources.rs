//! Requests and limits of all sidecars, and those of the new container.

use serde_json::{Value, json};

use super::{
    field::text,
    lists::Lists,
    plugin::Plugin,
    report::Report,
    sidecar::{Sidecar, is_at},
    volume::named,
};
use crate::{budget, config::MAX_MESSAGE_MIB};

const MIB: u64 = 1 << 20;

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

/// Units of Kubernetes' quantities.
const UNITS: [(&str, f64); 11] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("m", 0.001),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("u", 1e-6),
    ("n", 1e-9),
];

/// Resources of the new container.
#[derive(Debug)]
pub(super) struct Resources {
    pub(super) container: Value,
    /// Source of the work volume.
    pub(super) work: Value,
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
            work: work(plugins, lists, limit, report),
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

/// A work volume in memory, or the disk of the largest old volume if that is larger.
fn work(plugins: &[Plugin], lists: &Lists, limit: u64, report: &mut Report) -> Value {
    let (part, of) = WORK_PART;
    let size = budget::memory_of_requests(limit, MESSAGE) / of * part / STEP * STEP;
    let temporary = plugins.iter().flat_map(|plugin| plugin.sidecar.mounts());
    let volumes = temporary.filter(|mount| is_at(mount, "/tmp"));
    let volumes = volumes.filter_map(|mount| named(&lists.volumes, text(mount, "name")));
    let disks = volumes.filter(|volume| volume.pointer("/emptyDir/medium").is_none());
    let sized = disks.filter_map(|volume| {
        let source = volume.get("emptyDir")?;
        Some((bytes(quantity(source.get("sizeLimit")?)?), source.clone()))
    });
    let largest = sized.max_by_key(|(size, _)| *size);
    if let Some((_, source)) = largest.filter(|(disk, _)| *disk > size) {
        report.change(
            "the work volume is on the node's disk, because a sidecar's /tmp was larger than the \
             memory",
        );
        return source;
    }
    report.change(format!("the work volume is in memory, with {}", budget::show(size)));
    json!({"medium": "Memory", "sizeLimit": mebibytes(size)})
}

fn at<'s>(sidecar: &'s Sidecar, pointer: &str) -> Option<&'s Value> {
    let (key, rest) = pointer.strip_prefix('/')?.split_once('/')?;
    sidecar.field(key)?.pointer(&format!("/{rest}"))
}

/// A quantity of Kubernetes in its base unit: bytes or cores.
pub(super) fn quantity(value: &Value) -> Option<f64> {
    let Some(text) = value.as_str() else { return value.as_f64() };
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text, 1.0));
    number.trim().parse::<f64>().ok().map(|number| number * factor).filter(|n| *n >= 0.0)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn bytes(amount: f64) -> u64 {
    amount as u64
}

fn mebibytes(bytes: u64) -> String {
    format!("{}Mi", bytes.div_ceil(MIB))
}

fn cores(amount: f64) -> String {
    format!("{:.0}m", amount * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_the_units_of_kubernetes() {
        for (value, expected) in [
            (json!("1.5Gi"), 1_610_612_736.0),
            (json!("250m"), 0.25),
            (json!(2), 2.0),
            (json!("1e3"), 1000.0),
            (json!("2G"), 2e9),
        ] {
            assert_eq!(quantity(&value), Some(expected), "{value}");
        }
        assert_eq!(quantity(&json!("{{ .Values.memory }}")), None);
    }

    #[test]
    fn the_usual_volume_is_the_component_s() {
        let report = &mut Report::default();
        let source = work(&[], &Lists::default(), USUAL_LIMIT, report);
        assert_eq!(source, json!({"medium": "Memory", "sizeLimit": "1280Mi"}));
    }
}
