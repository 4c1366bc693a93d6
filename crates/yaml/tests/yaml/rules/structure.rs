//! Collections, anchors and merges.

use super::{Row, check};

const ALIASES: &[Row] = &[
    ("a: &x {k: 1}\nb: *x\n", Ok(&["{\"a\":{\"k\":1},\"b\":{\"k\":1}}"])),
    ("a: *x\n", Err("error converting YAML to JSON: yaml: unknown anchor 'x' referenced")),
    (
        "a: &x 1\n---\nb: *x\n",
        Err("error converting YAML to JSON: yaml: unknown anchor 'x' referenced"),
    ),
    ("a: &a [*a]\n", Err("error converting YAML to JSON: yaml: anchor 'a' value contains itself")),
];

#[test]
fn aliases_repeat_nodes() {
    check(ALIASES);
}

const MERGES: &[Row] = &[
    (
        "base: &b {p: 1, q: 2}\nc:\n  <<: *b\n  q: 3\n",
        Ok(&["{\"base\":{\"p\":1,\"q\":2},\"c\":{\"p\":1,\"q\":3}}"]),
    ),
    (
        "base: &b {p: 1, q: 2}\nc:\n  q: 3\n  <<: *b\n",
        Ok(&["{\"base\":{\"p\":1,\"q\":2},\"c\":{\"p\":1,\"q\":2}}"]),
    ),
    (
        "a: &a {p: 1}\nb: &b {p: 2, q: 2}\nc:\n  <<: [*a, *b]\n",
        Ok(&["{\"a\":{\"p\":1},\"b\":{\"p\":2,\"q\":2},\"c\":{\"p\":1,\"q\":2}}"]),
    ),
    (
        "c:\n  <<: 1\n",
        Err(
            "error converting YAML to JSON: yaml: map merge requires map or sequence of maps as the value",
        ),
    ),
    ("c:\n  \"<<\": {x: 1}\n", Ok(&["{\"c\":{\"\\u003c\\u003c\":{\"x\":1}}}"])),
];

#[test]
fn merges_apply_in_document_order() {
    check(MERGES);
}

const COLLECTIONS: &[Row] = &[
    ("a: 1\na: 2\n", Ok(&["{\"a\":2}"])),
    ("a: [1, 2, ]\n", Ok(&["{\"a\":[1,2]}"])),
    ("a: [1, ~, null, ]\n", Ok(&["{\"a\":[1,null,null]}"])),
];

#[test]
fn unusual_collections_are_accepted() {
    check(COLLECTIONS);
}

const MISTAKES: &[Row] = &[
    (
        "a: b: c\n",
        Err("error converting YAML to JSON: yaml: mapping values are not allowed in this context"),
    ),
    (
        "a: @x\n",
        Err("error converting YAML to JSON: yaml: found character that cannot start any token"),
    ),
    (
        "a: %x\n",
        Err("error converting YAML to JSON: yaml: found character that cannot start any token"),
    ),
    (
        "a: *.txt\n",
        Err(
            "error converting YAML to JSON: yaml: did not find expected alphabetic or numeric character",
        ),
    ),
    (
        "a: 1\n  b: 2\n",
        Err(
            "error converting YAML to JSON: yaml: line 2: mapping values are not allowed in this context",
        ),
    ),
    (
        "a: \"x\n",
        Err("error converting YAML to JSON: yaml: line 2: found unexpected end of stream"),
    ),
    (
        "a: 1\n---\nb: [\n",
        Err("error converting YAML to JSON: yaml: line 1: did not find expected node content"),
    ),
];

#[test]
fn errors_have_the_text_of_argo_cd() {
    check(MISTAKES);
}
