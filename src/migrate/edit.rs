//! Changes of a definition.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::field::{replace_path, set, text, words};
use crate::{
    plugin::{VariablePattern, folds_to, wrapper},
    yaml,
};

/// Places of commands in a definition.
const COMMANDS: [&[&str]; 4] = [
    &["spec", "init"],
    &["spec", "generate"],
    &["spec", "discover", "find"],
    &["spec", "parameters", "dynamic"],
];

/// Keys of a command that are changed.
const COMMAND_KEYS: [&str; 2] = ["command", "args"];

/// Other keys that are changed, or decide about a change.
const OTHER_KEYS: [&[&str]; 5] = [
    &["spec", "sandbox", "read"],
    &["spec", "sandbox", "caches"],
    &["spec", "sandbox", "env"],
    &["spec", "limits", "memory"],
    &["spec", "provideGitCreds"],
];

/// Everything that a definition must say after the migration and did not before.
#[derive(Clone, Debug, Default)]
pub(super) struct Edit {
    /// Paths that its commands may read.
    pub(super) read: BTreeSet<String>,
    /// Names of caches, with the variable of each.
    pub(super) caches: BTreeMap<String, String>,
    /// The only variables of the container that its commands see.
    pub(super) variables: Option<BTreeSet<String>>,
    /// Variables that its commands get, with their values between double quotes.
    pub(super) exports: BTreeMap<String, String>,
    /// Its own PATH with further directories, before paths are mounted elsewhere.
    pub(super) path: Option<String>,
    /// Variables with another name in the container, with that name.
    pub(super) renamed: BTreeMap<String, String>,
    /// Memory of a request, if it needs more than the usual part of the container.
    pub(super) memory: Option<String>,
    /// Paths that are mounted elsewhere, with the new path.
    pub(super) moved: BTreeMap<String, String>,
}

impl Edit {
    /// The text with the new paths.
    pub(super) fn relocate(&self, text: &str) -> String {
        self.moved.iter().fold(text.to_owned(), |text, (old, new)| replace_path(&text, old, new))
    }

    /// The texts of a list with the new paths.
    fn relocate_all(&self, list: Option<&mut Value>) {
        for item in list.and_then(Value::as_array_mut).into_iter().flatten() {
            if let Value::String(text) = item {
                *text = self.relocate(text);
            }
        }
    }

    /// Gives the commands a variable. `value` takes the place of the container's own value, with
    /// which an export of the same variable ends: programs of another image stay in PATH.
    pub(super) fn export(&mut self, name: &str, value: &str) {
        let own = format!("${name}");
        let export = self.exports.entry(name.to_owned()).or_insert_with(|| own.clone());
        if let Some(before) = export.strip_suffix(&own) {
            *export = format!("{before}{value}");
        }
    }

    /// The changed definition. Comments stay if only keys are added.
    pub(super) fn apply(&self, definition: &str) -> String {
        let Ok(old) = yaml::read(definition.as_bytes()) else { return definition.to_owned() };
        let mut new = old.clone();
        for path in COMMANDS {
            self.command(&mut new, path);
        }
        let own = self.own_keys(&old);
        for (key, value) in &own {
            set(&mut new, &["spec", key], value.clone());
        }
        if new == old {
            return definition.to_owned();
        }
        match inserted(definition, &own) {
            Some(text) if yaml::read(text.as_bytes()).is_ok_and(|found| found == new) => text,
            Some(_) | None => yaml::write(&new),
        }
    }

    /// Our own keys of `spec`, with the additions.
    fn own_keys(&self, definition: &Value) -> Map<String, Value> {
        let mut keys = Map::new();
        let sandbox = self.sandbox(definition);
        if !sandbox.is_empty() {
            keys.insert("sandbox".to_owned(), Value::Object(sandbox));
        }
        let mut limits = definition.pointer("/spec/limits").cloned().unwrap_or(json!({}));
        // A limit of the definition itself counts.
        if let Some(memory) = self.memory.as_ref().filter(|_| limits.get("memory").is_none()) {
            set(&mut limits, &["memory"], json!(memory));
            keys.insert("limits".to_owned(), limits);
        }
        keys
    }

    /// `spec.sandbox` with the additions.
    fn sandbox(&self, definition: &Value) -> Map<String, Value> {
        let given = definition.pointer("/spec/sandbox").and_then(Value::as_object);
        let mut sandbox = given.cloned().unwrap_or_default();
        self.relocate_all(sandbox.get_mut("read"));
        let mut add = |key: &str, more: Vec<Value>| {
            if let Value::Array(list) = sandbox.entry(key).or_insert_with(|| json!([])) {
                let more: Vec<_> = more.into_iter().filter(|item| !list.contains(item)).collect();
                list.extend(more);
            }
        };
        if !self.read.is_empty() {
            add("read", self.read.iter().map(|path| json!(path)).collect());
        }
        // A variable names one cache: that of the definition itself stays.
        let caches = self.caches.iter().filter(|(_, env)| !names_cache(definition, env));
        let caches: Vec<_> = caches.map(|(name, env)| json!({"name": name, "env": env})).collect();
        if !caches.is_empty() {
            add("caches", caches);
        }
        if let Some(names) = &self.variables {
            add("env", names.iter().map(|name| json!(name)).collect());
        }
        let renamed = self.renamed_in(definition);
        if !renamed.is_empty() {
            add("env", renamed);
        }
        sandbox
    }

    /// New names of the variables that the definition lists by their old ones.
    fn renamed_in(&self, definition: &Value) -> Vec<Value> {
        let sandbox = definition.pointer("/spec/sandbox").unwrap_or(&Value::Null);
        let listed: Vec<_> = words(sandbox, "env").filter_map(VariablePattern::new).collect();
        let is_listed = |name: &str| listed.iter().any(|p| p.matches(name.as_bytes()));
        let renamed = self.renamed.iter();
        let renamed = renamed.filter(|(old, new)| is_listed(old) && !is_listed(new));
        renamed.map(|(_, new)| json!(new)).collect()
    }

    fn command(&self, definition: &mut Value, path: &[&str]) {
        let place = path.iter().try_fold(definition, |value, key| value.get_mut(*key));
        let Some(command) = place.filter(|command| !strings(command, "command").is_empty()) else {
            return;
        };
        for key in COMMAND_KEYS {
            self.relocate_all(command.get_mut(key));
        }
        if !self.exports.is_empty() {
            self.wrap(command);
        }
    }

    /// Sets the variables before the command.
    fn wrap(&self, command: &mut Value) {
        let words = [strings(command, "command"), strings(command, "args")].concat();
        set(command, &["command"], json!(wrapper(&self.exports)));
        set(command, &["args"], Value::Array(words));
    }
}

fn strings(command: &Value, key: &str) -> Vec<Value> {
    command.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The text with `keys` as the first ones of `spec`, if it is written in lines.
fn inserted(definition: &str, keys: &Map<String, Value>) -> Option<String> {
    let mut at = 0;
    let mut lines = definition.split_inclusive('\n');
    let is_blank = |text: &str| text.trim().is_empty() || text.trim_start().starts_with('#');
    lines.by_ref().find(|line| {
        at += line.len();
        line.strip_prefix("spec:").is_some_and(is_blank)
    })?;
    let next = lines.find(|line| !is_blank(line))?;
    let indent = next.len() - next.trim_start_matches(' ').len();
    let block = yaml::write(&json!(keys));
    let margin = " ".repeat(indent);
    let lines = block.split_inclusive('\n').flat_map(|line| [margin.as_str(), line]);
    let block: String = lines.collect();
    Some(format!("{}{block}{}", definition.get(..at)?, definition.get(at..)?))
}

/// The words of each command of a definition.
pub(super) fn commands(definition: &str) -> Vec<Vec<String>> {
    let value = yaml::read(definition.as_bytes()).unwrap_or_default();
    let commands = COMMANDS
        .iter()
        .filter_map(|path| path.iter().try_fold(&value, |value, key| value.get(*key)));
    let words = |command| {
        let words = [strings(command, "command"), strings(command, "args")].concat();
        words.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    commands.map(words).collect()
}

/// A key that changes would miss, because it is in another case: Argo CD reads it too.
pub(super) fn missed_key(definition: &str) -> Option<String> {
    let value = yaml::read(definition.as_bytes()).unwrap_or_default();
    let words =
        COMMANDS.iter().flat_map(|path| COMMAND_KEYS.map(|word| [path, &[word][..]].concat()));
    let mut paths = words.chain(OTHER_KEYS.map(<[_]>::to_vec));
    paths.find_map(|path| {
        let mut place = Some(&value);
        path.iter().find_map(|key| {
            let map = place?.as_object()?;
            place = map.get(*key);
            map.keys().find(|found| found != key && folds_to(found, key)).cloned()
        })
    })
}

/// True if a definition has a cache in a variable.
pub(super) fn has_cache(definition: &str, env: &str) -> bool {
    names_cache(&yaml::read(definition.as_bytes()).unwrap_or_default(), env)
}

fn names_cache(definition: &Value, env: &str) -> bool {
    let caches = definition.pointer("/spec/sandbox/caches").and_then(Value::as_array);
    caches.into_iter().flatten().any(|cache| text(cache, "env") == env)
}

/// True if a definition asks for the repository's credentials.
pub(super) fn wants_credentials(definition: &str) -> bool {
    let value = yaml::read(definition.as_bytes()).unwrap_or_default();
    value.pointer("/spec/provideGitCreds") == Some(&json!(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: &str = "# Renders charts.\napiVersion: argoproj.io/v1alpha1\n\
        kind: ConfigManagementPlugin\nmetadata:\n  name: a\nspec:\n\n    # Prints manifests.\n    \
        generate:\n        command: [cat, /old/key]\n";

    #[test]
    fn added_keys_leave_comments_in_place() {
        let edit = Edit { read: ["/keys".to_owned()].into(), ..Edit::default() };
        let text = edit.apply(DEFINITION);
        assert!(text.contains("spec:\n    sandbox:\n      read:\n"), "{text}");
        assert!(text.contains("# Prints manifests.") && text.starts_with("# Renders"), "{text}");
        assert_eq!(Edit::default().apply(DEFINITION), DEFINITION);
    }

    #[test]
    fn a_definition_in_one_line_is_written_anew() {
        let edit = Edit { read: ["/keys".to_owned()].into(), ..Edit::default() };
        let text = "kind: ConfigManagementPlugin\nmetadata: {name: a}\nspec: {generate: {command: [yes]}}\n";
        let value = yaml::read(edit.apply(text).as_bytes()).unwrap();
        assert_eq!(value["spec"]["sandbox"]["read"], json!(["/keys"]));
    }

    #[test]
    fn exports_and_new_paths_reach_every_command() {
        let edit = Edit {
            exports: [("A".to_owned(), "$B_A".to_owned())].into(),
            moved: [("/old".to_owned(), "/new".to_owned())].into(),
            ..Edit::default()
        };
        let value = yaml::read(edit.apply(DEFINITION).as_bytes()).unwrap();
        let generate = &value["spec"]["generate"];
        assert_eq!(
            generate["command"],
            json!(["sh", "-c", "export A=\"$B_A\"; exec \"$@\"", "sh"])
        );
        assert_eq!(generate["args"], json!(["cat", "/new/key"]));
        assert_eq!(value["metadata"]["name"], "a");
    }
}
