//! Compares the index and the compiled patterns with a naive search, on random
//! input.

use cmp_discovery::{AppDirectory, FileIndex, FileNamePattern, GlobPattern};
use proptest::prelude::*;

use crate::naive::{self, Answer, Files, Kind, Tree};

/// Few names, so that entries often have the same one.
const NAMES: [&str; 15] = [
    "a",
    "b",
    "ab",
    "abab",
    "c",
    "d.y",
    ".h",
    "é",
    "[x]",
    "a*",
    "{b}",
    "x\nz",
    "!(a)",
    "-",
    "Chart.yaml",
];

const PIECES: [&str; 40] = [
    "*",
    "**",
    "**/",
    "*/",
    "?",
    "[a-c]",
    "[^a]",
    "[!a]",
    "[",
    "]",
    "{a,b}",
    "{b.c,*}",
    "!(a)",
    "\\",
    "/",
    "/",
    "/",
    "a",
    "b",
    "ab",
    "c",
    "d",
    ".",
    "..",
    "./",
    "../",
    "d.y",
    "é",
    "*.y",
    "[é-ü]",
    "-",
    "[\\]x]",
    "\\*",
    "***/",
    "x",
    "\n",
    "[^/]",
    "{,a}",
    ",",
    "Chart.yaml",
];

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) target: String,
}

pub(crate) fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![12 => prop::sample::select(&NAMES[..]), 1 => Just(".."), 1 => Just("")];
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

pub(crate) fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let kind = prop_oneof![
        3 => Just(Kind::File),
        3 => Just(Kind::Directory),
        2 => Just(Kind::Link),
    ];
    let entry =
        (kind, path(), path()).prop_map(|(kind, name, target)| Entry { kind, name, target });
    prop::collection::vec(entry, 0..14)
}

pub(crate) fn pattern() -> impl Strategy<Value = String> {
    let piece = prop_oneof![prop::sample::select(&PIECES[..]), prop::sample::select(&NAMES[..])];
    prop::collection::vec(piece, 1..7).prop_map(|pieces| pieces.concat())
}

/// Unpacks the archive up to the first error. Both sides must fail at the same
/// entry.
fn unpack(entries: &[Entry]) -> Result<(FileIndex, Tree), TestCaseError> {
    let (mut index, mut tree) = (FileIndex::default(), Tree::default());
    for entry in entries {
        let (name, target) = (entry.name.as_bytes(), entry.target.as_bytes());
        let added = match entry.kind {
            Kind::Directory => index.add_directory(name),
            Kind::File => index.add_file(name),
            Kind::Link => index.add_symlink(name, target),
        };
        let expected = tree.add(entry.kind, name, target);
        prop_assert_eq!(added.is_ok(), expected, "{:?}: {:?}", entry, added);
        if !expected {
            return Ok((index, tree));
        }
    }
    prop_assert_eq!(index.len(), tree.len());
    Ok((index, tree))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn patterns_find_what_trying_every_path_finds(
        entries in entries(),
        app in path(),
        patterns in prop::collection::vec(pattern(), 8),
    ) {
        let (index, tree) = unpack(&entries)?;
        compare(&index, &tree, (&app, &patterns))?;
    }
}

/// Checks that an index finds what a naive search of the same files finds.
pub(crate) fn compare(
    index: &FileIndex,
    files: &impl Files,
    (app, patterns): (&str, &[String]),
) -> Result<(), TestCaseError> {
    let resolved = AppDirectory::resolve(index, app.as_bytes()).ok();
    let expected = naive::app_directory(files, app.as_bytes());
    prop_assert_eq!(resolved.as_ref().map(AppDirectory::path), expected.as_deref());
    let Some(app) = resolved else { return Ok(()) };
    for pattern in patterns {
        let expected = naive::file_name(files, app.path(), pattern);
        prop_assert_eq!(file_name(index, &app, pattern), expected, "fileName: {}", pattern);
        let expected = naive::glob(files, app.path(), pattern);
        if expected != Answer::Unknown {
            prop_assert_eq!(glob(index, &app, pattern), expected, "find.glob: {}", pattern);
        }
    }
    Ok(())
}

fn file_name(index: &FileIndex, app: &AppDirectory, pattern: &str) -> Answer {
    let Ok(pattern) = FileNamePattern::new(pattern) else { return Answer::Fails };
    match pattern.decide(index, app, &|| true) {
        Ok(decision) if decision.is_match() => Answer::Match,
        Ok(_) => Answer::NoMatch,
        Err(_) => Answer::Fails,
    }
}

fn glob(index: &FileIndex, app: &AppDirectory, pattern: &str) -> Answer {
    let Ok(pattern) = GlobPattern::new(pattern) else { return Answer::Fails };
    match pattern.decide(index, app, &|| true) {
        Ok(decision) if decision.is_match() => Answer::Match,
        Ok(_) => Answer::NoMatch,
        Err(_) => Answer::Fails,
    }
}
