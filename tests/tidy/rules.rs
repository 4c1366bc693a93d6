use std::{fs, path::PathBuf};

use crate::{
    cycles::References,
    mentions,
    sources::{Source, crates, files_in, of_all_crates, of_crate, repository},
};

/// Longest file in lines: one sitting.
const MAX_LINES: usize = 400;

/// Modules of the product that handle data only: no files, sockets, processes
/// or clocks.
const PURE: [&str; 11] = [
    "budget",
    "plugin",
    "settings",
    "supervisor/plan",
    "request/announcement",
    "request/encrypted",
    "request/manifests",
    "request/path",
    "request/printable",
    "request/command",
    "request/hint",
];

/// Crates that handle data only.
const PURE_CRATES: [&str; 4] = ["crates/yaml", "crates/archive", "crates/discovery", "crates/go"];

/// Everything that pure code must not refer to.
const EFFECTS: [&str; 17] = [
    "tokio",
    "tonic",
    "nix",
    "rustix",
    "std::fs",
    "std::net",
    "std::os::fd",
    "std::os::unix::fs",
    "std::os::unix::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::env",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
];

/// Crates that only these modules of the product use.
const OWNED: [(&str, &[&str]); 6] = [
    ("tonic", &["grpc", "traces"]),
    ("opentelemetry", &["traces"]),
    ("opentelemetry_otlp", &["traces"]),
    ("opentelemetry_sdk", &["traces"]),
    // Definitions, sockets, and the errors of both.
    ("notify", &["loader", "grpc", "watcher"]),
    ("metrics_exporter_prometheus", &["metrics"]),
];

/// References that would not be circular and are still wrong.
const STRANGERS: [(&str, &str); 14] = [
    ("migrate", "request"),
    ("request", "supervisor"),
    ("request", "loader"),
    ("supervisor", "request"),
    ("supervisor", "grpc"),
    ("loader", "grpc"),
    ("plugin", "request"),
    ("state", "loader"),
    ("state", "supervisor"),
    ("state", "admin"),
    ("loader", "supervisor"),
    ("supervisor", "loader"),
    ("event", "grpc"),
    ("validate", "request"),
];

/// Crates of the workspace that each crate may use.
const CRATES: [(&str, &[&str]); 6] = [
    ("crates/go", &[]),
    ("crates/procfs", &[]),
    ("crates/yaml", &["cmp-go"]),
    ("crates/archive", &["cmp-go"]),
    ("crates/discovery", &["cmp-go"]),
    ("crates/sandbox", &["cmp-archive", "cmp-go", "cmp-procfs"]),
];

/// The only files with unsafe code.
const UNSAFE: [&str; 2] =
    ["crates/sandbox/src/kernel/fork.rs", "crates/sandbox/src/kernel/heap.rs"];

fn complain(problems: impl IntoIterator<Item = String>) {
    let problems: Vec<_> = problems.into_iter().collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

fn pure() -> Vec<&'static Source> {
    let product = of_crate(".");
    let missing = |path: &&&str| !product.iter().any(|source| source.is_in(path));
    assert_eq!(PURE.iter().find(missing), None, "a module in PURE does not exist");
    let modules = product.iter().filter(|source| PURE.iter().any(|path| source.is_in(path)));
    modules.chain(PURE_CRATES.iter().flat_map(|directory| of_crate(directory))).collect()
}

/// The files of the product and of its tests.
fn all_files() -> impl Iterator<Item = PathBuf> {
    ["src", "crates", "tests"].into_iter().flat_map(|directory| files_in(directory, "rs"))
}

#[test]
fn no_file_is_too_long_for_one_sitting() {
    let counted =
        all_files().map(|file| (fs::read_to_string(&file).unwrap().lines().count(), file));
    let long = counted.filter(|(lines, _)| *lines > MAX_LINES);
    complain(long.map(|(lines, file)| format!("{} has {lines} lines", file.display())));
}

#[test]
fn modules_have_names_and_are_not_called_mod() {
    let bad = ["mod", "utils", "util", "helpers", "common", "misc", "manager"];
    let all = of_all_crates();
    let named = all.iter().filter(|s| s.module.iter().any(|name| bad.contains(&name.as_str())));
    complain(named.map(|source| source.file.clone()));
}

#[test]
fn pure_code_has_no_effects() {
    complain(pure().iter().flat_map(|source| {
        let named = EFFECTS.iter().filter(|effect| source.mentions.names(effect));
        named.map(|effect| format!("{} names {effect}", source.file)).collect::<Vec<_>>()
    }));
}

#[test]
fn a_crate_with_effects_is_used_by_its_owners() {
    let product = of_crate(".");
    complain(OWNED.iter().flat_map(|(name, owners)| {
        let is_owned = |s: &&Source| owners.iter().any(|owner| s.is_in(owner));
        let strays = product.iter().filter(|s| s.mentions.names(name) && !is_owned(s));
        strays.map(|source| format!("{} names {name}", source.file)).collect::<Vec<_>>()
    }));
}

#[test]
fn a_crate_uses_the_crates_below_it_only() {
    let listed = |directory: &&String| CRATES.iter().any(|(name, _)| name == *directory);
    let all = crates();
    let unlisted: Vec<_> = all.iter().filter(|name| *name != "." && !listed(name)).collect();
    assert!(unlisted.is_empty(), "add to CRATES: {unlisted:?}");
    complain(CRATES.iter().flat_map(|(directory, allowed)| {
        let manifest = fs::read_to_string(repository().join(directory).join("Cargo.toml")).unwrap();
        let used = manifest.split_once("\n[dependencies]\n").map_or("", |(_, rest)| rest);
        let used = used.split("\n[").next().unwrap_or_default().lines();
        let names = used.filter_map(|line| line.split(['.', ' ', '=']).next());
        let own = names.filter(|name| name.starts_with("cmp-") && !allowed.contains(name));
        own.map(|name| format!("{directory} uses {name}")).collect::<Vec<_>>()
    }));
}

#[test]
fn no_modules_refer_to_one_another_in_a_circle() {
    complain(crates().iter().flat_map(|directory| {
        let sources = of_crate(directory);
        let modules = References::between_modules(sources).circular();
        modules.into_iter().chain(References::between_files(sources).circular())
    }));
}

#[test]
fn modules_that_are_strangers_do_not_refer_to_each_other() {
    let product = of_crate(".");
    complain(STRANGERS.iter().flat_map(|(here, there)| {
        let prefix = format!("crate::{there}");
        let inside = product.iter().filter(|s| s.is_in(here) && s.mentions.names(&prefix));
        inside.map(|source| format!("{} names {there}", source.file)).collect::<Vec<_>>()
    }));
}

#[test]
fn the_client_of_the_sandbox_does_not_know_the_other_processes() {
    let references = References::between_modules(of_crate("crates/sandbox"));
    let forbidden = [
        ("client", "spawner"),
        ("client", "worker"),
        ("worker", "spawner"),
        ("wire", "kernel"),
        ("kernel", "worker"),
    ];
    let there = forbidden.iter().filter(|(from, to)| references.leads(from, to));
    complain(there.map(|(from, to)| format!("{from} refers to {to}")));
}

#[test]
fn metrics_refer_to_no_other_module() {
    let product = of_crate(".");
    let metrics = product.iter().filter(|source| source.top() == "metrics");
    let others = metrics.filter(|s| s.mentions.modules().any(|path| path[0] != "metrics"));
    complain(others.map(|source| source.file.clone()));
}

#[test]
fn unsafe_code_is_in_two_files_and_forbidden_in_other_crates() {
    let all = of_all_crates();
    let files = all.iter().filter(|source| source.mentions.has_unsafe);
    assert_eq!(files.map(|source| source.file.as_str()).collect::<Vec<_>>(), UNSAFE);
    let roots = all.iter().filter(|source| source.file.ends_with("src/lib.rs"));
    let open = roots.filter(|source| !source.text.contains("#![forbid(unsafe_code)]"));
    assert_eq!(
        open.map(|source| source.file.as_str()).collect::<Vec<_>>(),
        ["crates/sandbox/src/lib.rs"]
    );
}

/// First words of a comment that hides its subject in a clause: "What is left"
/// instead of "The rest".
const CLAUSES: [&str; 9] =
    ["What", "Which", "Who", "Whose", "Whom", "Where", "How", "Whether", "That"];

/// The comment on a line, without its slashes.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}

/// Comments in `text` that begin with a clause, each with its line number.
fn clauses(text: &str) -> Vec<(usize, &str)> {
    let mut before: Option<&str> = None;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let here = comment(line);
        // A line within a sentence may begin with any word.
        let begins = before.is_none_or(|text| text.is_empty() || text.ends_with(['.', ':']));
        let word = here.and_then(|text| text.split([' ', ',']).next()).unwrap_or_default();
        if begins && CLAUSES.contains(&word) {
            found.push((index + 1, line.trim()));
        }
        before = here;
    }
    found
}

#[test]
fn comments_begin_with_their_subject() {
    complain(all_files().flat_map(|file| {
        let text = fs::read_to_string(&file).unwrap();
        let found = clauses(&text).into_iter();
        found.map(|(line, text)| format!("{}:{line}: {text}", file.display())).collect::<Vec<_>>()
    }));
}

#[test]
fn a_clause_is_found_at_the_beginning_of_a_sentence_only() {
    for text in
        ["/// What is left", "//! How, and why", "// Done.\n// That is all", "x; \n    // Who"]
    {
        assert_eq!(clauses(text).len(), 1, "{text}");
    }
    for text in ["/// The rest", "// The files\n// Where they are", "// Whatever", "let what = 1;"]
    {
        assert!(clauses(text).is_empty(), "{text}");
    }
}

/// Tells if a file with this text, as the module `request::path`, refers to
/// `path`.
fn mentioned(text: &str, path: &str) -> bool {
    let module = ["request".to_owned(), "path".to_owned()];
    mentions::of(&syn::parse_file(text).unwrap(), &module).names(path)
}

#[test]
fn references_are_found_in_every_form() {
    for text in [
        "use std::fs;",
        "use std::{fs, io};",
        "use std::{io::{self, Read}, fs::{self, File}};",
        "fn f() { std::fs::read(\"a\"); }",
        "fn f() { assert!(std::fs::read(\"a\").is_ok()); }",
        "type F = std::fs::File;",
        "mod inner { use std::fs as files; }",
        "#[cfg(test)] mod tests {} \n use std::fs;",
        "#[cfg(test)] use std::io; \n fn f() -> std::fs::File {}",
    ] {
        assert!(mentioned(text, "std::fs"), "{text}");
    }
    for text in [
        "#[cfg(test)] mod tests { use std::fs; }",
        "#[cfg(test)] use std::fs;",
        "// std::fs::read\n",
        "const A: &str = \"std::fs::read\";",
        "use std::io;",
    ] {
        assert!(!mentioned(text, "std::fs"), "{text}");
    }
}

#[test]
fn relative_references_are_resolved() {
    for (text, path) in [
        ("use super::super::grpc::Call;", "crate::grpc"),
        ("use super::manifests::Manifests;", "crate::request::manifests"),
        ("fn f() { self::inner::g(); }", "crate::request::path::inner"),
        ("mod inner { use super::super::other::Thing; }", "crate::request::other"),
        ("use crate::{plugin::Name, grpc};", "crate::grpc"),
    ] {
        assert!(mentioned(text, path), "{text}");
    }
    assert!(!mentioned("use super::manifests::Manifests;", "crate::grpc"));
}
