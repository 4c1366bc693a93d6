//! Variables in the paths of mounts.

use serde_json::{Value, json};

use super::{result::Migrated, strange::told};

/// Two sidecars that mount a directory of a volume at the same path, and their variables.
fn expressed(a: &str, b: &str) -> Migrated {
    let mount = "- {name: c, mountPath: /c, subPathExpr: x/$(C)}";
    let claim = "- {name: c, persistentVolumeClaim: {claimName: c}}";
    told(&[("a", a), ("b", b), ("a-mounts", mount), ("b-mounts", mount), ("volumes", claim)], &[])
}

#[test]
fn variables_in_paths_of_mounts_follow_them() {
    let env = |value: &str| format!("env: [{{name: C, value: {value}}}]");
    let paths = |result: &Migrated| {
        let mounts = result.sidecar()["volumeMounts"].as_array().unwrap();
        let mounts = mounts.iter().filter(|mount| mount["name"] == "c");
        let both = |mount: &Value| json!([mount["mountPath"], mount["subPathExpr"]]);
        mounts.map(both).collect::<Vec<_>>()
    };
    let same = expressed(&env("one"), &env("one"));
    assert_eq!(paths(&same), [json!(["/c", "x/$(C)"])]);
    assert!(!same.report.contains("subPathExpr"), "{}", same.report);
    let differing = expressed(&env("one"), &env("two"));
    let expected = [json!(["/c", "x/$(A_C)"]), json!(["/cmp-moved/b/c", "x/$(B_C)"])];
    assert_eq!(paths(&differing), expected);
    assert!(!differing.report.contains("subPathExpr"), "{}", differing.report);
}

#[test]
fn paths_of_mounts_with_removed_variables_are_reported() {
    let gone =
        "plugin `a`: subPathExpr of /c refers to $(C), which the new container does not have";
    for (a, b, is_told) in [
        ("#", "#", true),
        ("env: [{name: C, value: x}]", "#", false),
        ("envFrom: [{secretRef: {name: s}}]", "envFrom: [{secretRef: {name: s}}]", false),
    ] {
        assert_eq!(expressed(a, b).report.contains(gone), is_told, "{a}");
    }
}
