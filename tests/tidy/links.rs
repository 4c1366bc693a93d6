//! Links between documents: each file, and each heading in it, exists.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::sources::repository;

/// Directories with documents, besides the repository itself.
const DIRECTORIES: [&str; 3] = ["docs", "deploy", "tests"];

/// The documents in a directory; below it, if `deep`.
fn documents(directory: &Path, deep: bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| match path.extension().and_then(|end| end.to_str()) {
        Some("md") => vec![path],
        _ if deep && path.is_dir() => documents(&path, deep),
        _ => Vec::new(),
    });
    found.collect()
}

/// The lines of a document that are not code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of all links.
fn targets(text: &str) -> Vec<&str> {
    let links = prose(text).flat_map(|line| line.split("](").skip(1));
    links.filter_map(|rest| rest.split_once(')').map(|(target, _)| target)).collect()
}

/// The name of a heading in links: letters, digits, `-` and `_` of its text.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    prose(text).filter(|line| line.starts_with('#')).map(anchor).collect()
}

/// The reason why a link of a document leads nowhere.
fn fault(document: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let file = if path.is_empty() { document.into() } else { document.parent()?.join(path) };
    if !file.exists() {
        return Some(format!("{}: no file {target}", document.display()));
    }
    let is_known = heading.is_empty() || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        anchors(&text).contains(heading)
    };
    (!is_known).then(|| format!("{}: no heading {target}", document.display()))
}

fn all() -> Vec<PathBuf> {
    let below = DIRECTORIES.iter().flat_map(|name| documents(&repository().join(name), true));
    documents(&repository(), false).into_iter().chain(below).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let faults: Vec<_> = all()
        .iter()
        .flat_map(|document| {
            let text = fs::read_to_string(document).unwrap();
            let faults = targets(&text).into_iter().filter_map(|target| fault(document, target));
            faults.collect::<Vec<_>>()
        })
        .collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_page_is_in_the_summary() {
    let text = fs::read_to_string(repository().join("docs/SUMMARY.md")).unwrap();
    let listed: BTreeSet<_> = targets(&text).into_iter().map(str::to_owned).collect();
    let pages = documents(&repository().join("docs"), false);
    let names = pages.iter().map(|page| page.file_name().unwrap().to_str().unwrap().to_owned());
    let pages: BTreeSet<_> = names.filter(|name| name != "SUMMARY.md").collect();
    assert_eq!(listed, pages);
}

#[test]
fn headings_become_anchors_as_on_the_web() {
    for (heading, expected) in [
        ("## What each tier stops", "what-each-tier-stops"),
        ("# `spec.sandbox` and `spec.limits`", "specsandbox-and-speclimits"),
        ("## CMP0311: a token (warning)", "cmp0311-a-token-warning"),
    ] {
        assert_eq!(anchor(heading), expected);
    }
    assert_eq!(targets("see [a](b.md#c) and [d](e)\n```\n[x](y)\n```\n"), ["b.md#c", "e"]);
}
