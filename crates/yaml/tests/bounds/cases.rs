//! Outputs that are large or hostile.

use std::fmt::Write as _;

use bytes::Bytes;

/// An output and its expected result.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) output: fn() -> Bytes,
    pub(crate) max_bytes: usize,
    /// Memory that the receiver grants, as a multiple of the output.
    pub(crate) granted: usize,
    /// Part of the expected error text. `None` if the output is valid.
    pub(crate) error: Option<&'static str>,
    /// Peak memory allowed, as a multiple of the larger one of output and
    /// result.
    pub(crate) times: usize,
}

/// Size of most outputs in bytes, large enough to show the cost of each byte.
const SIZE: usize = 8 << 20;

const MAX_BYTES: usize = 100 << 20;

/// More than any output needs.
const GRANTED: usize = 1000;

const DEPTH: usize = 10_000;

const fn case(name: &'static str, output: fn() -> Bytes, times: usize) -> Case {
    Case { name, output, max_bytes: MAX_BYTES, granted: GRANTED, error: None, times }
}

const fn refused(name: &'static str, output: fn() -> Bytes, error: &'static str) -> Case {
    Case { name, output, max_bytes: SIZE, granted: GRANTED, error: Some(error), times: 5 }
}

const fn stopped(name: &'static str, output: fn() -> Bytes, granted: usize) -> Case {
    let error = Some("the conversion was stopped");
    Case { granted, error, ..case(name, output, granted + 1) }
}

pub(crate) const ORDINARY: &[Case] = &[
    case("manifests", manifests, 3),
    case("one unsorted document", unsorted_document, 3),
    case("one block scalar", block_scalar, 3),
    case("one folded scalar", folded_scalar, 3),
    case("one quoted scalar", quoted_scalar, 3),
    case("one plain scalar", plain_scalar, 3),
    case("one json value", json_value, 3),
    case("one json string", json_string, 3),
];

pub(crate) const HOSTILE: &[Case] = &[
    case("deep flow", deep_flow, 4),
    case("deep blocks", deep_blocks, 4),
    case("deep and unsorted around a large value", deep_unsorted, 4),
    case("deep json", deep_json, 4),
    case("a million documents", million_documents, 3),
    case("a million separators", million_separators, 4),
    case("short entries", short_entries, 5),
    case("repeated entries", repeated_entries, 13),
    case("short items", short_items, 4),
    case("blank lines", blank_lines, 4),
    case("merges", merges, 5),
    case("anchors", anchors, 16),
    case("a long line of wide characters", wide_line, 4),
    case("line breaks in a folded scalar", folded_breaks, 4),
    Case {
        error: Some("found more than 10000 %TAG directives"),
        ..case("tag directives", tag_directives, 2)
    },
    case("tags with a long prefix", long_tag_prefix, 5),
];

pub(crate) const EXPLOSIVE: &[Case] = &[
    refused("aliases of a large value", alias_bomb, "exceeds the limit of"),
    refused("aliases of aliases", nested_aliases, "excessive aliasing"),
    refused("merges of a large mapping", merge_bomb, "exceeds the limit of"),
    refused("merges of merges", nested_merges, "excessive aliasing"),
    refused("many merges at once", merge_list, "excessive aliasing"),
    refused("characters with long escapes", long_escapes, "exceeds the limit of"),
    refused("bytes that are not characters", binary, "exceeds the limit of"),
    refused("too deep", too_deep, "exceeded max depth"),
    refused("keys without end", endless_keys, "json: offset 2"),
    Case { times: 24, ..refused("a null key", null_key, "key of type: %!s(<nil>), …") },
    Case { times: 24, ..refused("a collection as a key", collection_key, "invalid map key: ") },
];

/// Outputs of one long text each, which need more memory than is granted.
pub(crate) const LONG: &[Case] = &[
    stopped("one text with long escapes", quoted_escapes, 3),
    stopped("one long text of bytes", binary, 3),
    stopped("an alias of a long text", aliased_escapes, 9),
];

pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    ORDINARY.iter().chain(HOSTILE).chain(EXPLOSIVE).chain(LONG)
}

/// Repeats `piece`, with its number instead of `#`, up to [`SIZE`].
fn repeated(start: &str, piece: &str, end: &str) -> Bytes {
    let mut text = String::with_capacity(SIZE + 1024);
    text.push_str(start);
    let mut number = 0;
    while text.len() < SIZE {
        match piece.split_once('#') {
            Some((before, after)) => write!(text, "{before}{number}{after}").expect("memory"),
            None => text.push_str(piece),
        }
        number += 1;
    }
    text.push_str(end);
    text.shrink_to_fit();
    Bytes::from(text)
}

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> Bytes {
    Bytes::from([&open.repeat(depth), inner, &close.repeat(depth)].concat())
}

fn manifests() -> Bytes {
    let manifest = "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app-#\n  labels:\n    app: web\n\
        \x20   tier: front\ndata:\n  key: |\n    some text\n    over two lines\n  other: \"quoted: text\"\n";
    repeated("", manifest, "")
}

fn unsorted_document() -> Bytes {
    repeated(
        "kind: List\nitems:\n",
        "- name: n#\n  image: registry.example.com/team/app\n  command: [run]\n",
        "apiVersion: v1\n",
    )
}

fn block_scalar() -> Bytes {
    repeated("a: |\n", "  some line of text that is not short\n", "")
}

fn folded_scalar() -> Bytes {
    repeated("a: >\n", "  some line of text that is not short\n", "")
}

fn quoted_scalar() -> Bytes {
    repeated("a: \"", "some text\\x20over\n several lines, with an escape here and there ", "\"\n")
}

fn plain_scalar() -> Bytes {
    repeated("a: x\n", "  some line of text that is not short\n", "")
}

fn json_value() -> Bytes {
    repeated("{\"items\":[", "{\"b\":#,\"a\":[true,\"text\"]},", "null]}\n")
}

fn json_string() -> Bytes {
    repeated("{\"a\":\"", "some text \\n", "\"}\n")
}

fn deep_flow() -> Bytes {
    nested("[", "x", "]", DEPTH)
}

fn deep_blocks() -> Bytes {
    nested("- ", "x\n", "", DEPTH)
}

fn deep_unsorted() -> Bytes {
    nested("{b: ", &"x".repeat(SIZE), ", a: 1}", DEPTH - 1)
}

fn deep_json() -> Bytes {
    nested("{\"a\":", "1", "}", DEPTH)
}

fn million_documents() -> Bytes {
    Bytes::from("a\n---\n".repeat(1 << 20))
}

fn million_separators() -> Bytes {
    Bytes::from("---\n".repeat(1 << 20))
}

fn short_entries() -> Bytes {
    repeated("{", "#,", "}")
}

fn repeated_entries() -> Bytes {
    repeated("{", "a,", "}")
}

fn short_items() -> Bytes {
    repeated("[", "a,", "]")
}

fn blank_lines() -> Bytes {
    repeated("a: |+\n  x\n", "\n", "")
}

fn merges() -> Bytes {
    // With more merges per node go-yaml's guard against aliases would refuse
    // it.
    let item = "- {a: b, c: d, e: f, g: h, i: j, k: l, m: n, o: p}\n";
    let piece = [item.repeat(4).as_str(), "- {z: 1, <<: *a, b: 1}\n"].concat();
    repeated("- &a {x: 1, y: 2}\n", &piece, "")
}

fn anchors() -> Bytes {
    repeated("", "- &a# x\n", "")
}

fn wide_line() -> Bytes {
    repeated("[", "é€😀é€😀é€😀é€😀, ", "]")
}

fn folded_breaks() -> Bytes {
    repeated("a: >\n", "  x\n\n\n", "")
}

fn tag_directives() -> Bytes {
    repeated("", "%TAG !a#! !\n", "")
}

fn long_tag_prefix() -> Bytes {
    // CR, because `---` after LF would end the document here.
    let directive = format!("%TAG !a! !{}\r---\r[", "x".repeat(SIZE / 2));
    repeated(&directive, "!a!b c,", "]")
}

fn alias_bomb() -> Bytes {
    let text = "x".repeat(1 << 20);
    Bytes::from(format!("a: &a [{text}]\nb: [{}]\n", "*a,".repeat(90)))
}

fn nested_aliases() -> Bytes {
    let mut text = "- &a0 [x]\n".to_owned();
    for number in 1..20 {
        let items = format!("*a{},", number - 1).repeat(20);
        writeln!(text, "- &a{number} [{items}]").expect("memory");
    }
    Bytes::from(text)
}

fn merge_bomb() -> Bytes {
    let mut text = "- &a\n".to_owned();
    for number in 0..64 {
        writeln!(text, "  key{number}: {}", "x".repeat(1 << 14)).expect("memory");
    }
    text.push_str(&"- <<: *a\n".repeat(90));
    Bytes::from(text)
}

fn nested_merges() -> Bytes {
    let mut text = "- &a0 {x: 1}\n".to_owned();
    for number in 1..20_000 {
        let before = number - 1;
        writeln!(text, "- &a{number} {{<<: *a{before}, k{number}: 1}}").expect("memory");
    }
    Bytes::from(text)
}

fn merge_list() -> Bytes {
    let mut keys = String::new();
    for number in 0..1000 {
        write!(keys, "k{number}: , ").expect("memory");
    }
    Bytes::from(format!("a: &a {{{keys}}}\nb: {{<<: [{}]}}\n", "*a, ".repeat(100_000)))
}

fn long_escapes() -> Bytes {
    repeated("a: ", "<<<<<<<<<<<<<<<<", "\n")
}

fn quoted_escapes() -> Bytes {
    repeated("a: \"", "<<<<<<<<<<<<<<<<", "\"\n")
}

fn aliased_escapes() -> Bytes {
    repeated("a: &a \"", "<<<<<<<<<<<<<<<<", "\"\nb: *a\n")
}

fn too_deep() -> Bytes {
    nested("[", "x", "]", SIZE / 2)
}

fn null_key() -> Bytes {
    million_nodes("[{~: 1,")
}

fn collection_key() -> Bytes {
    million_nodes("[{? [] : 1,")
}

fn million_nodes(start: &str) -> Bytes {
    Bytes::from([start, &"a,".repeat(499_900), "}]\n"].concat())
}

fn endless_keys() -> Bytes {
    repeated("{", "? [[[[[[[[", "")
}

fn binary() -> Bytes {
    repeated("a: !!binary ", "////", "\n")
}
