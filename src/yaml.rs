//! Reads YAML as Argo CD does, and writes YAML that means the same in YAML 1.1 and 1.2.
//!
//! `serde_yaml` writes YAML 1.2, in which `on` is a string and needs no quotes.
//! Many tools read YAML 1.1, in which it is a boolean.

use std::iter::repeat_n;

use serde_json::Value;

/// Most bytes of JSON that one document can become: more than kubectl prints of a namespace.
const MAX_JSON_BYTES: usize = 256 << 20;

/// The first document of a text.
pub(crate) fn read(text: &[u8]) -> Result<Value, String> {
    let mut json = Vec::new();
    let converted = cmp_yaml::Converter::new(MAX_JSON_BYTES).convert(text, &mut json);
    converted.map_err(|error| error.to_string())?;
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}

/// The value as one YAML document, without `---` and with a final line feed.
pub(crate) fn write(value: &Value) -> String {
    let mut text = String::new();
    if is_leaf(value) {
        leaf(value, 0, &mut text);
        // There is no key before it.
        text = text.trim_start().to_owned();
    } else {
        block(value, 0, &mut text);
    }
    text.push('\n');
    text
}

/// True if a value is written on the line of its key.
fn is_leaf(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Writes a list or a map; the first line is already indented.
///
/// `serde_json` reads at most 128 levels, which bounds this recursion. The
/// repo-server reads at most 10,000.
fn block(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    new_line(indent, text);
                }
                text.push('-');
                if is_leaf(item) {
                    leaf(item, indent, text);
                } else {
                    text.push(' ');
                    block(item, indent + 2, text);
                }
            }
        }
        Value::Object(map) => {
            for (index, (key, value)) in map.iter().enumerate() {
                if index > 0 {
                    new_line(indent, text);
                }
                text.push_str(&line(key));
                text.push(':');
                if is_leaf(value) {
                    leaf(value, indent, text);
                } else {
                    // A list has the same indentation as its key.
                    let inner = indent + if value.is_array() { 0 } else { 2 };
                    new_line(inner, text);
                    block(value, inner, text);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Writes a scalar or an empty collection. A literal text has several lines.
fn leaf(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::String(string) if is_literal(string) => literal(string, indent + 2, text),
        Value::String(string) => text.extend([" ", &line(string)]),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            text.extend([" ", &value.to_string()]);
        }
    }
}

fn new_line(indent: usize, text: &mut String) {
    text.push('\n');
    text.extend(repeat_n(' ', indent));
}

/// A string on one line, quoted if YAML 1.1 or 1.2 would read it differently.
fn line(string: &str) -> String {
    let quoted = Value::from(string).to_string();
    let in_1_1 = cmp_yaml::to_json(string.as_bytes()).is_ok_and(|json| json == quoted.as_bytes());
    let in_1_2 = serde_yaml::from_str::<serde_yaml::Value>(string)
        .is_ok_and(|value| value.as_str() == Some(string));
    // As a key, it must not be split at `: `.
    let is_plain = in_1_1 && in_1_2 && !string.contains(": ") && !string.contains('\n');
    if is_plain && string.len() <= MAX_PLAIN { string.to_owned() } else { portable(&quoted) }
}

/// Longest string without quotes, in bytes. YAML searches the colon after a key
/// within 1,024 characters.
const MAX_PLAIN: usize = 512;

fn portable(quoted: &str) -> String {
    String::from_utf8_lossy(&cmp_yaml::portable::portable(quoted.as_bytes())).into_owned()
}

/// True if a string can be written as a literal block.
fn is_literal(string: &str) -> bool {
    let is_shown =
        |c: char| matches!(c, '\n' | '\t' | ' '..='~' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..);
    // Line breaks of YAML 1.1, and the byte order mark.
    let is_break = |c: char| matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    string.trim_end_matches('\n').contains('\n')
        && string.chars().all(|c| is_shown(c) && !is_break(c))
}

fn literal(string: &str, indent: usize, text: &mut String) {
    let body = string.trim_end_matches('\n');
    text.push_str(" |");
    if body.starts_with([' ', '\n', '\t']) {
        // The indentation cannot be seen from the first line.
        text.push('2');
    }
    text.push_str(match string.len() - body.len() {
        0 => "-",
        1 => "",
        _ => "+",
    });
    let lines = string.strip_suffix('\n').unwrap_or(string);
    for line in lines.split('\n') {
        new_line(if line.is_empty() { 0 } else { indent }, text);
        text.push_str(line);
    }
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::{btree_map, vec},
        prelude::*,
    };
    use serde_json::json;

    use super::*;

    #[test]
    fn strings_that_yaml_1_1_would_misread_are_quoted() {
        let value = json!({
            "on": "on", "plain": "text: no", "time": "12:30:45", "octal": "0644", "exp": "0o17",
            "empty": "", "number": 420, "list": [], "map": {}, "null": null, "image": "nginx:1.27",
        });
        let expected = r#"empty: ""
exp: "0o17"
image: nginx:1.27
list: []
map: {}
"null": null
number: 420
octal: "0644"
"on": "on"
plain: "text: no"
time: 12:30:45
"#;
        assert_eq!(write(&value), expected);
    }

    #[test]
    fn lists_and_multi_line_strings_are_written_as_blocks() {
        let value =
            json!({"a": [{"b": 1, "c": ["x", ["z"]]}], "script": "one\n  two\n", "cut": "a\n\nb"});
        let expected =
            "a:\n- b: 1\n  c:\n  - x\n  - - z\ncut: |-\n  a\n\n  b\nscript: |\n  one\n    two\n";
        assert_eq!(write(&value), expected);
        assert_eq!(write(&json!([])), "[]\n");
    }

    #[test]
    fn words_that_look_like_other_types_stay_strings() {
        for word in ["yes", "on", "n", "1e3", "0o7", "012", "1_000", "0x1f", "~", "=", "<<", "1:30"]
        {
            let value = json!({ "command": [word] });
            assert_eq!(read(write(&value).as_bytes()).unwrap(), value, "{word}");
        }
    }

    #[test]
    fn scripts_keep_their_lines() {
        for script in [
            "set -e\nhelm template .\n",
            "a \nb  \n \nc ",
            "if a; then\n\tb\t\nfi \n",
            "echo 🚀\ncat \u{e000} \n",
            "  a \nb\n\n",
            "\ta\nb",
            "\n \na",
        ] {
            let value = json!({ "args": [script, "\u{e000} \t", script] });
            let text = write(&value);
            assert_eq!(text.matches("- |").count(), 2, "{text}");
            assert_eq!(read(text.as_bytes()).unwrap(), value, "{text}");
        }
    }

    #[test]
    fn a_text_that_no_block_can_have_is_quoted() {
        for text in ["a \r\nb", "a\u{2028}\nb", "\u{7}\t\n\n"] {
            let value = json!({ "args": text, "b": "c" });
            let written = write(&value);
            assert!(written.starts_with("args: \""), "{written}");
            assert_eq!(read(written.as_bytes()).unwrap(), value, "{written}");
        }
    }

    /// Numbers with a fraction; of others, Go reads `1.0` as `1`.
    fn floats() -> impl Strategy<Value = f64> {
        any::<f64>().prop_filter("a fraction", |float| float.fract() != 0.0 || float.abs() > 1e21)
    }

    fn values() -> impl Strategy<Value = Value> {
        let texts = prop_oneof![
            "[ -~\n\t]{0,12}",
            "(?s).{0,8}",
            "(yes|no|on|~|null|0x1f|1_000|1e3|\\.inf|<<|=|2001-01-01|- a|# b|'|%TAG|---|\\.\\.\\.)",
        ];
        let leaves = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            floats().prop_map(Value::from),
            texts.clone().prop_map(Value::from),
        ];
        leaves.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Value::from),
                btree_map(texts.clone(), inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn both_versions_read_the_same_value(value in values()) {
            let text = write(&value);
            let in_1_1: Value = serde_json::from_slice(&cmp_yaml::to_json(text.as_bytes()).unwrap()).unwrap();
            prop_assert_eq!(&in_1_1, &value, "{}", text);
            let in_1_2: Value = serde_yaml::from_str(&text).unwrap();
            prop_assert_eq!(&in_1_2, &value, "{}", text);
        }
    }
}
