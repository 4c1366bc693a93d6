//! What the shape of the code has to be and no type can say.

#![expect(clippy::unwrap_used, reason = "a test that cannot read the sources has failed")]
#![expect(clippy::tests_outside_test_module, reason = "an integration test is one")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Longest file in lines: it should fit in one sitting.
const MAX_LINES: usize = 400;

/// Code that is about data only: no files, sockets, processes or clocks.
const PURE: [&str; 8] = [
    "plugin",
    "supervisor/plan",
    "request/announcement",
    "request/manifests",
    "request/path",
    "request/printable",
    "request/terms",
    "request/hint",
];

/// What pure code does not name.
const EFFECTS: [&str; 7] =
    ["tokio", "tonic", "nix", "rustix", "std::fs", "std::net", "std::process"];

/// Crates that belong to one module: nobody else names them.
const OWNED: [(&str, &[&str]); 3] =
    [("tonic", &["grpc"]), ("notify", &["loader"]), ("metrics_exporter_prometheus", &["metrics"])];

/// Modules that do not know each other: the first does not name the second.
const STRANGERS: [(&str, &str); 13] = [
    ("request", "supervisor"),
    ("request", "grpc"),
    ("request", "loader"),
    ("supervisor", "request"),
    ("supervisor", "grpc"),
    ("supervisor", "loader"),
    ("loader", "grpc"),
    ("loader", "cmp_sandbox"),
    ("plugin", "request"),
    ("admin", "grpc"),
    ("state", "loader"),
    ("state", "supervisor"),
    ("state", "admin"),
];

struct Source {
    /// Below `src`, without the extension.
    module: String,
    /// Without its tests.
    code: String,
    lines: usize,
}

impl Source {
    fn is_in(&self, module: &str) -> bool {
        self.module == module || self.module.starts_with(&format!("{module}/"))
    }

    /// Whether the code, not a comment, names a path that begins with `name`.
    fn names(&self, name: &str) -> bool {
        let code = self.code.lines().filter(|line| !line.trim_start().starts_with("//"));
        code.into_iter().any(|line| {
            line.match_indices(name).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                let after = &line[at + name.len()..];
                let begins = before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':');
                begins && after.starts_with("::")
            })
        })
    }

    fn names_module(&self, module: &str) -> bool {
        let direct = self.code.contains(&format!("crate::{module}"));
        // `use crate::{…}` over several lines.
        let grouped = self.code.split("use crate::{").skip(1).any(|group| {
            let group = group.split("};").next().unwrap_or_default();
            group.split([',', '{', '\n']).any(|part| {
                let part = part.trim();
                part == module || part.starts_with(&format!("{module}::"))
            })
        });
        direct || grouped
    }
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    files(&root, &mut paths);
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let module = path.strip_prefix(&root).unwrap().with_extension("");
        Source {
            module: module.to_str().unwrap().to_owned(),
            lines: text.lines().count(),
            code: text.split("#[cfg(test)]").next().unwrap().to_owned(),
        }
    };
    let sources: Vec<_> =
        paths.into_iter().map(read).filter(|s| !s.module.ends_with("tests")).collect();
    assert!(sources.len() > 50, "the sources were not found");
    sources
}

fn complain(problems: impl Iterator<Item = String>) {
    let problems: Vec<_> = problems.collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn no_file_is_too_long_for_one_sitting() {
    let long = |s: &Source| format!("{}.rs has {} lines", s.module, s.lines);
    complain(sources().iter().filter(|s| s.lines > MAX_LINES).map(long));
}

#[test]
fn modules_have_names_and_are_not_called_mod() {
    let bad = ["mod", "utils", "util", "helpers", "common", "misc", "manager"];
    let is_bad = |s: &&Source| s.module.split('/').any(|part| bad.contains(&part));
    complain(sources().iter().filter(is_bad).map(|s| s.module.clone()));
}

#[test]
fn pure_code_names_no_effects() {
    let all = sources();
    complain(PURE.iter().flat_map(|module| {
        let inside: Vec<_> = all.iter().filter(|source| source.is_in(module)).collect();
        assert!(!inside.is_empty(), "{module} is gone");
        let named = |s: &Source| EFFECTS.iter().find(|effect| s.names(effect)).copied();
        let problems: Vec<_> = inside
            .into_iter()
            .filter_map(|s| Some(format!("{} names {}", s.module, named(s)?)))
            .collect();
        problems
    }));
}

#[test]
fn each_crate_with_effects_has_one_place() {
    let all = sources();
    complain(OWNED.iter().flat_map(|(name, owners)| {
        let stray = |s: &&Source| s.names(name) && !owners.iter().any(|owner| s.is_in(owner));
        let strays: Vec<_> = all.iter().filter(stray).collect();
        strays.into_iter().map(move |s| format!("{} names {name}", s.module))
    }));
}

#[test]
fn modules_that_are_strangers_do_not_name_each_other() {
    let all = sources();
    complain(STRANGERS.iter().flat_map(|(here, there)| {
        let inside = all.iter().filter(move |source| source.is_in(here));
        let names: Vec<_> = inside.filter(|source| source.names_module(there)).collect();
        names.into_iter().map(move |s| format!("{} names {there}", s.module))
    }));
}

#[test]
fn metrics_name_no_module() {
    let named = |s: &&Source| s.is_in("metrics") && s.code.contains("crate::");
    complain(sources().iter().filter(named).map(|s| s.module.clone()));
}

#[test]
fn unsafe_code_is_in_one_file() {
    let is_unsafe = |s: &&Source| {
        s.code.lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl")
        })
    };
    let files: Vec<_> =
        sources().iter().filter(is_unsafe).map(|source| source.module.clone()).collect();
    assert!(files.is_empty(), "{files:?}");
}

#[test]
fn every_metric_is_documented_and_no_other() {
    let named = |text: &str, before: &str, after: &str| {
        let rest = text.split(before).skip(1);
        let names = rest.filter_map(|rest| rest.split_once(after).map(|(name, _)| name.to_owned()));
        let is_name = |name: &String| {
            name.starts_with("argocd_cmp_")
                && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase())
        };
        names.filter(is_name).collect::<BTreeSet<_>>()
    };
    let sources = sources();
    let metrics = sources.iter().filter(|source| source.is_in("metrics"));
    let code: String = metrics.map(|source| source.code.as_str()).collect();
    let documented = named(&fs::read_to_string("docs/metrics.md").unwrap(), "\n| `", "` |");
    assert_eq!(named(&code, ": &str = \"", "\";"), documented);
}
