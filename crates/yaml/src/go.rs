//! Keys in Go's syntax, for the error texts about invalid keys.

use std::{cmp::Ordering, fmt::Write as _};

use super::{
    float,
    place::Place,
    scalar::Value,
    tree::{Node, Shape, Tree},
};

/// Largest document whose keys are shown in errors, in bytes. A tree takes up to 80 times as
/// much, and the caller is not asked for it.
const MAX_DOCUMENT_BYTES: usize = 64 << 10;

/// Longest text of a value, in bytes.
const MAX_TEXT_BYTES: usize = 256 << 10;

/// The collection used as a key that starts at `offset`.
pub(super) fn collection_key(document: &[u8], offset: usize) -> Option<String> {
    let tree = small_tree(document)?;
    Some(text(tree.key_at(offset)?))
}

/// A key without a JSON form.
pub(super) struct BadKey {
    /// Go's name of its type.
    pub(super) kind: &'static str,
    /// The key and its value, as the end of the error text.
    pub(super) entry: String,
    pub(super) place: Place,
}

impl BadKey {
    /// A key of a document that is too large to show it.
    pub(super) fn not_shown(is_null: bool, place: Place) -> Self {
        Self { kind: kind(is_null), entry: "…".to_owned(), place }
    }
}

fn kind(is_null: bool) -> &'static str {
    if is_null { "%!s(<nil>)" } else { "uint64" }
}

/// The first key without a JSON form.
pub(super) fn bad_key(document: &[u8]) -> Option<BadKey> {
    let tree = small_tree(document)?;
    let is_bad = |value| matches!(value, Value::Null | Value::Uint(_));
    let (key, value) = tree.entry(is_bad)?;
    let kind = kind(key.shape() == Shape::Null);
    let shown = |node: Node<'_>| {
        if node.shape() == Shape::Null { "<nil>".to_owned() } else { text(node) }
    };
    let entry = format!("key: {}, value: {}", shown(key), shown(value));
    Some(BadKey { kind, entry, place: key.place() })
}

/// The nodes, unless they are too many or have no end: in a sequence of merges, an error
/// about a key replaces one about a collection that contains itself.
fn small_tree(document: &[u8]) -> Option<Tree<'_>> {
    if document.len() > MAX_DOCUMENT_BYTES {
        return None;
    }
    Tree::new(document).ok().flatten().filter(|tree| !tree.is_endless())
}

/// A part of the value that is not written yet.
enum Pending<'t> {
    Node(Node<'t>),
    Text(&'static str),
}

fn text(node: Node<'_>) -> String {
    let mut out = String::new();
    let mut parts = vec![Pending::Node(node)];
    while let Some(part) = parts.pop() {
        match part {
            _ if out.len() > MAX_TEXT_BYTES => {
                out.push('…');
                break;
            }
            Pending::Text(text) => out.push_str(text),
            Pending::Node(node) => write_node(node, &mut parts, &mut out),
        }
    }
    out
}

/// Writes a scalar, or starts a collection and pushes its parts.
fn write_node<'t>(node: Node<'t>, parts: &mut Vec<Pending<'t>>, out: &mut String) {
    let first = parts.len() + 1;
    match (node.shape(), node.value()) {
        (Shape::Sequence, _) => {
            out.push_str("[]interface {}{");
            parts.push(Pending::Text("}"));
            for (count, item) in node.items().enumerate() {
                parts.extend((count > 0).then_some(Pending::Text(", ")));
                parts.push(Pending::Node(item));
            }
        }
        (Shape::Mapping, _) => {
            out.push_str("map[interface {}]interface {}{");
            parts.push(Pending::Text("}"));
            for (count, (key, value)) in entries(node).into_iter().enumerate() {
                parts.extend((count > 0).then_some(Pending::Text(", ")));
                parts.extend([Pending::Node(key), Pending::Text(":"), Pending::Node(value)]);
            }
        }
        (_, Some(value)) => write_scalar(value, node.text().unwrap_or_default(), out),
        (_, None) => {}
    }
    // The caller pops the last part first.
    parts.get_mut(first..).unwrap_or_default().reverse();
}

/// A mapping's entries, merged ones included, sorted by key. Of equal keys only
/// the last one is kept.
fn entries(node: Node<'_>) -> Vec<(Node<'_>, Node<'_>)> {
    let mut entries = assigned(node);
    entries.sort_by(|(one, _), (other, _)| compare(*one, *other));
    entries.reverse();
    entries.dedup_by(|(one, _), (other, _)| compare(*one, *other).is_eq());
    entries.reverse();
    entries
}

/// A step in reading a mapping.
enum Assignment<'t> {
    Entry(Node<'t>, Node<'t>),
    /// Assigns the entries of another mapping.
    Merge(Node<'t>),
}

/// Entries in the order in which go-yaml assigns them. Later ones replace
/// earlier ones, merged or not. Their number is bounded, because documents with
/// excessive aliasing have been refused before.
fn assigned(node: Node<'_>) -> Vec<(Node<'_>, Node<'_>)> {
    let mut assigned = Vec::new();
    let mut open = vec![Assignment::Merge(node)];
    while let Some(next) = open.pop() {
        match next {
            Assignment::Entry(key, value) if key.is_merge() => {
                // Of a sequence of merges the first item wins, so it is
                // assigned last.
                let is_list = value.shape() == Shape::Sequence;
                open.extend(value.items().map(Assignment::Merge));
                open.extend((!is_list).then_some(Assignment::Merge(value)));
            }
            Assignment::Entry(key, value) => assigned.push((key, value)),
            Assignment::Merge(mapping) => {
                let first = open.len();
                open.extend(mapping.entries().map(|(key, value)| Assignment::Entry(key, value)));
                open.get_mut(first..).unwrap_or_default().reverse();
            }
        }
    }
    assigned
}

/// Sorts by type first, as Go does. Go's order of types differs between
/// programs.
fn compare(one: Node<'_>, other: Node<'_>) -> Ordering {
    match (one.value(), other.value()) {
        (Some(Value::Int(one)), Some(Value::Int(other))) => one.cmp(&other),
        (Some(Value::Uint(one)), Some(Value::Uint(other))) => one.cmp(&other),
        (Some(Value::Float(one)), Some(Value::Float(other))) => one.total_cmp(&other),
        (Some(Value::Bool(one)), Some(Value::Bool(other))) => one.cmp(&other),
        (first, second) => {
            rank(first).cmp(&rank(second)).then_with(|| one.text().cmp(&other.text()))
        }
    }
}

fn rank(value: Option<Value>) -> u8 {
    match value {
        Some(Value::Null) => 0,
        Some(Value::Str | Value::Timestamp | Value::Binary) => 1,
        Some(Value::Uint(_)) => 2,
        Some(Value::Int(_)) => 3,
        Some(Value::Float(_)) => 4,
        Some(Value::Bool(_)) => 5,
        None => 6,
    }
}

fn write_scalar(value: Value, text: &str, out: &mut String) {
    // Writing to a `String` cannot fail.
    let _ = match value {
        Value::Null => write!(out, "interface {{}}(nil)"),
        Value::Bool(value) => write!(out, "{value}"),
        Value::Int(number) => write!(out, "{number}"),
        Value::Uint(number) => write!(out, "{number:#x}"),
        Value::Float(number) => {
            let mut text = Vec::new();
            float::write_go(number, &mut text);
            write!(out, "{}", String::from_utf8_lossy(&text))
        }
        Value::Str | Value::Timestamp | Value::Binary => {
            cmp_go::quote(text, out);
            Ok(())
        }
    };
}
