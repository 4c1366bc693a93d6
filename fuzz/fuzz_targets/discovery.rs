//! Compares patterns on the index with a naive search of all paths.
//!
//! The input is separated by NUL: the application's path, a `fileName`, a
//! `find.glob`, and the entries. `/name` is a directory. `>name` is a link, and
//! the next part is its target. Anything else is a file.
#![no_main]

#[path = "../../crates/discovery/tests/discovery/naive.rs"]
mod naive;

use cmp_discovery::{AppDirectory, Decision, FileIndex, FileNamePattern, GlobPattern};
use libfuzzer_sys::fuzz_target;
use naive::{Answer, Files as _, Kind, Tree};

/// The naive search tries all paths. Larger inputs would take too long.
const MAX_ENTRIES: usize = 12;
const MAX_INPUT_BYTES: usize = 400;
const MAX_NAME_BYTES: usize = 100;
const MAX_STARS: usize = 4;

fuzz_target!(|data: &[u8]| {
    let parts: Vec<&[u8]> = data.split(|byte| *byte == 0).collect();
    let [app, file_name, glob, entries @ ..] = parts.as_slice() else { return };
    let (Ok(file_name), Ok(glob)) = (str::from_utf8(file_name), str::from_utf8(glob)) else {
        return;
    };
    // Short enough for any file system.
    if data.len() > MAX_INPUT_BYTES || app.len() > MAX_NAME_BYTES {
        return;
    }
    let Some((index, tree)) = unpack(entries) else { return };
    let resolved = AppDirectory::resolve(&index, app).ok();
    let expected = naive::app_directory(&tree, app);
    assert_eq!(resolved.as_ref().map(AppDirectory::path), expected.as_deref());
    let Some(app) = resolved else { return };
    if runs(file_name) <= MAX_STARS {
        let expected = naive::file_name(&tree, app.path(), file_name);
        let pattern = FileNamePattern::new(file_name).ok();
        let decision = pattern.and_then(|pattern| pattern.decide(&index, &app, &|| true).ok());
        assert_eq!(answer(decision.as_ref(), &tree), expected, "fileName: {file_name}");
    }
    // Compile even long patterns, because none may panic.
    let pattern = GlobPattern::new(glob).ok();
    let decision = pattern.and_then(|pattern| pattern.decide(&index, &app, &|| true).ok());
    if runs(glob) <= MAX_STARS {
        let expected = naive::glob(&tree, app.path(), glob);
        if expected != Answer::Unknown {
            assert_eq!(answer(decision.as_ref(), &tree), expected, "find.glob: {glob}");
        }
    }
});

/// Number of stars, and of characters in `!(…)`, each of which acts as a star.
fn runs(pattern: &str) -> usize {
    let excluded = |rest: &str| rest.split(')').next().map_or(0, str::len);
    let excluded: usize = pattern.split("!(").skip(1).map(excluded).sum();
    excluded + pattern.matches('*').count()
}

/// The result of a decision. A matching path must exist in `tree`.
fn answer(decision: Option<&Decision>, tree: &Tree) -> Answer {
    match decision {
        None => Answer::Fails,
        Some(Decision::NoMatch) => Answer::NoMatch,
        Some(Decision::Match(path)) => {
            assert!(tree.lstat(path).is_some(), "{path:?}");
            Answer::Match
        }
    }
}

/// Unpacks the archive up to the first error. Refuses names that the naive
/// search reads differently: names that are not UTF-8, and names with
/// characters of more than two bytes, because `*` may match half of such a
/// character.
fn unpack(entries: &[&[u8]]) -> Option<(FileIndex, Tree)> {
    let (mut index, mut tree) = (FileIndex::default(), Tree::default());
    let mut parts = entries.iter().take(MAX_ENTRIES);
    while let Some(part) = parts.next() {
        let (kind, name, target) = match part {
            [b'/', name @ ..] => (Kind::Directory, name, &[][..]),
            [b'>', name @ ..] => (Kind::Link, name, *parts.next()?),
            name => (Kind::File, *name, &[][..]),
        };
        if name.len() + target.len() > MAX_NAME_BYTES || !is_simple(name) || !is_simple(target) {
            return None;
        }
        let added = match kind {
            Kind::Directory => index.add_directory(name),
            Kind::File => index.add_file(name),
            Kind::Link => index.add_symlink(name, target),
        };
        let expected = tree.add(kind, name, target);
        assert_eq!(added.is_ok(), expected, "{kind:?} {name:?} {target:?}: {added:?}");
        if !expected {
            return None;
        }
    }
    assert_eq!(index.len(), tree.len());
    Some((index, tree))
}

fn is_simple(name: &[u8]) -> bool {
    str::from_utf8(name).is_ok_and(|name| name.chars().all(|character| character.len_utf8() <= 2))
}
