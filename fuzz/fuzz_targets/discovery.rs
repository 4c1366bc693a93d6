//! Patterns on the index against patterns tried path by path.
//!
//! Input, separated by NUL: the application's path, a `fileName`, a `find.glob`, and
//! the entries: `/name` a directory, `>name` a link with the target in the next
//! part, anything else a file.
#![no_main]

#[path = "../../crates/discovery/tests/discovery/naive.rs"]
mod naive;

use cmp_discovery::{
    AppDirectory, FileIndex, FileNamePattern, GlobPattern, Verdict,
};
use libfuzzer_sys::fuzz_target;
use naive::{Answer, Files as _, Kind, Tree};

/// The naive ones take every way there is: more of anything never ends.
const MOST_ENTRIES: usize = 12;
const MOST_BYTES: usize = 400;
const MOST_NAME_BYTES: usize = 100;
const MOST_RUNS: usize = 4;

fuzz_target!(|data: &[u8]| {
    let parts: Vec<&[u8]> = data.split(|byte| *byte == 0).collect();
    let [app, file_name, glob, entries @ ..] = parts.as_slice() else { return };
    let (Ok(file_name), Ok(glob)) = (str::from_utf8(file_name), str::from_utf8(glob)) else {
        return;
    };
    // Shorter than any name a file system refuses.
    if data.len() > MOST_BYTES || app.len() > MOST_NAME_BYTES {
        return;
    }
    let Some((index, tree)) = unpack(entries) else { return };
    let resolved = AppDirectory::resolve(&index, app).ok();
    let expected = naive::app_directory(&tree, app);
    assert_eq!(resolved.as_ref().map(AppDirectory::path), expected.as_deref());
    let Some(app) = resolved else { return };
    if runs(file_name) <= MOST_RUNS {
        let expected = naive::file_name(&tree, app.path(), file_name);
        let pattern = FileNamePattern::new(file_name).ok();
        let verdict = pattern.and_then(|pattern| pattern.decide(&index, &app).ok());
        assert_eq!(answer(verdict.as_ref(), &tree), expected, "fileName: {file_name}");
    }
    // Compiled even where it is not compared: it must not panic.
    let pattern = GlobPattern::new(glob).ok();
    let verdict = pattern.and_then(|pattern| pattern.decide(&index, &app).ok());
    if runs(glob) <= MOST_RUNS {
        let expected = naive::glob(&tree, app.path(), glob);
        if expected != Answer::Unknown {
            assert_eq!(answer(verdict.as_ref(), &tree), expected, "find.glob: {glob}");
        }
    }
});

/// Stars, and the characters of a `!(…)`, each of which is one.
fn runs(pattern: &str) -> usize {
    let excluded = |rest: &str| rest.split(')').next().map_or(0, str::len);
    let excluded: usize = pattern.split("!(").skip(1).map(excluded).sum();
    excluded + pattern.matches('*').count()
}

/// What a match says exists has to.
fn answer(verdict: Option<&Verdict>, tree: &Tree) -> Answer {
    match verdict {
        None => Answer::Fails,
        Some(Verdict::NoMatch) => Answer::NoMatch,
        Some(Verdict::Match(path)) => {
            assert!(tree.lstat(path).is_some(), "{path:?}");
            Answer::Match
        }
    }
}

/// The archive as far as it can be unpacked. Names the naive ones read differently
/// are left out: those that are not UTF-8, and those with characters of more than
/// two bytes, half of which a `*` may pass over.
fn unpack(entries: &[&[u8]]) -> Option<(FileIndex, Tree)> {
    let (mut index, mut tree) = (FileIndex::default(), Tree::default());
    let mut parts = entries.iter().take(MOST_ENTRIES);
    while let Some(part) = parts.next() {
        let (kind, name, target) = match part {
            [b'/', name @ ..] => (Kind::Directory, name, &[][..]),
            [b'>', name @ ..] => (Kind::Link, name, *parts.next()?),
            name => (Kind::File, *name, &[][..]),
        };
        if name.len() + target.len() > MOST_NAME_BYTES || !is_simple(name) || !is_simple(target) {
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
