//! Archives as text, and the results of patterns on them.

use cmp_discovery::{AppDirectory, Decision, EntryError, FileIndex, FileNamePattern, GlobPattern};

/// The index of an archive. Entries have the forms `file`, `directory/` and
/// `link -> target`.
pub(crate) fn index(entries: &[&str]) -> FileIndex {
    try_index(entries).unwrap()
}

pub(crate) fn try_index(entries: &[&str]) -> Result<FileIndex, EntryError> {
    let mut index = FileIndex::default();
    for entry in entries {
        if let Some((name, target)) = entry.split_once(" -> ") {
            index.add_symlink(name.as_bytes(), target.as_bytes())?;
        } else if let Some(name) = entry.strip_suffix('/') {
            index.add_directory(name.as_bytes())?;
        } else {
            index.add_file(entry.as_bytes())?;
        }
    }
    Ok(index)
}

pub(crate) fn app(index: &FileIndex, path: &str) -> AppDirectory {
    AppDirectory::resolve(index, path.as_bytes()).unwrap()
}

/// The first match of a `fileName` for an application.
pub(crate) fn file_name(
    index: &FileIndex,
    path: &str,
    pattern: &str,
) -> Result<Option<String>, String> {
    let pattern = FileNamePattern::new(pattern).map_err(|error| error.to_string())?;
    let decision =
        pattern.decide(index, &app(index, path), &|| true).map_err(|error| error.to_string())?;
    Ok(found(decision))
}

/// The first match of a `find.glob` for an application.
pub(crate) fn glob(index: &FileIndex, path: &str, pattern: &str) -> Result<Option<String>, String> {
    let pattern = GlobPattern::new(pattern).map_err(|error| error.to_string())?;
    let decision =
        pattern.decide(index, &app(index, path), &|| true).map_err(|error| error.to_string())?;
    Ok(found(decision))
}

fn found(decision: Decision) -> Option<String> {
    match decision {
        Decision::Match(path) => Some(String::from_utf8(path).unwrap()),
        Decision::NoMatch => None,
    }
}
