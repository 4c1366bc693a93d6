//! Paths of mounts: variables in them, and mounts below others.

use serde_json::{Value, json};

use super::{
    result::{Migrated, migrated},
    strange::{told, with},
};

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

/// Volumes of every kind that stays, by their names.
const VOLUMES: &str = "- {name: claim, persistentVolumeClaim: {claimName: c}}
        - {name: secret, secret: {secretName: s}}
        - {name: other, secret: {secretName: o}}
        - {name: filled, emptyDir: {}}
        - {name: files, configMap: {name: files}}";

/// The result if the sidecars mount these volumes at these paths.
#[track_caller]
fn mounted(a: &[(&str, &str)], b: &[(&str, &str)]) -> Migrated {
    let lines = |mounts: &[(&str, &str)]| {
        let line =
            |(volume, path): &(&str, &str)| format!("- {{name: {volume}, mountPath: {path}}}");
        mounts.iter().map(line).collect::<Vec<_>>().join("\n            ")
    };
    let fill = "initContainers: [{name: i, volumeMounts: [{name: filled, mountPath: /f}]}]";
    let (a, b) = (lines(a), lines(b));
    told(&[("a-mounts", &a), ("b-mounts", &b), ("volumes", VOLUMES), ("pod", fill)], &[])
}

/// Paths of the mounts of these volumes, and those that each plugin reads.
fn paths(result: &Migrated) -> [Vec<String>; 3] {
    let text = |value: &Value| value.as_str().unwrap().trim_end_matches('/').to_owned();
    let mounts = result.sidecar()["volumeMounts"].as_array().unwrap();
    let is_ours = |mount: &&Value| VOLUMES.contains(&format!("name: {},", text(&mount["name"])));
    let mounts = mounts.iter().filter(is_ours).map(|mount| text(&mount["mountPath"])).collect();
    let read = |key: &str| {
        let definition = result.definition(key);
        let paths = definition["spec"]["sandbox"]["read"].as_array().cloned();
        paths.unwrap_or_default().iter().map(text).collect()
    };
    [mounts, read("a.yaml"), read("b.yaml")]
}

#[test]
fn no_plugin_reads_a_mount_of_another_one_below_its_own() {
    let (claim, same) = (("claim", "/d"), ("secret", "/d/x"));
    let moved = "/cmp-moved/b/d";
    for (a, b, of_b) in [
        // Below a mount of the other sidecar, and above one.
        (&[claim][..], &[("secret", "/d/keys")][..], &["/cmp-moved/b/d/keys"][..]),
        (&[same], &[claim], &[moved]),
        (&[("secret", "/d/")], &[("other", "/d/keys/")], &["/cmp-moved/b/d/keys"]),
        // Those below a mount that is elsewhere are below it there, in any order.
        (&[same], &[("other", "/d/y"), claim], &[moved, "/cmp-moved/b/d/y"]),
        // Both sidecars have the same mounts, or one of them has more.
        (&[claim, same], &[claim, same], &["/d", "/d/x"]),
        (&[claim], &[claim, same], &["/cmp-moved/b/d/x", "/d"]),
        (&[claim, ("secret", "/e")], &[claim, ("other", "/d2")], &["/d", "/d2"]),
    ] {
        let [mounts, read_by_a, read_by_b] = paths(&mounted(a, b));
        assert_eq!(read_by_b, of_b, "{a:?} {b:?}");
        let of_a: Vec<_> = a.iter().map(|(_, path)| path.trim_end_matches('/')).collect();
        assert_eq!(read_by_a, of_a, "{a:?} {b:?}");
        for own in [read_by_a, read_by_b] {
            for mount in mounts.iter().filter(|mount| !own.contains(mount)) {
                let is_read = own.iter().any(|path| mount.starts_with(&format!("{path}/")));
                assert!(!is_read, "{mount}: {a:?} {b:?}");
            }
        }
    }
    let [_, of_a, of_b] = paths(&mounted(&[claim, same], &[claim]));
    assert_eq!(
        (of_a, of_b),
        (vec!["/cmp-moved/a/d/x".to_owned(), "/d".to_owned()], vec!["/d".to_owned()])
    );
}

#[test]
fn commands_name_a_mount_below_another_one_by_its_new_path() {
    let lines = [
        ("a-mounts", "- {name: claim, mountPath: /data}"),
        ("b-mounts", "- {name: secret, mountPath: /data/keys}"),
        ("volumes", VOLUMES),
    ];
    let text = with(&lines).replace("[cat, b.yaml]", "[cat, /data/keys/k]");
    let result = migrated(&[], &text);
    let command = &result.definition("b.yaml")["spec"]["generate"]["command"];
    assert_eq!(*command, json!(["cat", "/cmp-moved/b/data/keys/k"]));
    let expected = "plugin `b`: /data/keys overlaps /data in the new container, so its files are at \
                    /cmp-moved/b/data/keys: its commands were changed; check scripts";
    assert!(result.report.contains(expected), "{}", result.report);
}

#[test]
fn no_mount_is_below_a_read_only_one_that_was_writable() {
    for (a, b) in [
        (&[("filled", "/tools")][..], &[("files", "/tools/conf")][..]),
        (&[("files", "/tools/conf")], &[("filled", "/tools")]),
        (&[("filled", "/tools"), ("files", "/tools/conf")], &[]),
        (&[("files", "/tools/conf"), ("filled", "/tools")], &[("filled", "/tools")]),
        (&[("filled", "/tools")], &[("files", "/tools/conf"), ("filled", "/tools")]),
        (&[("filled", "/home/argocd")], &[]),
    ] {
        let result = mounted(a, b);
        let mounts = result.sidecar()["volumeMounts"].as_array().unwrap();
        let path = |mount: &Value| mount["mountPath"].as_str().unwrap().to_owned();
        for outer in mounts.iter().filter(|mount| mount["readOnly"] == true) {
            let below = format!("{}/", path(outer));
            let inner = mounts.iter().find(|mount| path(mount).starts_with(&below));
            assert_eq!(inner, None, "below {outer}: {a:?} {b:?}");
        }
    }
    // Its plugin reads what other plugins no longer can.
    let [_, of_a, of_b] = paths(&mounted(&[("filled", "/tools"), ("files", "/tools/conf")], &[]));
    assert_eq!((of_a, of_b), (vec!["/tools".to_owned()], vec![]));
    let [_, of_a, _] = paths(&mounted(&[("filled", "/tools")], &[]));
    assert!(of_a.is_empty(), "{of_a:?}");
}
