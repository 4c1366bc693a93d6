//! `spec.sandbox`.

use std::path::{Component, Path};

use cmp_sandbox::{Cache, Network, Tier};
use serde::Deserialize;
use serde_json::Value;

use super::{Judge, MAX_LIST, TOO_LONG, key};
use crate::plugin::{
    confinement::{Sandbox, TOKENS},
    manifest::{InvalidManifest, Step},
    variable::VariablePattern,
};

/// Longest name of a cache in bytes: `NAME_MAX` of Linux file systems.
const MAX_NAME: usize = 255;

/// Paths that no plugin may read, nor any directory above them: processes and
/// devices of the whole Pod.
const CLOSED: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Variables that tell every command where it is and what it runs.
const GIVEN: [&str; 4] = ["PATH", "HOME", "TMPDIR", "PWD"];

/// Beginnings of names that are Argo CD's, the dynamic linker's and ours.
const GIVEN_PREFIXES: [&str; 5] = ["ARGOCD_", "KUBE_", "PARAM_", "LD_", "CMP_SUPERVISOR_"];

/// `spec.sandbox`, field for field.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::plugin::manifest) struct SandboxManifest {
    minimum_isolation: String,
    env: Option<Vec<String>>,
    network: Value,
    read: Vec<String>,
    caches: Vec<Option<CacheManifest>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CacheManifest {
    name: String,
    env: String,
}

impl SandboxManifest {
    /// Its meaning. Invalid values are reported, and left out.
    pub(in crate::plugin::manifest) fn define(self, faults: &mut Vec<InvalidManifest>) -> Sandbox {
        let mut judge = Judge { section: "sandbox", faults };
        let minimum_isolation = isolation(&self.minimum_isolation, &mut judge);
        let variables = self.env.map(|names| variables(&names, &mut judge));
        let network = network(&self.network);
        if network.is_none() && !self.network.is_null() {
            judge.refuse([key("network")], "TCP ports, for example [22, 443], or any, or none");
        }
        for (name, length) in [("read", self.read.len()), ("caches", self.caches.len())] {
            if length > MAX_LIST {
                judge.refuse([key(name)], TOO_LONG);
            }
        }
        for (index, path) in self.read.iter().enumerate().take(MAX_LIST) {
            if let Some(expected) = unreadable(path) {
                judge.refuse([key("read"), Step::Index(index)], expected);
            }
        }
        let caches = caches(self.caches, &mut judge);
        Sandbox {
            minimum_isolation,
            variables,
            network,
            read: self.read,
            secrets: Vec::new(),
            caches,
        }
    }
}

fn isolation(word: &str, judge: &mut Judge<'_>) -> Option<Tier> {
    let isolation = Tier::ALL.into_iter().find(|tier| tier.as_str() == word);
    if isolation.is_none() && !word.is_empty() {
        judge.refuse([key("minimumIsolation")], "landlock, uid or namespaces");
    }
    isolation
}

fn variables(names: &[String], judge: &mut Judge<'_>) -> Vec<VariablePattern> {
    let mut patterns = Vec::new();
    for (index, name) in names.iter().enumerate() {
        match VariablePattern::new(name) {
            Some(pattern) => patterns.push(pattern),
            None => judge.refuse(
                [key("env"), Step::Index(index)],
                "the name of a variable, without `$`; `*` stands for any text",
            ),
        }
    }
    patterns
}

fn network(value: &Value) -> Option<Network> {
    let port = |value: &Value| u16::try_from(value.as_u64()?).ok().filter(|port| *port > 0);
    match value {
        Value::String(word) if word == "any" => Some(Network::Any),
        Value::String(word) if word == "none" => Some(Network::None),
        Value::Array(ports) if ports.is_empty() => Some(Network::None),
        Value::Array(ports) => ports.iter().map(port).collect::<Option<_>>().map(Network::Ports),
        Value::Null | Value::String(_) | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            None
        }
    }
}

/// The paths that are expected instead of one that must not be read.
fn unreadable(path: &str) -> Option<&'static str> {
    if path.contains('\0') {
        return Some("a path without NUL");
    }
    let path = Path::new(path);
    let is_above = |closed: &&str| Path::new(closed).starts_with(path);
    let is_around = |closed: &&str| path.starts_with(closed) || is_above(closed);
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        Some("an absolute path without `..`")
    } else if CLOSED.iter().any(is_around) {
        Some("a path that exposes no processes or devices of the Pod")
    } else if TOKENS.iter().any(is_above) {
        Some("the path of one token, instead of one that exposes all tokens of the Pod")
    } else {
        None
    }
}

fn caches(manifests: Vec<Option<CacheManifest>>, judge: &mut Judge<'_>) -> Vec<Cache> {
    let mut caches = Vec::new();
    for (index, manifest) in manifests.into_iter().enumerate().take(MAX_LIST) {
        let CacheManifest { name, env } = manifest.unwrap_or_default();
        let mut refuse = |field, expected: String| {
            judge.refuse([key("caches"), Step::Index(index), key(field)], expected);
        };
        let same_name = caches.iter().position(|cache: &Cache| cache.name == name);
        let same_variable = caches.iter().position(|cache| cache.variable == env);
        if !is_name(&name) {
            refuse("name", "a file name".to_owned());
        } else if let Some(other) = same_name {
            refuse("name", format!("another name: caches[{other}] has this one"));
        }
        if !is_variable(&env) {
            refuse("env", "the name of a variable".to_owned());
        } else if is_given(&env) {
            let expected = "another variable: this one is set by Argo CD or the sandbox";
            refuse("env", expected.to_owned());
        } else if let Some(other) = same_variable {
            refuse("env", format!("another variable: caches[{other}] has this one"));
        }
        caches.push(Cache { name, variable: env });
    }
    caches
}

fn is_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    matches!((components.next(), components.next()), (Some(Component::Normal(_)), None))
        && !name.contains(['/', '\0'])
        && name.len() <= MAX_NAME
}

fn is_variable(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(letter) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// True if a cache may be in the variable of this name.
pub(crate) fn may_name_cache(name: &str) -> bool {
    is_variable(name) && !is_given(name)
}

fn is_given(name: &str) -> bool {
    GIVEN.contains(&name) || GIVEN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
