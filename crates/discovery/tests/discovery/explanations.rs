//! What people are told.

use cmp_discovery::{GlobPattern, Verdict};

use crate::archive::{app, index};

fn explained(path: &str, pattern: &str) -> String {
    let index = index(&["apps/keda/Chart.yaml", "apps/keda/templates/crd.yaml", "apps/l -> keda"]);
    let app = app(&index, path);
    let verdict = GlobPattern::new(pattern).unwrap().decide(&index, &app).unwrap();
    verdict.explain(&index, &app).to_string()
}

#[test]
fn a_match_is_explained_by_what_matched() {
    assert_eq!(explained("apps/keda", "**/c*.yaml"), "apps/keda/templates/crd.yaml matches");
    assert_eq!(explained(".", "*"), "apps matches");
}

#[test]
fn no_match_is_explained_by_what_was_searched() {
    assert_eq!(explained("apps/keda", "*.tf"), "matched 0 of 2 files under apps/keda");
    assert_eq!(explained("apps/l", "*.tf"), "matched 0 of 2 files under apps/keda");
    assert_eq!(explained(".", "*.tf"), "matched 0 of 3 files under .");
}

#[test]
fn names_do_not_reach_a_terminal_raw() {
    let index = index(&["\u{1b}[31m\n"]);
    let app = app(&index, ".");
    let verdict = GlobPattern::new("*").unwrap().decide(&index, &app).unwrap();
    assert!(verdict.is_match());
    assert_eq!(verdict.explain(&index, &app).to_string(), "\\u{1b}[31m\\n matches");
    assert!(!Verdict::NoMatch.is_match());
}
