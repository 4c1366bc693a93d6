//! Entries of an archive and the resulting tree.

use cmp_discovery::{EntryError, LookupError, MakeError};

use crate::archive::{file_name, glob, index, try_index};

#[test]
fn names_are_relative_to_the_root() {
    let index = index(&["/etc/x", "a/../b", "./c//d/", "e/./f"]);
    for name in ["etc/x", "b", "c/d", "e/f"] {
        assert_eq!(glob(&index, ".", name), Ok(Some(name.to_owned())));
    }
    assert_eq!(index.len(), 7, "`a` is not made");
}

#[test]
fn an_entry_for_the_root_is_ignored() {
    let index = index(&[".", ".//", "./", "", "/", "a/..", "./. -> x", "a/../ -> .."]);
    assert!(index.is_empty());
}

#[test]
fn names_outside_of_the_root_are_refused() {
    for name in ["..", "../x", "a/../..", "/..", "../l -> x"] {
        assert_eq!(try_index(&[name]).unwrap_err(), EntryError::Illegal, "{name}");
    }
}

#[test]
fn parents_of_an_entry_are_created() {
    let index = index(&["a/b/c.yaml", "a/b/d.yaml", "a/e/"]);
    assert_eq!(index.len(), 5);
    assert_eq!(file_name(&index, ".", "a/b"), Ok(Some("a/b".to_owned())));
}

#[test]
fn a_repeated_entry_exists_once() {
    let index = index(&["a/", "a/x", "a/", "a/x", "a/y", "a/./x", "a/z/../y"]);
    assert_eq!(index.len(), 3);
    assert_eq!(index.files_below(b"a"), 2);
}

#[test]
fn a_file_with_the_name_of_a_link_is_written_through_it() {
    let written = index(&["a/", "lnk -> a/x", "lnk"]);
    assert_eq!(file_name(&written, ".", "a/x"), Ok(Some("a/x".to_owned())));
    assert_eq!(written.len(), 3);
    let again = index(&["a/x", "lnk -> a/x", "lnk"]);
    assert_eq!(again.len(), 3);
}

#[test]
fn impossible_entries_are_refused() {
    let exists = MakeError::Exists;
    let no_directory = MakeError::Parent(LookupError::NotADirectory);
    let nowhere = MakeError::Parent(LookupError::NotFound);
    let circle = MakeError::Parent(LookupError::TooManyLinks);
    for (entries, refused) in [
        (vec!["x", "x/y"], EntryError::Folder(no_directory)),
        (vec!["x", "x/"], EntryError::Folder(no_directory)),
        (vec!["x -> y", "x/"], EntryError::Folder(exists)),
        (vec!["x -> y", "x/z"], EntryError::Folder(exists)),
        (vec!["x/", "x"], EntryError::File(MakeError::IsADirectory)),
        (vec!["d/", "x -> d", "x"], EntryError::File(MakeError::IsADirectory)),
        (vec!["x -> y/z", "x"], EntryError::File(nowhere)),
        (vec!["x -> y", "y -> x", "x"], EntryError::File(circle)),
        (vec!["x", "x -> y"], EntryError::Link(exists)),
        (vec!["x -> y", "x -> y"], EntryError::Link(exists)),
        (vec!["d", "d/x -> y"], EntryError::Folder(no_directory)),
        (vec!["d", "x -> d/y"], EntryError::LinkTarget(LookupError::NotADirectory)),
        (vec!["x -> y", "y -> x", "z -> x"], EntryError::LinkTarget(LookupError::TooManyLinks)),
        (vec!["d/", "x -> d", "x/y -> z"], EntryError::LinkBelowLink),
        (vec!["x -> y", "x/no/y -> z"], EntryError::LinkBelowLink),
    ] {
        assert_eq!(try_index(&entries).unwrap_err(), refused, "{entries:?}");
    }
}

#[test]
fn impossible_names_are_refused() {
    let too_long = MakeError::NameTooLong;
    let long = "x".repeat(256);
    let endless = format!("l -> {}", "y/".repeat(2049));
    for (name, refused) in [
        (long.clone(), EntryError::File(too_long)),
        (format!("{long}/f"), EntryError::Folder(too_long)),
        (format!("{long} -> f"), EntryError::Link(too_long)),
        (format!("l -> {long}"), EntryError::LinkTarget(LookupError::NameTooLong)),
        (endless, EntryError::Link(too_long)),
        ("x/".repeat(2049), EntryError::Unnameable),
        ("a\0b".to_owned(), EntryError::Unnameable),
    ] {
        assert_eq!(try_index(&[&*name]).unwrap_err(), refused, "{}", &name[..2]);
    }
    assert!(try_index(&[&*"x".repeat(255), &*"y/".repeat(2047)]).is_ok());
    assert!(try_index(&[&*format!("l -> nowhere/{long}")]).is_ok(), "nobody gets that far");
}

#[test]
fn the_parents_of_a_link_are_created() {
    let index = index(&["a/b/l -> ../c", "a/c/x"]);
    assert_eq!(index.len(), 5);
    assert_eq!(glob(&index, ".", "a/b/l/x"), Ok(Some("a/b/l/x".to_owned())));
}

#[test]
fn errors_name_the_step_and_the_cause() {
    let text = |entries: &[&str]| try_index(entries).unwrap_err().to_string();
    assert_eq!(text(&["../x"]), "illegal filepath in archive");
    assert_eq!(text(&["x", "x/y"]), "error creating nested folders: not a directory");
    assert_eq!(text(&["x/", "x"]), "error creating file: is a directory");
    assert_eq!(text(&["x -> .."]), "illegal filepath in symlink");
    assert_eq!(text(&["d/", "x -> d", "x/y -> z"]), "illegal symlink parent directory");
    assert_eq!(text(&["x", "y -> x/z"]), "error checking symlink target: not a directory");
    assert_eq!(text(&["x", "x -> y"]), "error creating symlink: file exists");
}
