//! Documents and manifests name the version of this package.

use std::fs;

use crate::sources::files_in;

/// Texts before a version of this package.
const BEFORE: [&str; 4] = [
    "registry.example/cmp-supervisor:v",
    "registry.example/cmp-supervisor-tools:v",
    "registry.example/cmp-supervisor, newTag: v",
    "?ref=v",
];

/// The versions of this package that a line names.
fn versions(line: &str) -> impl Iterator<Item = &str> {
    BEFORE.iter().flat_map(move |before| line.split(*before).skip(1)).map(|rest| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
        rest.split(|c| !is_part(c)).next().unwrap_or_default()
    })
}

#[test]
fn images_and_components_have_the_version_of_this_package() {
    let (mut found, mut faults) = (0, Vec::new());
    for file in [files_in("docs", "md"), files_in("deploy", "yaml")].concat() {
        for line in fs::read_to_string(&file).unwrap().lines() {
            let named: Vec<_> = versions(line).collect();
            let is_pinned = !line.contains("cmp-supervisor//") || line.contains("?ref=v");
            if !is_pinned || named.iter().any(|version| *version != env!("CARGO_PKG_VERSION")) {
                faults.push(format!("{}: {line}", file.display()));
            }
            found += named.len();
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    assert!(found > 15, "only {found} versions");
}
