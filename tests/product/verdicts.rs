//! Compares our reading of real plugins with that of argocd-cmp-server.
//!
//! The definitions are not part of this repository. If `../shared/data/plugins`
//! is absent, these tests are skipped with a message.

use std::{fs, path::PathBuf};

use cmp_discovery::{FileNamePattern, GlobPattern};
use cmp_supervisor::plugin::{
    CommandLine, Diagnostic, Discovery, PluginDefinition, Reading, Severity, read_all, read_first,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::documents::documents;

/// Deliberate differences from argocd-cmp-server: the file and the part of it. These two
/// have no kind, name and command, and argocd-cmp-server reports the missing name first.
const DIFFERENT: [(&str, &str); 2] = [
    ("189-common-industrial-edge-factory.yaml", "whole file as plugin.yaml"),
    (
        "191-common-clustergroup-industrial-edge-factory-expected.yaml",
        "document 7, string at data/values.yaml",
    ),
];

/// One line of the record.
#[derive(Deserialize)]
struct Verdict {
    file: String,
    #[serde(rename = "as")]
    part: String,
    ok: bool,
    #[serde(default)]
    error: String,
    #[serde(default)]
    socket: String,
    #[serde(default)]
    config: Value,
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data/plugins")
}

fn verdicts() -> Vec<Verdict> {
    let Ok(text) = fs::read_to_string(directory().join("verdicts.jsonl")) else {
        println!("skipped: needs verdicts.jsonl in ../shared/data/plugins");
        return Vec::new();
    };
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The text of the definition in a record.
fn text(verdict: &Verdict) -> String {
    let text = fs::read_to_string(directory().join(&verdict.file)).unwrap();
    let Some(part) = verdict.part.strip_prefix("document ") else { return text };
    let (document, path) = part.split_once(", string at ").unwrap();
    let document = &documents(text.as_bytes())[document.parse::<usize>().unwrap()];
    let inside = path.split('/').fold(document, |value, step| match step.parse::<usize>() {
        Ok(index) => &value[index],
        Err(_) => &value[step],
    });
    inside.as_str().unwrap().to_owned()
}

#[test]
fn every_recorded_definition_has_the_result_of_argo_cd() {
    let mut different = Vec::new();
    for verdict in verdicts() {
        let Reading { definition, diagnostics, .. } = read_first(text(&verdict).as_bytes());
        let complaint = match (definition, verdict.ok) {
            (Some(definition), true) => compare(&definition, &verdict),
            (None, false) if says(&diagnostics, &verdict.error) => None,
            (None, _) => Some(format!("{diagnostics:?}, and not {:?}", verdict.error)),
            (Some(_), false) => Some(format!("taken, and not refused: {}", verdict.error)),
        };
        let is_listed = DIFFERENT.contains(&(&*verdict.file, &*verdict.part));
        if complaint.is_some() != is_listed {
            different.push(format!("{} ({}): {complaint:?}", verdict.file, verdict.part));
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

/// True if an error, or a note on it, has Argo CD's text.
fn says(diagnostics: &[Diagnostic], text: &str) -> bool {
    // The code and the region of a diagnostic say the rest.
    let text = text.strip_prefix("invalid plugin configuration file. ").unwrap_or(text);
    let text = text
        .strip_prefix("yaml: line ")
        .and_then(|rest| rest.split_once(": "))
        .map_or(text, |(_, rest)| rest);
    let mut errors = diagnostics.iter().filter(|d| d.severity() == Severity::Error);
    errors.any(|error| error.message == text || error.notes.iter().any(|note| note.ends_with(text)))
}

#[test]
fn both_readers_read_a_definition_alike() {
    for verdict in verdicts().iter().filter(|verdict| verdict.ok) {
        let text = text(verdict);
        let first = read_all(text.as_bytes()).swap_remove(0);
        assert_eq!(first.definition, read_first(text.as_bytes()).definition, "{}", verdict.file);
    }
}

#[test]
fn every_definition_in_a_configmap_is_found_in_its_file() {
    for verdict in verdicts().iter().filter(|verdict| verdict.ok) {
        let whole = fs::read(directory().join(&verdict.file)).unwrap();
        let Some((document, key)) = in_config_map(&verdict.part) else { continue };
        let readings = read_all(&whole);
        let place = match document {
            0 => format!("data[{key}]"),
            document => format!("document {}, data[{key}]", document + 1),
        };
        let found = readings.iter().find(|reading| reading.place.to_string() == place);
        let socket = found.and_then(|reading| reading.definition.as_ref());
        let socket = socket.map(|definition| definition.name.socket_file());
        assert_eq!(socket.as_ref(), Some(&verdict.socket), "{} {place}", verdict.file);
        let named = found.and_then(|reading: &Reading| reading.name_region).unwrap();
        let line = String::from_utf8_lossy(&whole).lines().nth(named.line - 1).unwrap().to_owned();
        assert!(line.contains("name"), "{}:{named}: {line}", verdict.file);
    }
}

/// The document's number and the key in `data`.
fn in_config_map(part: &str) -> Option<(usize, &str)> {
    let (document, path) = part.strip_prefix("document ")?.split_once(", string at data/")?;
    Some((document.parse().ok()?, path))
}

/// The differences between our reading and the record.
fn compare(definition: &PluginDefinition, verdict: &Verdict) -> Option<String> {
    let spec = &verdict.config["spec"];
    let ours = json!({
        "socket": definition.name.socket_file(),
        "init": definition.init.as_ref().map(argv),
        "generate": argv(&definition.generate),
        "static": announcements(&json!(definition.announcements)),
        "dynamic": definition.dynamic.as_ref().map(argv),
        "mode": definition.preserve_file_mode,
        "credentials": definition.provide_git_credentials,
    });
    let theirs = json!({
        "socket": verdict.socket,
        "init": recorded_argv(&spec["init"]),
        "generate": recorded_argv(&spec["generate"]),
        "static": announcements(&spec["Parameters"]["Static"]),
        "dynamic": recorded_argv(&spec["Parameters"]["Dynamic"]),
        "mode": spec["preserveFileMode"].as_bool().unwrap_or_default(),
        "credentials": spec["provideGitCreds"].as_bool().unwrap_or_default(),
    });
    let discovery = recorded_discovery(&spec["discover"]);
    if definition.discovery != discovery {
        return Some(format!("{:?} is not {discovery:?}", definition.discovery));
    }
    (ours != theirs).then(|| format!("{ours} is not {theirs}"))
}

fn argv(line: &CommandLine) -> Value {
    json!(line.words().collect::<Vec<_>>())
}

fn recorded_argv(command: &Value) -> Value {
    let words = |key: &str| command[key].as_array().cloned().unwrap_or_default();
    match words("command") {
        empty if empty.is_empty() => Value::Null,
        command => [command, words("args")].concat().into(),
    }
}

/// The discovery rule that Argo CD would use, as our type.
fn recorded_discovery(discover: &Value) -> Option<Discovery> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (file_name, glob) = (text(&discover["fileName"]), text(&discover["find"]["glob"]));
    if !file_name.is_empty() {
        return Some(Discovery::FileName(FileNamePattern::new(&file_name).unwrap()));
    }
    if !glob.is_empty() {
        return Some(Discovery::Glob(GlobPattern::new(&glob).unwrap()));
    }
    let words =
        |key: &str| serde_json::from_value(discover["find"][key].clone()).unwrap_or_default();
    CommandLine::new(words("command"), words("args")).map(Discovery::Command)
}

fn announcements(list: &Value) -> Value {
    let list = list.as_array().cloned().unwrap_or_default();
    list.into_iter().map(without_defaults).collect()
}

fn without_defaults(mut value: Value) -> Value {
    let is_default = |value: &Value| {
        [json!(""), json!(false), json!([]), json!({}), Value::Null].contains(value)
    };
    if let Some(members) = value.as_object_mut() {
        members.retain(|_, value| !is_default(value));
    }
    value
}
