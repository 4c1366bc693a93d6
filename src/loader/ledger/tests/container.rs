//! Invalid definitions in a `ConfigMap` or a list.

use super::*;

fn file(text: &str) -> Source {
    Source { name: "f.yaml".into(), text: Ok(text.into()), extent: Extent::All }
}

/// A file of four plugins, of which the last one is in a document of its own, and then its
/// start, with another command in the first plugin.
fn cut_off(first: &str, rest: &str, start: &str) {
    let mut ledger = ledger();
    ledger.update(vec![file(&format!("{first}{rest}---\n{}", plugin("m3")))]);
    let text = first.replace("[x]", "[z]") + start;
    let (catalog, problems) = ledger.update(vec![file(&text)]);
    assert_eq!(commands(&catalog), ["m0:z", "m1:x", "m2:x", "m3:x"], "{text}");
    assert!(!problems.is_empty() && problems.iter().all(|one| one.stale), "{problems:?}");
    let stale: Vec<_> = catalog.iter().map(|one| ledger.is_stale(&one.name)).collect();
    assert_eq!(stale, [false, true, true, true], "{text}");
}

/// Three plugins, each under a line of its own.
fn items(lines: [&str; 3]) -> [String; 3] {
    let names = ["m0", "m1", "m2"];
    let text = |index: usize| plugin(names[index]).trim_end().replace('\n', "\n    ");
    [0, 1, 2].map(|index| format!("{}{}\n", lines[index], text(index)))
}

#[test]
fn a_configmap_that_is_cut_off_in_a_definition_keeps_all_behind_it() {
    // Nothing sorts the keys of a file that is written by hand.
    let [m0, m1, m2] = items(["z: |\n    ", "  c: |\n    ", "  k: |\n    "]);
    let first = format!("kind: ConfigMap\ndata:\n  {m0}");
    for end in m1.find("\n    metadata").unwrap()..m1.len() - "]}}\n".len() {
        cut_off(&first, &(m1.clone() + &m2), &m1[..end]);
    }
}

#[test]
fn a_list_that_is_cut_off_in_a_definition_keeps_all_behind_it() {
    let [m0, m1, m2] = items(["- ", "  - ", "  - "]);
    let first = format!("kind: List\nitems:\n  {m0}");
    for end in ["\n    metadata", "\n    spec"] {
        cut_off(&first, &(m1.clone() + &m2), &m1[..m1.find(end).unwrap()]);
    }
}

#[test]
fn a_definition_that_is_renamed_next_to_an_invalid_one_has_its_new_name() {
    let map = |a: &str, b: &str| file(&format!("kind: ConfigMap\ndata:\n  a: '{a}'\n  b: '{b}'\n"));
    let one = |name: &str| OTHER.replace("name: b", &format!("name: {name}"));
    let mut ledger = ledger();
    ledger.update(vec![map(&one("a"), &one("b"))]);
    let (catalog, problems) = ledger.update(vec![map(&one("new"), "kind: ConfigManagementPlugin")]);
    assert_eq!(commands(&catalog), ["b:x", "new:x"]);
    assert!(problems.iter().all(|one| one.to_string().contains("data[b]")), "{problems:?}");
}
