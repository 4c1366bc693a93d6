//! The keys of a definition that follow from an observed run.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

use cmp_sandbox::{Tier, closed_by_mode};
use serde_json::{Map, Value, json};

use super::{
    LocalError,
    findings::{RunEnd, Seen},
    show,
};
use crate::{
    config::OutputFormat,
    event::{Refused, Used},
    request::Opening,
    settings::{Limit, MEMORY, OUTPUT, PROCESSES, Setting},
    yaml,
};

/// A limit is this many times the measured usage: other applications may be larger.
const HEAD_ROOM: u64 = 2;

/// Bytes in a MiB.
const MIB: u64 = 1 << 20;

/// Limits are multiples of these amounts.
const MEMORY_STEP: u64 = 64 * MIB;
const PROCESSES_STEP: u64 = 32;
const OUTPUT_STEP: u64 = MIB;

/// The keys for one plugin.
#[derive(Debug)]
pub(super) struct Proposal {
    plugin: String,
    end: RunEnd,
    tier: Option<Tier>,
    /// Refusals that made a process fail.
    needed: Vec<Refused>,
    /// Refusals that had no effect on the end of a process.
    tried: Vec<Refused>,
    /// The usage; `None` if no command ran.
    used: Option<Used>,
}

impl Proposal {
    /// Decides which refusals matter. Programs look for many files in vain, so a
    /// refusal matters if its process has failed. If the run failed and none has, any
    /// may matter.
    pub(super) fn new(seen: Seen, plugin: String, end: RunEnd) -> Self {
        let Seen { tier, refused, used } = seen;
        let refused: Vec<_> = refused.into_iter().filter(exists).collect();
        let has_culprit = refused.iter().any(|refused| refused.has_failed);
        let matters =
            |refused: &Refused| refused.has_failed || end == RunEnd::Failed && !has_culprit;
        let (needed, tried) = refused.into_iter().partition(matters);
        Self { plugin, end, tier, needed, tried, used }
    }

    /// The refusals, one line each. Those that neither matter nor have a remedy share
    /// one line.
    pub(super) fn refusals(&self) -> Vec<String> {
        let has_remedy = |refused: &&Refused| refused.opening.is_some();
        let lines = self.needed.iter().chain(self.tried.iter().filter(has_remedy)).map(line);
        let rest = self.tried.iter().filter(|refused| !has_remedy(refused));
        let rest: BTreeSet<String> =
            rest.map(|refused| format!("{} {}", refused.program, refused.what)).collect();
        let rest: Vec<String> = rest.into_iter().collect();
        let shared = format!("without effect: {}", rest.join("; "));
        lines.chain((!rest.is_empty()).then_some(shared)).collect()
    }

    /// Sentences about the run.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let Some(used) = &self.used else {
            return vec![
                "nothing was observed, because no command of the plugin started".to_owned(),
            ];
        };
        if used.lost > 0 {
            remarks.push(format!("{} refusals or processes were not observed", used.lost));
        }
        // In `namespaces`, requests get a copy.
        let is_uid = self.tier == Some(Tier::Uid);
        let closed = |path: String| closed_by_mode(Path::new(&path)).filter(|_| is_uid);
        let closed: BTreeSet<(PathBuf, u32)> =
            paths(&openings(&self.needed)).into_iter().filter_map(closed).collect();
        remarks.extend(closed.into_iter().map(|(path, mode)| {
            format!(
                "requests run under UIDs of their own, and `{}` has mode {mode:04o}: give others the \
                 right to read it (defaultMode: 0444 for a Secret)",
                path.display()
            )
        }));
        if self.end == RunEnd::Failed && self.sandbox(&self.needed).is_some() {
            remarks.push(
                "the first refusal may have ended the command: put the keys into the definition and \
                 run this again until nothing is refused"
                    .to_owned(),
            );
        }
        remarks
    }

    /// The keys as YAML for a definition, or everything as JSON.
    pub(super) fn show(&self, format: OutputFormat) -> Result<String, LocalError> {
        let spec = self.spec();
        if format == OutputFormat::Json {
            let Self { plugin, needed, tried, used, .. } = self;
            let all = json!({
                "plugin": plugin, "spec": spec, "needed": needed, "tried": tried, "used": used,
            });
            return show::text(&all, format);
        }
        if self.used.is_none() {
            return Ok(String::new());
        }
        let mut text = format!("# Plugin {}, as measured with this application.\n", self.plugin);
        text.push_str(&self.measured());
        if spec.is_empty() {
            text.push_str("# No key of spec.sandbox is missing.\n");
        } else {
            text.push_str(&yaml::write(&json!({"spec": spec})));
        }
        if let Some(sandbox) = self.sandbox(&self.tried) {
            text.push_str("# Refused too, but no process failed for it:\n");
            let optional = yaml::write(&json!({"spec": {"sandbox": sandbox}}));
            text.extend(optional.lines().flat_map(|line| ["# ", line, "\n"]));
        }
        text.push_str(&self.caches());
        Ok(text)
    }

    fn spec(&self) -> Map<String, Value> {
        let mut spec = Map::new();
        let mut sandbox = self.sandbox(&self.needed).unwrap_or_default();
        if !sandbox.contains_key("network") {
            sandbox.extend(self.least_network().map(|ports| ("network".to_owned(), ports)));
        }
        if !sandbox.is_empty() {
            spec.insert("sandbox".to_owned(), Value::Object(sandbox));
        }
        spec.extend(self.limits().map(|keys| ("limits".to_owned(), keys)));
        spec
    }

    /// `spec.sandbox` with the paths and ports that the plugin has already, so that the
    /// lists can replace its own; `None` if nothing is missing.
    fn sandbox(&self, refused: &[Refused]) -> Option<Map<String, Value>> {
        let openings = openings(refused);
        let mut keys = Map::new();
        keys.extend(self.read(&openings).map(|paths| ("read".to_owned(), paths)));
        keys.extend(self.network(&openings).map(|ports| ("network".to_owned(), ports)));
        (!keys.is_empty()).then_some(keys)
    }

    /// The paths to read. A path below another one is left out.
    fn read(&self, openings: &BTreeSet<&Opening>) -> Option<Value> {
        let missing = paths(openings);
        if missing.is_empty() {
            return None;
        }
        let own = self.used.iter().flat_map(|used| &used.read).map(ToString::to_string);
        let mut all: Vec<String> = own.collect();
        for path in missing {
            if !all.iter().any(|above| Path::new(&path).starts_with(above)) {
                all.push(path);
            }
        }
        Some(all.into())
    }

    fn network(&self, openings: &BTreeSet<&Opening>) -> Option<Value> {
        let port = |opening: &&Opening| match opening {
            Opening::Port(port) => Some(*port),
            Opening::Read(_) | Opening::AnyPort | Opening::Limit(_) => None,
        };
        let missing: BTreeSet<u16> = openings.iter().filter_map(port).collect();
        if missing.is_empty() {
            return openings.contains(&Opening::AnyPort).then(|| "any".into());
        }
        let own = self.used.as_ref().and_then(|used| used.ports.clone()).unwrap_or_default();
        Some(missing.into_iter().chain(own).collect::<BTreeSet<u16>>().into_iter().collect())
    }

    /// The ports that a complete run used, if the plugin may connect to more.
    fn least_network(&self) -> Option<Value> {
        let used = self.used.as_ref().filter(|_| self.end == RunEnd::Rendered)?;
        let own = used.ports.as_ref().map(|ports| ports.iter().copied().collect());
        if !used.is_online {
            return (own != Some(BTreeSet::new())).then(|| "none".into());
        }
        let is_less = !used.connected.is_empty() && own.as_ref() != Some(&used.connected);
        is_less.then(|| used.connected.iter().copied().collect())
    }

    /// A comment with caches that would keep downloads.
    fn caches(&self) -> String {
        let Some(used) = self.used.as_ref().filter(|used| !used.connected.is_empty()) else {
            return String::new();
        };
        let entry = |variable: &String| {
            let name = variable.to_lowercase().replace('_', "-");
            format!("#     - {{name: {name}, env: {variable}}}\n")
        };
        let entries: String = used.caches.iter().map(entry).collect();
        if entries.is_empty() {
            return entries;
        }
        format!(
            "# It downloads for each request. A cache keeps that; read about its risk in \
             docs/caches.md:\n# spec:\n#   sandbox:\n#     caches:\n{entries}"
        )
    }

    /// `spec.limits`, if the run was complete.
    fn limits(&self) -> Option<Value> {
        let used = self.used.as_ref().filter(|_| self.end == RunEnd::Rendered)?;
        let limits = [
            (&MEMORY, used.memory, MEMORY_STEP),
            (&PROCESSES, used.processes, PROCESSES_STEP),
            (&OUTPUT, used.output, OUTPUT_STEP),
        ];
        let measured = limits.into_iter().filter(|(_, used, _)| *used > 0);
        let keys =
            measured.map(|(row, used, step)| (row.key_name().to_owned(), limit(row, used, step)));
        Some(Value::Object(keys.collect()))
    }

    /// A comment with the measured usage.
    fn measured(&self) -> String {
        let Some(Used { memory, processes, output, .. }) = &self.used else {
            return String::new();
        };
        let (memory, output) = (rounded(&MEMORY, *memory), rounded(&OUTPUT, *output));
        let processes = match processes {
            1 => "1 process".to_owned(),
            more => format!("{more} processes and threads"),
        };
        let note = match self.end {
            RunEnd::Rendered => "the limits are twice as much, rounded up",
            RunEnd::Failed => "it failed, so there are no limits",
        };
        format!("# It used {memory} of memory, {processes}, and {output} of output: {note}.\n")
    }
}

fn line(refused: &Refused) -> String {
    let Refused { phase, what, program, advice, opening, has_failed, .. } = refused;
    let failed = if *has_failed { " and failed" } else { "" };
    let remedy = match opening {
        Some(Opening::Read(_)) => "spec.sandbox.read opens it".to_owned(),
        Some(Opening::Port(_)) => "spec.sandbox.network opens it".to_owned(),
        Some(Opening::AnyPort | Opening::Limit(_)) | None => advice.to_string(),
    };
    format!("{}: {program} could not {what}{failed}: {remedy}", phase.as_str())
}

/// False for a path that does not exist: naming it would be an error. The supervisor
/// cannot see all paths, and this process can.
fn exists(refused: &Refused) -> bool {
    let Some(Opening::Read(path)) = &refused.opening else { return true };
    let found = Path::new(path).symlink_metadata();
    !found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn openings(refused: &[Refused]) -> BTreeSet<&Opening> {
    refused.iter().filter_map(|refused| refused.opening.as_ref()).collect()
}

fn paths(openings: &BTreeSet<&Opening>) -> Vec<String> {
    let path = |opening: &&Opening| match opening {
        Opening::Read(path) => Some(path.clone()),
        Opening::Port(_) | Opening::AnyPort | Opening::Limit(_) => None,
    };
    openings.iter().filter_map(path).collect()
}

/// An amount for people. Above some MiB, smaller units are noise.
fn rounded(row: &Setting, bytes: u64) -> String {
    let unit = if bytes > 8 * MIB { MIB } else { 1 };
    row.say(bytes.next_multiple_of(unit))
}

/// The limit for a measured usage.
fn limit(row: &Setting, used: u64, step: u64) -> Value {
    let amount = used.saturating_mul(HEAD_ROOM).next_multiple_of(step);
    // A count is a number, and a size has a unit.
    let text = row.show(Limit(Some(amount)));
    text.parse::<u64>().map_or(Value::String(text), Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_process_is_one() {
        for (processes, expected) in [(1, " 1 process, "), (2, " 2 processes and threads, ")] {
            let used = Used { processes, ..Used::default() };
            let seen = Seen { used: Some(used), ..Seen::default() };
            let text = Proposal::new(seen, "a".to_owned(), RunEnd::Rendered).measured();
            assert!(text.contains(expected), "{text}");
        }
    }
}
