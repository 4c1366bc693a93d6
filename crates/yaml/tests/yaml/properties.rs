//! Properties of all inputs.

use std::ops::Range;

use cmp_yaml::{Converter, portable::portable, stream};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::Value;

use crate::output::{Texts, manifests};

const MAX_BYTES: usize = 1 << 20;

/// Pieces of YAML that have a meaning when combined.
const PIECES: &[&str] = &[
    "a",
    "b",
    "key",
    "- ",
    "? ",
    ": ",
    ":",
    ",",
    "[",
    "]",
    "{",
    "}",
    "\n",
    "\n  ",
    "\n    ",
    " ",
    "\t",
    "# c",
    "'",
    "\"",
    "|",
    "|-\n ",
    ">",
    ">+\n  ",
    "\\",
    "\\n",
    "\\u00e9",
    "\\ud83d",
    "\\/",
    "&a ",
    "*a",
    "&b ",
    "*b",
    "!",
    "!!str ",
    "!!int ",
    "!!float ",
    "!!binary ",
    "!foo ",
    "<<: *a",
    "<<: [*a, *b]",
    "---",
    "...",
    "\n---\n",
    "%YAML 1.1\n",
    "~",
    "null",
    "yes",
    "no",
    "on",
    "y",
    "0644",
    "0x1F",
    "1_000",
    "1.5",
    "-1",
    "1e3",
    ".inf",
    "18446744073709551615",
    "2001-01-01",
    "é",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "😀",
    "\r\n",
    "\u{7f}",
    "@",
    "<>&",
    "a: 1\n",
    "b: 2\n",
    "- a\n",
    "{a: 1}",
    "[a, b]",
    "\"x\": ",
    "'y': ",
    "a: |\n  text\n",
    "{\"a\":1}",
    "aGVsbG8=",
];

fn yaml_like() -> impl Strategy<Value = String> {
    vec(select(PIECES), 0..24).prop_map(|pieces| pieces.concat())
}

/// JSON with characters and spellings that YAML refuses or changes.
fn json_text() -> impl Strategy<Value = String> {
    let characters = select(vec![
        "a",
        "\\/",
        "\\ud83d\\ude00",
        "\\u00e9",
        "\\n",
        "\\\"",
        "\\\\",
        "\u{7f}",
        "\u{85}",
        "\u{9f}",
        "\u{2028}",
        "\u{fffe}",
        "\u{feff}",
        "é",
        "😀",
        " ",
        "\\u0000",
        "\\u2028",
        "/",
        "#",
        ": ",
        "---",
        "'",
        "- ",
        "{",
        "]",
    ]);
    let string = vec(characters, 0..8).prop_map(|parts| format!("\"{}\"", parts.concat()));
    let space = select(vec!["", " ", "\n", "\t", "\r\n"]);
    let scalar = prop_oneof![
        string.clone(),
        select(vec!["1", "-2", "3.5", "true", "null", "{}", "[]"]).prop_map(str::to_owned)
    ];
    scalar.prop_recursive(4, 32, 4, move |inner| {
        let entry = (string.clone(), space.clone(), inner.clone())
            .prop_map(|(key, space, value)| format!("{key}{space}:{space}{value}"));
        prop_oneof![
            vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            vec(entry, 0..4).prop_map(|entries| format!("{{{}}}", entries.join(","))),
        ]
    })
}

/// Lines that separate documents, almost do, or change what follows.
const LINES: &[&str] = &[
    "---",
    "---",
    "---",
    "---\r",
    "--- ",
    "--- # c",
    "---x",
    " ---",
    "--",
    "",
    "\r",
    "...",
    "null",
    "a: b",
    "a:",
    "  - c",
    "- |+",
    "  text",
    "- 'x",
    "y'",
    "{a: b}",
    "{\"a\": 1}",
    "- &a x",
    "- *a",
    "# comment",
    "%YAML 1.1",
    "%a b",
    "a: [",
    "]",
];

fn part(output: &[u8], part: Range<usize>) -> Result<Vec<Vec<u8>>, stream::Error> {
    let (mut text, mut texts) = (Vec::new(), Texts::default());
    stream::read_part((output, part), MAX_BYTES, &mut text, &mut texts).map(|()| texts.0)
}

#[test]
fn a_separator_behind_a_line_of_unknown_beginning_is_no_middle() {
    for (beginning, is_known) in [("# ", true), ("--- # ", false)] {
        let rest = "x".repeat(if is_known { 1000 } else { 2 << 20 });
        let output = format!("a: b\n{beginning}{rest}\n---\n{rest}\n");
        assert_eq!(stream::halves(output.as_bytes()).is_some(), is_known, "{beginning}");
    }
}

#[test]
fn the_separator_nearest_to_the_middle_divides_an_output() {
    let output = |lengths: [usize; 3]| lengths.map(|length| "x".repeat(length)).join("\n---\n");
    let firsts = [[400, 600, 20], [200, 200, 600], [100, 900, 100], [500, 300, 300]]
        .map(|lengths| stream::halves(output(lengths).as_bytes()).map(|[first, _]| first.end));
    assert_eq!(firsts, [Some(401), Some(406), None, Some(501)]);
}

/// Compares numbers by value, because YAML does not keep their spelling.
fn by_value(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::from(number.as_f64()),
        Value::Array(items) => items.into_iter().map(by_value).collect(),
        Value::Object(entries) => {
            entries.into_iter().map(|(key, value)| (key, by_value(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_result_converts_to_itself(document in yaml_like()) {
        if let Ok(json) = cmp_yaml::to_json(document.as_bytes()) {
            let again = cmp_yaml::to_json(&portable(&json)).map_err(|error| error.to_string());
            // Minus zero becomes zero, and the replacement of invalid UTF-8
            // loses its escape.
            let has = |part: &[u8]| json.windows(part.len()).any(|window| window == part);
            prop_assume!(!has(b"-0") && !has(br"\ufffd"));
            prop_assert_eq!(again.map(|json| String::from_utf8_lossy(&json).into_owned()), Ok(String::from_utf8_lossy(&json).into_owned()));
        }
    }

    #[test]
    fn a_result_is_json(document in yaml_like()) {
        if let Ok(json) = cmp_yaml::to_json(document.as_bytes()) {
            prop_assert!(serde_json::from_slice::<Value>(&json).is_ok(), "{}", String::from_utf8_lossy(&json));
        }
    }

    #[test]
    fn no_bytes_panic_or_exceed_the_limit(output in vec(any::<u8>(), 0..400)) {
        let mut json = Vec::new();
        let _ = Converter::new(MAX_BYTES).convert(&output, &mut json);
        prop_assert!(json.len() <= MAX_BYTES);
        let _ = cmp_yaml::tree(&output);
        if let Ok(manifests) = manifests(&output, MAX_BYTES) {
            prop_assert!(manifests.iter().map(Vec::len).sum::<usize>() <= MAX_BYTES.max(output.len()));
        }
    }

    #[test]
    fn no_text_panics(output in yaml_like()) {
        let output = output.as_bytes();
        match manifests(output, MAX_BYTES) {
            Ok(manifests) => prop_assert!(manifests.iter().all(|json| !json.is_empty() && json != b"null")),
            Err(error) => prop_assert!(error.line() <= output.split(|&byte| byte == b'\n').count()),
        }
        if let Ok(Some(tree)) = cmp_yaml::tree(output) {
            prop_assert!(tree.root().range().start <= output.len());
        }
    }

    #[test]
    fn halves_have_the_manifests_of_the_whole(lines in vec(select(LINES), 0..40), is_ended: bool) {
        let output = lines.join("\n") + if is_ended { "\n" } else { "" };
        let output = output.as_bytes();
        if let Some(halves) = stream::halves(output) {
            let whole = manifests(output, MAX_BYTES);
            let both: Result<Vec<_>, _> = halves.into_iter().map(|half| part(output, half)).collect();
            prop_assert_eq!(whole.ok(), both.ok().map(|both| both.concat()));
        }
    }

    #[test]
    fn portable_json_has_the_same_value_in_yaml(json in json_text()) {
        let meant = serde_json::from_str::<Value>(&json).map_err(|error| error.to_string());
        let read = cmp_yaml::to_json(&portable(json.as_bytes())).map_err(|error| error.to_string());
        let read = read.map(|json| serde_json::from_slice::<Value>(&json).map_err(|error| error.to_string()));
        prop_assert_eq!(read.map(|value| value.map(by_value)), Ok(meant.map(by_value)));
    }
}
