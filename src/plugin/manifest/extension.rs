//! `spec.sandbox` and `spec.limits`, from their raw form to their meaning.

use std::path::{Component, Path};

use serde::Deserialize;
use serde_json::Value;

use super::Step;
use crate::plugin::{
    quantity,
    sandbox::{Cache, Limits, Network, Sandbox},
    variable::VariablePattern,
};

/// Most paths to read, and most caches: they travel in one message to a process
/// that keeps its memory small.
const MAX_LIST: usize = 32;

/// Longest name of a cache in bytes: `NAME_MAX` of Linux file systems.
const MAX_NAME: usize = 255;

/// What no plugin may read, nor anything above it: processes and devices of
/// everybody in the Pod, and what Kubernetes gives it to speak for itself.
const CLOSED: [&str; 5] = ["/proc", "/sys", "/dev", "/run/secrets", "/var/run/secrets"];

/// A value of ours that means nothing: where, and what would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meaningless {
    pub(super) path: Vec<Step>,
    pub(super) wanted: &'static str,
}

/// `spec.sandbox`, field for field.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SandboxManifest {
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

/// `spec.limits`, field for field.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct LimitsManifest {
    timeout: String,
    memory: Value,
    processes: Value,
    cpu: String,
    file_size: Value,
    output: Value,
    requests: Value,
    minimum_manifests: Value,
}

impl TryFrom<SandboxManifest> for Sandbox {
    type Error = Meaningless;

    fn try_from(manifest: SandboxManifest) -> Result<Self, Meaningless> {
        let wrong = |keys: &[&str], wanted| Meaningless { path: path("sandbox", keys), wanted };
        let isolation = manifest.minimum_isolation;
        let minimum_isolation = (!isolation.is_empty()).then(|| isolation.parse()).transpose();
        let read = |path: &String| Path::new(path).is_absolute() && !has_parents(path);
        if !manifest.read.iter().all(read) {
            return Err(wrong(&["read"], "absolute paths without `..`"));
        }
        if manifest.read.iter().any(|path| is_closed(path)) {
            return Err(wrong(
                &["read"],
                "paths that expose neither processes nor tokens of the Pod",
            ));
        }
        let lists = [manifest.read.len(), manifest.caches.len()];
        if lists.iter().any(|length| *length > MAX_LIST) {
            return Err(wrong(&[], "at most 32 items in read and in caches"));
        }
        let variables =
            manifest.env.map(|env| env.iter().map(|v| VariablePattern::new(v)).collect());
        Ok(Self {
            minimum_isolation: minimum_isolation.map_err(|()| {
                wrong(&["minimumIsolation"], "one of landlock, uid and namespaces")
            })?,
            variables: variables
                .map_or(Some(None), |patterns: Option<Vec<_>>| patterns.map(Some))
                .ok_or_else(|| wrong(&["env"], "names of variables; `*` stands for any text"))?,
            network: network(&manifest.network)
                .map_err(|Nonsense| wrong(&["network"], "none, any or a list of ports"))?,
            read: manifest.read,
            caches: caches(manifest.caches).ok_or_else(|| {
                wrong(
                    &["caches"],
                    "items with a name that is a file name and an env that is a variable",
                )
            })?,
        })
    }
}

impl TryFrom<LimitsManifest> for Limits {
    type Error = Meaningless;

    fn try_from(manifest: LimitsManifest) -> Result<Self, Meaningless> {
        let wrong = |key, wanted| Meaningless { path: path("limits", &[key]), wanted };
        let time = |key, text: &str| match text {
            "" => Ok(None),
            text => quantity::duration(text)
                .map(Some)
                .ok_or_else(|| wrong(key, "a duration like 90s or 1m30s")),
        };
        let size = |key, value: &Value| {
            read(value, quantity::bytes).map_err(|Nonsense| wrong(key, "bytes, like 512Mi"))
        };
        let count = |key, value: &Value| {
            let whole = |text: &str| text.parse::<u32>().ok();
            read(value, whole).map_err(|Nonsense| wrong(key, "a whole number"))
        };
        let minimum = count("minimumManifests", &manifest.minimum_manifests)?;
        // Elsewhere 0 stands for no limit; here it would leave no request a chance.
        let timeout = time("timeout", &manifest.timeout)?;
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(wrong("timeout", "a duration above 0, or nothing for no limit"));
        }
        let output = size("output", &manifest.output)?;
        if output == Some(0) {
            return Err(wrong("output", "bytes above 0, or nothing for the server's limit"));
        }
        let requests = count("requests", &manifest.requests)?;
        if requests == Some(0) {
            return Err(wrong("requests", "a number above 0, or nothing for no limit"));
        }
        Ok(Self {
            timeout,
            memory: size("memory", &manifest.memory)?,
            processes: count("processes", &manifest.processes)?.map(u64::from),
            cpu: time("cpu", &manifest.cpu)?,
            file_size: size("fileSize", &manifest.file_size)?,
            output,
            requests,
            minimum_manifests: minimum.unwrap_or_default() as usize,
        })
    }
}

/// A value that is there has to mean something.
#[derive(Debug)]
struct Nonsense;

/// An absent value is none.
fn read<T>(value: &Value, meaning: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Nonsense> {
    match value {
        Value::Null => Ok(None),
        Value::Number(number) => meaning(&number.to_string()).map(Some).ok_or(Nonsense),
        Value::String(text) => meaning(text).map(Some).ok_or(Nonsense),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(Nonsense),
    }
}

fn network(value: &Value) -> Result<Option<Network>, Nonsense> {
    let port = |value: &Value| u16::try_from(value.as_u64()?).ok().filter(|port| *port > 0);
    match value {
        Value::Null => Ok(None),
        Value::String(word) if word == "any" => Ok(Some(Network::Any)),
        Value::String(word) if word == "none" => Ok(Some(Network::Ports(Vec::new()))),
        Value::Array(ports) => {
            let ports: Option<Vec<u16>> = ports.iter().map(port).collect();
            ports.map(|ports| Some(Network::Ports(ports))).ok_or(Nonsense)
        }
        Value::String(_) | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Err(Nonsense),
    }
}

fn caches(manifests: Vec<Option<CacheManifest>>) -> Option<Vec<Cache>> {
    let is_name = |name: &str| {
        let mut components = Path::new(name).components();
        matches!((components.next(), components.next()), (Some(Component::Normal(_)), None))
            && !name.contains('/')
            && name.len() <= MAX_NAME
    };
    let is_variable = |name: &str| {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty()
            && name.chars().all(letter)
            && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    let cache = |manifest: Option<CacheManifest>| {
        let CacheManifest { name, env } = manifest?;
        (is_name(&name) && is_variable(&env)).then_some(Cache { name, variable: env })
    };
    manifests.into_iter().map(cache).collect()
}

fn has_parents(path: &str) -> bool {
    Path::new(path).components().any(|component| component == Component::ParentDir)
}

fn is_closed(path: &str) -> bool {
    let path = Path::new(path);
    CLOSED.iter().map(Path::new).any(|closed| closed.starts_with(path) || path.starts_with(closed))
}

fn path(section: &str, keys: &[&str]) -> Vec<Step> {
    let keys = ["spec", section].into_iter().chain(keys.iter().copied());
    keys.map(|key| Step::Key(key.to_owned())).collect()
}
