//! Argo CD's own tests of discovery by names.

use crate::archive::{file_name, glob, index};

/// A kustomization and a plugin definition in the same directory.
const KUSTOMIZATION: [&str; 3] = ["cm.yaml", "config/plugin.yaml", "kustomization.yaml"];

#[test]
fn a_file_name_that_exists_matches() {
    let index = index(&KUSTOMIZATION);
    let found = file_name(&index, ".", "kustomization.yaml");
    assert_eq!(found, Ok(Some("kustomization.yaml".to_owned())));
}

#[test]
fn a_missing_file_name_is_no_match() {
    assert_eq!(file_name(&index(&KUSTOMIZATION), ".", "not_found.yaml"), Ok(None));
}

#[test]
fn an_invalid_file_name_is_a_syntax_error() {
    let error = file_name(&index(&KUSTOMIZATION), ".", "[").unwrap_err();
    assert!(error.contains("syntax error"), "{error}");
}

#[test]
fn a_glob_that_matches_below_the_root_matches() {
    let found = glob(&index(&KUSTOMIZATION), ".", "**/*/plugin.yaml");
    assert_eq!(found, Ok(Some("config/plugin.yaml".to_owned())));
}

#[test]
fn a_glob_without_a_match_is_no_match() {
    assert_eq!(glob(&index(&KUSTOMIZATION), ".", "**/*/not_found.yaml"), Ok(None));
}

#[test]
fn a_glob_without_metacharacters_must_exist() {
    let error = glob(&index(&KUSTOMIZATION), ".", "does-not-exist").unwrap_err();
    assert!(error.contains("error finding glob match for pattern"), "{error}");
}

#[test]
fn a_repository_is_matched_by_its_files() {
    let pattern = "**/kustomization.yaml";
    assert_ne!(glob(&index(&KUSTOMIZATION), ".", pattern), Ok(None));
    assert_eq!(glob(&index(&["main.jsonnet"]), ".", pattern), Ok(None));
}

#[test]
fn an_application_behind_a_link_is_found() {
    let index = index(&["guestbook/kustomization.yaml", "linked -> guestbook"]);
    let found = file_name(&index, "linked", "kustomization.yaml");
    assert_eq!(found, Ok(Some("guestbook/kustomization.yaml".to_owned())));
}

#[test]
fn a_pattern_is_relative_to_the_application_and_not_to_the_repository() {
    let index = index(&["cmp-fileName/subdir/some.yaml"]);
    assert_eq!(file_name(&index, "cmp-fileName/subdir", "subdir/s*.yaml"), Ok(None));
    assert_ne!(file_name(&index, "cmp-fileName", "subdir/s*.yaml"), Ok(None));
}
