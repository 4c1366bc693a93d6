//! Explanations for people.

use cmp_discovery::{Decision, GlobPattern};

use crate::archive::{app, index};

fn explained(path: &str, pattern: &str) -> String {
    let index = index(&["apps/keda/Chart.yaml", "apps/keda/templates/crd.yaml", "apps/l -> keda"]);
    let app = app(&index, path);
    let decision = GlobPattern::new(pattern).unwrap().decide(&index, &app, &|| true).unwrap();
    decision.explain(&index, &app).to_string()
}

#[test]
fn a_match_is_explained_by_its_path() {
    assert_eq!(explained("apps/keda", "**/c*.yaml"), "apps/keda/templates/crd.yaml matches");
    assert_eq!(explained(".", "*"), "apps matches");
}

#[test]
fn no_match_is_explained_by_the_number_of_files() {
    assert_eq!(explained("apps/keda", "*.tf"), "matched 0 of 2 files under apps/keda");
    assert_eq!(explained("apps/l", "*.tf"), "matched 0 of 2 files under apps/keda");
    assert_eq!(explained(".", "*.tf"), "matched 0 of 3 files under .");
}

#[test]
fn control_characters_of_names_are_escaped() {
    let index = index(&["\u{1b}[31m\n"]);
    let app = app(&index, ".");
    let decision = GlobPattern::new("*").unwrap().decide(&index, &app, &|| true).unwrap();
    assert!(decision.is_match());
    assert_eq!(decision.explain(&index, &app).to_string(), "\\u{1b}[31m\\n matches");
    assert!(!Decision::NoMatch.is_match());
}
