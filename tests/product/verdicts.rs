//! Compares our reading of real plugins with that of argocd-cmp-server.
//!
//! The definitions are not part of this repository. If `../shared/data/plugins`
//! is absent, these tests are skipped with a message.

use std::{fs, path::PathBuf};

use cmp_discovery::{FileNamePattern, GlobPattern};
use cmp_supervisor::plugin::{
    Announcement, CommandLine, Discovery, PluginDefinition, Reading, read, read_all, read_first,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// Deliberate differences from argocd-cmp-server: the file and the part of it.
/// No definition in the collection has one of [`REFUSED`].
const DIFFERENT: [(&str, &str); 0] = [];

/// Errors that argocd-cmp-server accepts and we refuse: the change to a good
/// definition, and our message.
const REFUSED: [(&str, &str, &str); 6] = [
    // argocd-cmp-server would create the socket in another directory.
    ("name: good", "name: ../good", "contains '/', which cannot be part of a socket's file name"),
    ("version: v1", "version: a/b", "contains '/', which cannot be part of a socket's file name"),
    // No file can have this name, so argocd-cmp-server fails to create the socket.
    ("name: good", r#"name: "a\0b""#, "cannot be part of a socket's file name"),
    // argocd-cmp-server answers each discovery with an error, and Argo CD then
    // applies the raw files.
    ("fileName: x", "fileName: 'a[]'", "syntax error in pattern"),
    ("fileName: x", "find: {glob: '**/[z-a]'}", "error parsing regexp"),
    // A key of ours: misspelt, it would set no limit.
    ("version: v1", "limits: {memry: 1Gi}", "unknown key spec.limits.memry"),
];

/// Definitions of our own, with the result of argocd-cmp-server 3.5: the
/// socket's name or the error.
const OURS: [(&str, &str); 21] = [
    ("", "invalid plugin configuration file. metadata.name should be non-empty"),
    ("a: b\nKIND name: a", "yaml: line 2: mapping values are not allowed in this context"),
    (
        "metadata: {name: a}",
        "invalid plugin configuration file. kind should be ConfigManagementPlugin, found ",
    ),
    (
        "KIND\nmetadata: {name: a}",
        "invalid plugin configuration file. spec.generate command should be non-empty",
    ),
    ("KIND\nmetadata: {name: a}\nGOOD", "a.sock"),
    ("KIND\nmetadata: {name: a}\nGOOD\n---\n{", "a.sock"),
    (
        "KIND\nmetadata: {name: a, labels: {b: yes}}\nGOOD",
        "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
    ),
    ("KIND\nMetaData: {NAME: a}\nGOOD", "a.sock"),
    ("KIND\nmetadata: {name: a, name: b}\nGOOD", "b.sock"),
    (
        "KIND\nmetadata: {name: 1}\nGOOD",
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string",
    ),
    (
        "KIND\nmetadata: {name: null}\nGOOD",
        "invalid plugin configuration file. metadata.name should be non-empty",
    ),
    (
        "KIND\nmetadata: {name: a}\nspec: {version: 1e3, generate: {command: [x]}}",
        "json: cannot unmarshal number into Go struct field PluginConfigSpec.spec.version of type string",
    ),
    ("KIND\nmetadata: {name: a}\nspec: {version: 1.0.0, generate: {command: [x]}}", "a-1.0.0.sock"),
    (
        "KIND\nmetadata: {name: a}\nspec: {generate: {command: x}}",
        "json: cannot unmarshal string into Go struct field Command.spec.generate.command of type []string",
    ),
    (
        "KIND\nmetadata: {name: a}\nspec: {generate: {command: [x, on]}}",
        "json: cannot unmarshal bool into Go struct field Command.spec.generate.command of type string",
    ),
    ("KIND\nmetadata: {name: a}\nspec: {generate: {command: [x, null]}}", "a.sock"),
    ("KIND\nmetadata: {name: a}\nspec: {generate: {command: ['']}}", "a.sock"),
    (
        "KIND\nmetadata: {name: a}\nspec: {generate: {args: [x]}}",
        "invalid plugin configuration file. spec.generate command should be non-empty",
    ),
    ("KIND\nmetadata: {name: a}\nspec: {preserveFileMode: on, generate: {command: [x]}}", "a.sock"),
    (
        "KIND\nmetadata: {name: a}\nspec: {preserveFileMode: 'on', generate: {command: [x]}}",
        "json: cannot unmarshal string into Go struct field PluginConfigSpec.spec.preserveFileMode of type bool",
    ),
    ("[]", "json: cannot unmarshal array into Go value of type plugin.PluginConfig"),
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
    let documents = cmp_yaml::stream::manifests(text.as_bytes(), 1 << 20).unwrap();
    let document = &documents[document.parse::<usize>().unwrap()];
    let value: Value = serde_json::from_slice(document).unwrap();
    let inside = path.split('/').fold(&value, |value, step| match step.parse::<usize>() {
        Ok(index) => &value[index],
        Err(_) => &value[step],
    });
    inside.as_str().unwrap().to_owned()
}

#[test]
fn definitions_that_fail_later_in_argo_cd_are_refused() {
    let good = "kind: ConfigManagementPlugin\nmetadata:\n  name: good\nspec:\n  version: v1\n  \
                discover:\n    fileName: x\n  generate: {command: [x]}\n";
    assert!(read(good.as_bytes()).is_ok());
    for (from, to, reason) in REFUSED {
        let error = read(good.replace(from, to).as_bytes()).unwrap_err().to_string();
        assert!(error.contains(reason), "{to}: {error}");
    }
}

#[test]
fn our_definitions_have_the_result_of_argo_cd() {
    for (text, verdict) in OURS {
        let text = text
            .replace("KIND", "kind: ConfigManagementPlugin")
            .replace("GOOD", "spec: {generate: {command: [x]}}");
        let ours = match read(text.as_bytes()) {
            Ok(definition) => definition.name.socket_file(),
            Err(error) => error.to_string(),
        };
        assert_eq!(ours, verdict, "{text}");
    }
}

#[test]
fn every_recorded_definition_has_the_result_of_argo_cd() {
    let mut different = Vec::new();
    for verdict in verdicts() {
        let complaint = match (read(text(&verdict).as_bytes()), verdict.ok) {
            (Ok(definition), true) => compare(&definition, &verdict),
            (Err(error), false) if error.to_string() == verdict.error => None,
            (Err(error), _) => Some(format!("refused: {error}, and not {:?}", verdict.error)),
            (Ok(_), false) => Some(format!("taken, and not refused: {}", verdict.error)),
        };
        let is_listed = DIFFERENT.contains(&(&*verdict.file, &*verdict.part));
        if complaint.is_some() != is_listed {
            different.push(format!("{} ({}): {complaint:?}", verdict.file, verdict.part));
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
fn all_readers_read_a_definition_alike() {
    for verdict in verdicts() {
        let text = text(&verdict);
        let expected = read(text.as_bytes()).ok();
        assert_eq!(read_first(text.as_bytes()).definition, expected, "{}", verdict.file);
        if verdict.ok {
            let first = read_all(text.as_bytes()).swap_remove(0);
            assert_eq!(first.definition, expected, "{}", verdict.file);
        }
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
        "static": definition.announcements.iter().map(Option::as_ref).map(announcement).collect::<Vec<_>>(),
        "dynamic": definition.dynamic.as_ref().map(argv),
        "mode": definition.preserve_file_mode,
        "credentials": definition.provide_git_credentials,
    });
    let theirs = json!({
        "socket": verdict.socket,
        "init": recorded_argv(&spec["init"]),
        "generate": recorded_argv(&spec["generate"]),
        "static": recorded_announcements(&spec["Parameters"]["Static"]),
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

fn announcement(announcement: Option<&Announcement>) -> Value {
    let Some(announcement) = announcement else { return Value::Null };
    let Announcement { name, title, tooltip, required, .. } = announcement;
    without_defaults(json!({
        "name": name, "title": title, "tooltip": tooltip, "required": required,
        "itemType": announcement.item_type, "collectionType": announcement.collection_type,
        "string": announcement.string, "array": announcement.array, "map": announcement.map,
    }))
}

fn recorded_announcements(list: &Value) -> Value {
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
