//! Errors, limits, memory and trees.

use cmp_yaml::{
    Cause, Converter,
    stream::{self, MAX_EXCERPT_BYTES},
    tree::{Node, Shape},
};

use crate::output::manifests;

fn error(document: &str) -> cmp_yaml::Error {
    cmp_yaml::to_json(document.as_bytes()).expect_err("a mistake")
}

fn stream_error(output: &str) -> stream::Error {
    manifests(output.as_bytes(), 1 << 20).expect_err("a mistake")
}

#[test]
fn an_error_has_the_right_line_although_go_yaml_miscounts() {
    for (document, text, line, offset) in [
        ("a: b: c\n", "yaml: mapping values are not allowed in this context", 1, 4),
        ("a: 1\n  b: 2\n", "yaml: line 2: mapping values are not allowed in this context", 2, 8),
        ("a:\n- b\n c\n- [\n", "yaml: line 4: did not find expected node content", 5, 14),
        ("a: [1\nb: 2\n", "yaml: line 1: did not find expected ',' or ']'", 2, 7),
        ("a: 1\nb: !!int x\n", "yaml: cannot decode !!str `x` as a !!int", 2, 14),
        ("a: 1\nb: [.nan]\n", "json: unsupported value: NaN", 2, 9),
        ("a: 1\nb: &b -.inf\nc: *b\n", "json: unsupported value: -Inf", 2, 11),
        ("a: 1\n~: 2\n", "unsupported map key of type: %!s(<nil>), key: <nil>, value: 2", 2, 5),
        ("a: 1\n[b]: 2\n", "yaml: invalid map key: []interface {}{\"b\"}", 2, 5),
        ("a: 1\nb: \u{7}\n", "yaml: control characters are not allowed", 2, 8),
        ("\u{feff}a: 1\nb: \u{7}\n", "yaml: control characters are not allowed", 2, 11),
        ("\u{feff}a: [1\nb: 2\n", "yaml: line 1: did not find expected ',' or ']'", 2, 10),
        ("\u{feff}a: !!int x\n", "yaml: cannot decode !!str `x` as a !!int", 1, 12),
        ("\u{feff}~: 2\n", "unsupported map key of type: %!s(<nil>), key: <nil>, value: 2", 1, 3),
        ("\u{feff}[b]: 2\n", "yaml: invalid map key: []interface {}{\"b\"}", 1, 3),
    ] {
        let error = error(document);
        assert_eq!(error.to_string(), text, "of {document:?}");
        assert_eq!((error.line(), error.offset()), (Some(line), Some(offset)), "of {document:?}");
    }
}

#[test]
fn an_error_has_the_right_cause() {
    assert_eq!(error("a: [").cause(), Cause::Syntax);
    assert_eq!(error("a: *b").cause(), Cause::Value);
    assert_eq!(error("a: .nan").cause(), Cause::Json);
    let limited = Converter::new(4).convert(b"a: long enough", &mut Vec::new());
    assert_eq!(limited.map_err(|error| error.cause()), Err(Cause::Limit));
}

#[test]
fn an_invalid_key_is_shown_at_any_depth() {
    let depth = 5000;
    let document = format!("? {}x{}\n", "[".repeat(depth), "]".repeat(depth));
    let shown = format!("{}\"x\"{}", "[]interface {}{".repeat(depth), "}".repeat(depth));
    assert_eq!(error(&document).to_string(), format!("yaml: invalid map key: {shown}"));

    let document = "? {2: [b, ~], a: 1.5, yes: {}, a: 0x1F}\n";
    let shown = r#"{"a":31, 2:[]interface {}{"b", interface {}(nil)}, true:map[interface {}]interface {}{}}"#;
    let text = format!("yaml: invalid map key: map[interface {{}}]interface {{}}{shown}");
    assert_eq!(error(document).to_string(), text);
}

/// The texts are those of sigs.k8s.io/yaml v1.6.0.
#[test]
fn an_invalid_key_is_shown_with_its_merged_entries() {
    for (document, shown) in [
        ("a: &a {x: 1, w: 2}\n? {<<: *a, w: 3}\n: v\n", r#"{"w":3, "x":1}"#),
        ("a: &a {x: 1, w: 2}\n? {w: 3, <<: *a}\n: v\n", r#"{"w":2, "x":1}"#),
        (
            "a: &a {x: 1}\nb: &b {x: 2, z: [q]}\n? {<<: [*a, *b], w: }\n: v\n",
            r#"{"w":interface {}(nil), "x":1, "z":[]interface {}{"q"}}"#,
        ),
        (
            "a: &a {x: 1}\nb: &b {<<: *a, z: 1}\nc: &c {<<: [*b, {x: 9, k: {<<: *a}}]}\n\
             ? {<<: *c, v: {<<: *b, z: 2}}\n: v\n",
            r#"{"k":map[interface {}]interface {}{"x":1}, "v":map[interface {}]interface {}{"x":1, "z":2}, "x":1, "z":1}"#,
        ),
        ("a: &a {<<: {x: 1, 5: a}}\n? {<<: *a, <<: {x: 7}}\n: v\n", r#"{"x":7, 5:"a"}"#),
    ] {
        let text = format!("yaml: invalid map key: map[interface {{}}]interface {{}}{shown}");
        assert_eq!(error(document).to_string(), text, "of {document:?}");
    }
}

#[test]
fn exponential_merges_are_refused_before_they_are_shown() {
    let lines = (1..60).map(|n| format!("a{n}: &a{n} {{<<: [*a{0}, *a{0}]}}\n", n - 1));
    let document = format!("a0: &a0 {{}}\n{}? {{<<: *a59}}\n: v\n", lines.collect::<String>());
    assert_eq!(error(&document).to_string(), "yaml: document contains excessive aliasing");
}

#[test]
fn an_error_has_document_line_and_excerpt() {
    let error = stream_error("a: 1\n---\nb: 2\nc: [\nd: 3\n---\ne: 5\n");
    assert_eq!((error.document(), error.line()), (2, 5));
    assert_eq!(error.excerpt(), Some("d: 3"));

    let error = stream_error("a: 1\n--- {b: 2}\n");
    assert_eq!((error.document(), error.line(), error.excerpt()), (1, 2, Some("--- {b: 2}")));

    let error = stream_error("{\"a\":1}\n{\"b\":2}\n{\"c\":}\n");
    assert_eq!((error.document(), error.line(), error.excerpt()), (3, 3, Some("{\"c\":}")));

    let error = stream_error("{\"a\":1}\n{\"b\":]\n");
    assert_eq!((error.document(), error.line(), error.excerpt()), (2, 2, Some("{\"b\":]")));
}

#[test]
fn excessive_aliasing_has_a_place() {
    let deep = (1..5).map(|n| format!("- &a{n} [{}]\n", format!("*a{},", n - 1).repeat(20)));
    let document = format!("- &a0 [x]\n{}", deep.collect::<String>());
    assert_eq!(error(&document).line(), Some(4));
}

#[test]
fn an_error_without_a_place_has_the_first_line_of_its_document() {
    let [block, start, end] = ["- ", "[", "]"].map(|level| level.repeat(9000));
    let error = stream_error(&format!("a: 1\n---\nb:\n{block}{start}{end}\n"));
    assert!(error.to_string().ends_with("exceeded max depth"), "{error}");
    assert_eq!((error.document(), error.line(), error.excerpt()), (2, 3, None));
}

#[test]
fn an_excerpt_is_short_and_contains_the_error() {
    let long = "x".repeat(10_000);
    let error = stream_error(&format!("a: \"{long}\\q{long}\"\n"));
    let excerpt = error.excerpt().expect("a place");
    assert!(excerpt.len() <= MAX_EXCERPT_BYTES);
    assert!(excerpt.contains("\\q"));
}

#[test]
fn the_output_limit_applies_to_all_documents_together() {
    let output = "a: 123456\n---\n".repeat(10);
    assert_eq!(manifests(output.as_bytes(), 120).map(|manifests| manifests.len()), Ok(10));
    let error = manifests(output.as_bytes(), 119).expect_err("too much");
    assert_eq!(error.document(), 10);
    assert_eq!(error.yaml().map(cmp_yaml::Error::cause), Some(Cause::Limit));
}

#[test]
fn a_tree_has_shapes_and_positions() {
    let document =
        b"kind: X\nspec:\n  \xC3\xA9: &a [1, yes, ~, \"2\"]\n  list: *a\n  since: 2001-01-01\n";
    let tree = cmp_yaml::tree(document).expect("YAML").expect("a document");
    let spec = tree.root().get("spec").expect("an entry");
    let list = spec.get("list").expect("an alias");
    assert_eq!(list.shape(), Shape::Sequence);
    let shapes: Vec<_> = list.items().map(Node::shape).collect();
    assert_eq!(shapes, [Shape::Int, Shape::Bool, Shape::Null, Shape::String]);
    assert_eq!(spec.get("since").map(Node::shape), Some(Shape::String));

    let (key, value) = spec.entries().next().expect("an entry");
    assert_eq!(key.text(), Some("é"));
    assert_eq!(value.range(), 23..39);
    let marked = cmp_yaml::tree(b"\xEF\xBB\xBFa: b").expect("YAML").expect("a document");
    assert_eq!(marked.root().get("a").map(Node::range), Some(6..7));
    let error = cmp_yaml::tree(b"\xEF\xBB\xBFa: *b").expect_err("no anchor");
    assert_eq!(error.offset(), Some(6));
}

#[test]
fn a_tree_returns_the_last_of_repeated_keys() {
    let tree = cmp_yaml::tree(b"a: 1\n<<: {b: 2}\na: 3\n").expect("YAML").expect("a document");
    let root = tree.root();
    assert_eq!(root.get("a").and_then(Node::text), Some("3"));
    assert_eq!(root.entries().filter(|(key, _)| key.is_merge()).count(), 1);
    assert!(cmp_yaml::tree(b"# nothing\n").expect("YAML").is_none());
}

#[test]
fn utf_16_with_a_byte_order_mark_is_read() {
    let little: Vec<u8> = "\u{feff}a: é😀".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = "\u{feff}a: é😀".encode_utf16().flat_map(u16::to_be_bytes).collect();
    for document in [little, big] {
        let json = cmp_yaml::to_json(&document).expect("YAML");
        assert_eq!(String::from_utf8_lossy(&json), "{\"a\":\"é😀\"}");
    }
}

#[test]
fn tag_directives_declare_handles_once() {
    let document =
        "%TAG !a! tag:yaml.org,2002:\n%TAG !b! !c\n--- [!a!str 1, !b!str 1, !a!int '1']\n";
    let json = cmp_yaml::to_json(document.as_bytes()).expect("YAML");
    assert_eq!(String::from_utf8_lossy(&json), r#"["1","1",1]"#);
    let twice = "%TAG !a! !x\n%TAG !a! !x\n---\n";
    assert_eq!(error(twice).to_string(), "yaml: line 1: found duplicate %TAG directive");
}
