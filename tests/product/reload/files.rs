//! Errors in one file, next to a good file that is served.

use std::{fs, os::unix::fs::PermissionsExt, thread, time::Instant};

use crate::{
    reload::loaded::{Loaded, definition},
    waiting::PATIENCE,
};

/// Loads a file with this content next to a good one; returns its problem.
fn trouble(text: impl AsRef<[u8]>) -> String {
    let mut loaded = Loaded::new();
    loaded.write("good.yaml", definition("good", "x"));
    loaded.write("odd.yaml", text);
    assert_eq!(loaded.plugins(), ["good:x"]);
    loaded.trouble("odd.yaml")
}

/// Loads a file with this text next to a good one; true if it is served.
fn is_served(text: impl AsRef<[u8]>) -> bool {
    let mut loaded = Loaded::new();
    loaded.write("odd.yaml", text);
    loaded.plugins() == ["odd:x"] && loaded.trouble("odd.yaml").is_empty()
}

#[test]
fn a_file_without_a_definition_is_a_problem() {
    for text in ["", "# only a comment\n", "---\n", "kind: Pod\n", "[]", "text"] {
        assert!(!trouble(text).is_empty(), "{text:?}");
    }
}

#[test]
fn a_whole_configmap_is_not_a_definition() {
    let text = "apiVersion: v1\nkind: ConfigMap\ndata:\n  plugin.yaml: |\n    kind: x\n";
    assert!(!trouble(text).is_empty());
}

#[test]
fn bytes_that_are_not_text_are_a_problem() {
    for bytes in [&b"kind: \xff\xfe"[..], b"kind: a\0b", b"\xc3("] {
        assert!(!trouble(bytes).is_empty(), "{bytes:?}");
    }
}

#[test]
fn a_byte_order_mark_and_carriage_returns_are_accepted() {
    assert!(is_served(format!("\u{feff}{}", definition("odd", "x"))));
    assert!(is_served(definition("odd", "x").replace('\n', "\r\n")));
}

#[test]
fn a_tab_in_the_indentation_is_reported_with_its_line() {
    let text = "kind: ConfigManagementPlugin\nmetadata:\n\tname: odd\n";
    assert!(trouble(text).contains("line"), "{}", trouble(text));
}

#[test]
fn bombs_and_deep_nesting_are_refused_quickly() {
    let level = |n: u32| format!("a{n}: &a{n} [*a{0},*a{0},*a{0},*a{0}]\n", n - 1);
    let levels: Vec<_> = (1..30).map(level).collect();
    let bomb = format!("a0: &a0 [x]\n{}kind: x\n", levels.concat());
    let began = Instant::now();
    assert!(!trouble(bomb).is_empty());
    assert!(!trouble("[".repeat(200_000)).is_empty());
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn names_that_lead_out_of_the_socket_directory_are_refused() {
    for name in ["../x", "a/b", "\"a\\0\""] {
        assert!(!trouble(definition(name, "x")).is_empty(), "{name}");
    }
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    assert!(trouble(vec![b'#'; 2 * 1024 * 1024]).contains("larger than"));
}

/// The problem of `a.yaml` for a thread that may not read everything, as root may.
fn unprivileged_trouble(loaded: &mut Loaded) -> String {
    caps::clear(None, caps::CapSet::Effective).unwrap();
    loaded.trouble("a.yaml")
}

#[test]
fn an_unreadable_file_is_reported_with_its_mode() {
    let mut loaded = Loaded::new();
    loaded.write("a.yaml", definition("a", "x"));
    loaded.plugins();
    let path = loaded.directory().join("a.yaml");
    fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
    let text = thread::scope(|scope| scope.spawn(|| unprivileged_trouble(&mut loaded)).join());
    let text = text.unwrap();
    assert!(text.contains("0000") && text.contains("or set it to 0444"), "{text}");
    // The file was readable before, so its plugin stays.
    assert_eq!(loaded.served(), ["a:x"]);
}

#[test]
fn a_dangling_link_keeps_the_last_definition() {
    let mut loaded = Loaded::new();
    let (text, link) = (loaded.directory().join("text"), loaded.directory().join("a.yaml"));
    fs::write(&text, definition("a", "x")).unwrap();
    std::os::unix::fs::symlink("text", link).unwrap();
    assert_eq!(loaded.plugins(), ["a:x"]);
    fs::remove_file(text).unwrap();
    assert_eq!(loaded.plugins(), ["a:x"]);
    assert!(!loaded.trouble("a.yaml").is_empty());
}

#[test]
fn other_files_beside_a_definition_are_ignored() {
    let mut loaded = Loaded::new();
    loaded.write("a.yaml", definition("a", "x"));
    loaded.write("generate.sh", "#!/bin/sh\n");
    loaded.write("README.md", "# text");
    assert_eq!(loaded.plugins(), ["a:x"]);
    assert!(loaded.load().unwrap().problems.is_empty());
}

#[test]
fn the_first_document_is_the_definition() {
    let text = format!("{}---\n{}", definition("odd", "x"), "other: document\n");
    let mut loaded = Loaded::new();
    loaded.write("odd.yaml", text);
    assert_eq!(loaded.plugins()[0], "odd:x");
}
