//! Memory of the new container.

use super::{
    result::migrated,
    strange::{told, with},
};

/// The lines of two sidecars with these memory limits.
fn limits(a: &str, b: &str) -> String {
    let line = |limit: &str| match limit {
        "" => String::new(),
        _ => format!("resources: {{limits: {{memory: {limit}}}}}"),
    };
    with(&[("a", &line(a)), ("b", &line(b))])
}

#[test]
fn a_plugin_without_a_limit_gets_the_usual_memory() {
    for (a, b, expected) in [
        ("", "", "2048Mi"),
        ("64Mi", "", "2048Mi"),
        ("", "64Mi", "2048Mi"),
        ("\"0\"", "64Mi", "2048Mi"),
        ("4Gi", "", "6144Mi"),
        ("64Mi", "64Mi", "256Mi"),
    ] {
        let result = migrated(&[], &limits(a, b));
        let limit = &result.sidecar()["resources"]["limits"]["memory"];
        assert_eq!(limit, expected, "{a} {b}");
    }
}

#[test]
fn a_new_memory_limit_is_reported() {
    let told_of = |a: &str, b: &str| migrated(&[], &limits(a, b)).report;
    let expected = "plugin `b`: its sidecar had no memory limit. The new container has 2Gi";
    let report = told_of("64Mi", "");
    let (_, checks) = report.split_once("To check:").unwrap();
    assert!(checks.contains(expected), "{report}");
    told(&[], &["plugins `a`, `b`: their sidecars had no memory limit"]);
    for (a, b) in [("64Mi", "64Mi"), ("64Mi", "lots")] {
        let report = told_of(a, b);
        assert!(!report.contains("had no memory limit"), "{report}");
    }
}
