//! Checks that the JSON Schema is up to date and fits real definitions.

use std::{fs, path::Path};

use cmp_supervisor::plugin::schema;
use serde_json::{Value, json};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The problems of a value. Only the keywords of our schema are implemented; any
/// other keyword fails the test.
fn faults(value: &Value, schema: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut expect = |is_met: bool, text: &str| {
        if !is_met {
            found.push(format!("{at}: {text}"));
        }
    };
    let mut inside = Vec::new();
    for (word, rule) in schema.as_object().unwrap() {
        match word.as_str() {
            "type" => expect(has_type(value, rule), &format!("is not {rule}")),
            "const" => expect(value == rule, &format!("is not {rule}")),
            "enum" => expect(rule.as_array().unwrap().contains(value), &format!("not of {rule}")),
            "minimum" => expect(value.as_i64() >= rule.as_i64(), "is too small"),
            "maximum" => expect(value.as_i64() <= rule.as_i64(), "is too large"),
            "minLength" | "minItems" => {
                expect(![json!(""), json!([])].contains(value), "is empty");
            }
            "required" => {
                for key in rule.as_array().unwrap() {
                    expect(value.get(key.as_str().unwrap()).is_some(), &format!("lacks {key}"));
                }
            }
            "anyOf" => {
                let mut ways = rule.as_array().unwrap().iter();
                expect(ways.any(|way| faults(value, way, at).is_empty()), "fits nothing");
            }
            "items" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                inside.extend(items.map(|(index, item)| (item, rule, format!("{at}[{index}]"))));
            }
            "properties" => {
                for (key, inner) in value.as_object().into_iter().flatten() {
                    match rule.get(key) {
                        Some(rule) => inside.push((inner, rule, format!("{at}.{key}"))),
                        None => expect(
                            schema["additionalProperties"] == json!(true)
                                || schema["patternProperties"] == json!({"^x-": {}})
                                    && key.starts_with("x-"),
                            &format!("does not know {key}"),
                        ),
                    }
                }
            }
            "additionalProperties" if rule.is_object() => {
                let members = value.as_object().into_iter().flatten();
                inside.extend(members.map(|(key, inner)| (inner, rule, format!("{at}.{key}"))));
            }
            "pattern" => expect(fits(value, rule), "does not fit"),
            "not" => expect(!faults(value, rule, at).is_empty(), "fits what it must not"),
            "additionalProperties"
            | "patternProperties"
            | "description"
            | "examples"
            | "title"
            | "$schema" => {}
            other => panic!("the test does not understand {other}"),
        }
    }
    found.extend(inside.into_iter().flat_map(|(value, rule, at)| faults(value, rule, &at)));
    found
}

/// True if a text fits a pattern. Every text is taken to fit the pattern of an amount.
fn fits(value: &Value, pattern: &Value) -> bool {
    let Some(text) = value.as_str() else { return false };
    match pattern.as_str().unwrap() {
        "^/" => text.starts_with('/'),
        r"(^|/)\.\.(/|$)" => text.split('/').any(|part| part == ".."),
        "^[0.hms]*$" => text.chars().all(|c| "0.hms".contains(c)),
        amount if amount.starts_with("^(") && amount.ends_with(")$") => true,
        other => panic!("the test does not understand {other}"),
    }
}

fn has_type(value: &Value, names: &Value) -> bool {
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    names == name || names.as_array().is_some_and(|names| names.contains(&json!(name)))
}

fn judged(text: &str) -> Vec<String> {
    let json = cmp_yaml::to_json(text.as_bytes()).unwrap();
    faults(&serde_json::from_slice(&json).unwrap(), &schema(), "")
}

#[test]
fn the_committed_schema_is_up_to_date() {
    let committed = fs::read_to_string(root().join("docs/plugin.schema.json")).unwrap();
    let current = format!("{:#}\n", schema());
    assert!(committed == current, "run: cmp-supervisor schema > docs/plugin.schema.json");
}

#[test]
fn our_own_plugins_satisfy_and_name_the_schema() {
    let mut plugins = 0;
    for entry in fs::read_dir(root().join("plugins.d")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(judged(&text), Vec::<String>::new(), "{}", path.display());
        let line = text.lines().next().unwrap();
        let file = line.strip_prefix("# yaml-language-server: $schema=").unwrap();
        assert!(path.parent().unwrap().join(file).is_file(), "{}: no {file}", path.display());
        plugins += 1;
    }
    assert!(plugins > 0);
}

#[test]
fn the_schema_rejects_everything_that_the_reader_reports() {
    let good = "x-common: {a: 1}\nkind: ConfigManagementPlugin\nmetadata: {name: a}\nspec:\n  version: v1\n  \
                generate: {command: [x]}\n  limits: {memory: 1Gi, requests: 2, timeout: 90s}\n  \
                sandbox: {network: [443], minimumIsolation: uid, caches: [{name: a, env: B}], \
                read: [/a..b]}\n  workspace: {include: [a/..b]}\n";
    assert_eq!(judged(good), Vec::<String>::new());
    for (from, to) in [
        ("x-common", "common"),
        ("kind: ConfigManagementPlugin", "kind: Plugin"),
        ("name: a}\nspec", "name: ''}\nspec"),
        ("version: v1", "version: 1.0"),
        ("command: [x]", "command: x"),
        ("command: [x]", "command: []"),
        ("command: [x]", "args: [x]"),
        ("generate", "Generate"),
        ("memory", "memry"),
        ("requests: 2", "requests: -1"),
        ("[443]", "[99999]"),
        ("uid", "strong"),
        ("timeout: 90s", "timeout: 90"),
        ("timeout: 90s", "timeout: 0s"),
        ("timeout: 90s", "timeout: '0'"),
        ("{name: a, env: B}", "{name: a}"),
        ("{name: a, env: B}", "{env: B}"),
        ("{name: a, env: B}", "{name: '', env: B}"),
        ("{name: a, env: B}", "{name: a, env: ''}"),
        ("/a..b", "a"),
        ("/a..b", "/a/../b"),
        ("a/..b", "../b"),
        ("a/..b", "''"),
    ] {
        assert!(!judged(&good.replace(from, to)).is_empty(), "{to}");
    }
}

#[test]
fn every_key_has_a_description() {
    fn look(schema: &Value, at: &str, bare: &mut Vec<String>) {
        for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
            let at = format!("{at}.{key}");
            if inner["description"].as_str().is_none_or(str::is_empty) {
                bare.push(at.clone());
            }
            look(inner, &at, bare);
            look(&inner["items"], &at, bare);
        }
    }
    let mut bare = Vec::new();
    look(&schema(), "", &mut bare);
    assert!(bare.is_empty(), "{bare:?}");
}
