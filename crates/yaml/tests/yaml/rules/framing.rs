//! Splitting an output into documents.

use super::{Row, check};

const SEPARATORS: &[Row] = &[
    ("a: 1\n---\nb: 2\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("---\na: 1\n", Ok(&["{\"a\":1}"])),
    ("a: 1\n---\n", Ok(&["{\"a\":1}"])),
    ("---\n---\na: 1\n---\n---\nb: 2\n---\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("a: 1\n---   \nb: 2\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("a: 1\n---\t\nb: 2\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("a: 1\n--- # Source: x\nb: 2\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("a: 1\n---# c\nb: 2\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("a: 1\n--- {b: 2}\n", Err("invalid Yaml document separator: {b: 2}")),
    ("a: 1\n--- foo\nb: 2\n", Err("invalid Yaml document separator: foo")),
    ("--- !!map\na: 1\n", Err("invalid Yaml document separator: !!map")),
    ("a: 1\n----\nb: 2\n", Err("invalid Yaml document separator: -")),
    ("a: 1\n ---\nb: 2\n", Ok(&["{\"a\":\"1 ---\",\"b\":2}"])),
    ("a: |\n  x\n  ---\n  y\n", Ok(&["{\"a\":\"x\\n---\\ny\\n\"}"])),
    ("a: |\n  x\n---\nb: 2\n", Ok(&["{\"a\":\"x\\n\"}", "{\"b\":2}"])),
    (
        "a: \"x\n---\ny\"\n",
        Err("error converting YAML to JSON: yaml: line 2: found unexpected end of stream"),
    ),
    ("a: 1\n...\n", Ok(&["{\"a\":1}"])),
    ("a: 1\n...\nb: 2\n", Ok(&["{\"a\":1}"])),
    ("a: 1\n...\n---\nb: 2\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    (
        "%YAML 1.2\n---\na: 1\n",
        Err("error converting YAML to JSON: yaml: found incompatible YAML document"),
    ),
    (
        "%YAML 1.1\n---\na: 1\n",
        Err("error converting YAML to JSON: yaml: line 1: did not find expected <document start>"),
    ),
    ("", Ok(&[])),
    ("# hi\n", Ok(&[])),
    ("a: 1\n---\n# only comment\n---\nb: 2\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("# hello\n---\na: 1\n", Ok(&["{\"a\":1}"])),
    ("---\n# Source: a.yaml\n---\n# Source: b.yaml\nkind: X\n", Ok(&["{\"kind\":\"X\"}"])),
    ("a: 1\r\nb: x\r\n---\r\nc: 2\r\n", Ok(&["{\"a\":1,\"b\":\"x\"}", "{\"c\":2}"])),
    ("\u{feff}a: 1\n", Ok(&["{\"a\":1}"])),
    ("\u{feff}---\na: 1\n", Ok(&["{\"a\":1}"])),
    ("a: 1\n---\n\u{feff}b: 2\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("\u{feff}{\"a\":1}\n", Ok(&["{\"a\":1}"])),
];

#[test]
fn separators_are_found_before_parsing() {
    check(SEPARATORS);
}

const DOCUMENTS: &[Row] = &[
    ("null\n", Ok(&[])),
    ("~\n", Ok(&[])),
    ("{}\n", Ok(&["{}"])),
    ("[]\n", Ok(&["[]"])),
    ("- a: 1\n- b: 2\n", Ok(&["[{\"a\":1},{\"b\":2}]"])),
    ("hello world\n", Ok(&["\"hello world\""])),
    ("42\n", Ok(&["42"])),
    ("yes\n", Ok(&["true"])),
    ("\"\"\n", Ok(&["\"\""])),
    ("hello\nworld\n", Ok(&["\"hello world\""])),
    ("INFO: starting\n---\na: 1\n", Ok(&["{\"INFO\":\"starting\"}", "{\"a\":1}"])),
    (
        "WARN something happened\na: 1\n",
        Err(
            "error converting YAML to JSON: yaml: line 2: mapping values are not allowed in this context",
        ),
    ),
    (
        "NOTES:\nfoo bar\n",
        Err("error converting YAML to JSON: yaml: line 3: could not find expected ':'"),
    ),
    (
        "apiVersion: v1\nkind: List\nitems:\n- kind: A\n- kind: B\n",
        Ok(&[
            "{\"apiVersion\":\"v1\",\"items\":[{\"kind\":\"A\"},{\"kind\":\"B\"}],\"kind\":\"List\"}",
        ]),
    ),
    ("a b : 1\n", Ok(&["{\"a b\":1}"])),
    (" a: 1\nb: 2\n", Ok(&["{\"a\":1}"])),
];

#[test]
fn a_document_may_be_any_value() {
    check(DOCUMENTS);
}

const JSON: &[Row] = &[
    ("{\"b\": 1, \"a\": 2}\n", Ok(&["{\"b\": 1, \"a\": 2}"])),
    ("{\n  \"b\": 1,\n  \"a\": [ 1, 2 ]\n}\n", Ok(&["{\n  \"b\": 1,\n  \"a\": [ 1, 2 ]\n}"])),
    ("{\"a\":1}{\"b\":2}", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n", Ok(&["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"])),
    ("\u{feff}{\"a\":1}\n", Ok(&["{\"a\":1}"])),
    ("{\"a\":1,\"a\":2}", Ok(&["{\"a\":1,\"a\":2}"])),
    ("{\"a\":\"<b>&\"}", Ok(&["{\"a\":\"<b>&\"}"])),
    (
        "{\"a\":123456789012345678901234567890,\"b\":1.0,\"c\":1E3}",
        Ok(&["{\"a\":123456789012345678901234567890,\"b\":1.0,\"c\":1E3}"]),
    ),
    ("{\"a\":1}\nnull\n{\"b\":2}", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("{\"a\":1}\n42\n", Ok(&["{\"a\":1}", "42"])),
    ("{\"a\":1}\r\n{\"b\":2}\r\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("{\"a\":\"\\ud83d\\ude00\"}\n", Ok(&["{\"a\":\"\\ud83d\\ude00\"}"])),
];

#[test]
fn json_stays_as_it_is() {
    check(JSON);
}

const JSON_THEN_YAML: &[Row] = &[
    ("{a: 1}\n", Ok(&["{\"a\":1}"])),
    ("{a: 1}\n---\n{b: 2}\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("{\"a\":1}\n---\n{\"b\":2}\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("{\"a\":1}\n---\n{\"b\":2}\n---\n{\"c\":3}\n", Ok(&["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"])),
    ("{\"a\":1}\n{\"b\":2}\n---\n{\"c\":3}\n", Err("invalid character '-' in numeric literal")),
    ("{\"a\":1}\n---\nb: 2\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("{\"a\":1}\nfoo\n", Ok(&["{\"a\":1}", "\"foo\""])),
    ("{\"a\":1,}\n", Ok(&["{\"a\":1}"])),
    ("{\"a\":1}\n# end\n", Ok(&["{\"a\":1}"])),
    ("{\"a\":1}\n{\"b\":2}\n# end\n", Err("invalid character '#' looking for beginning of value")),
    ("{\"a\":1}\nb: 2\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("{\"a\":1}\n---\n{\"b\":2}{\"c\":3}\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("{\"a\": 1", Err("unexpected EOF")),
    ("{\"a\":1}\n{\"b\":", Err("unexpected EOF")),
];

#[test]
fn yaml_may_follow_json() {
    check(JSON_THEN_YAML);
}

const YAML_LIKE_JSON: &[Row] = &[
    ("a: 1\n---\n{\"b\": 2}\n", Ok(&["{\"a\":1}", "{\"b\":2}"])),
    ("---\n{\"b\": 2, \"a\": 1}\n", Ok(&["{\"a\":1,\"b\":2}"])),
    ("# c\n{\"b\": 2, \"a\": 1}\n", Ok(&["{\"a\":1,\"b\":2}"])),
    ("[{\"a\":1},{\"b\":2}]\n", Ok(&["[{\"a\":1},{\"b\":2}]"])),
    ("[1]\n[2]\n", Ok(&["[1]"])),
    ("[1][2]\n", Ok(&["[1]"])),
];

#[test]
fn json_after_other_text_is_read_as_yaml() {
    check(YAML_LIKE_JSON);
}
