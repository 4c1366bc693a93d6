//! A patch, as kustomize and `kubectl patch` take it.

use serde_json::json;

use super::{result::migrated, strange::with};

/// The manifests as a patch.
fn bare(lines: &[(&str, &str)]) -> String {
    let text = with(lines);
    let (_, spec) = text.split_once("metadata: {name: repo}\n").unwrap();
    spec.to_owned()
}

#[test]
fn old_sidecars_and_volumes_of_their_config_maps_are_deleted() {
    let more = [
        ("pod", "automountServiceAccountToken: true"),
        ("volumes", "- {name: tools, emptyDir: {}}"),
        ("a-mounts", "- {name: tools, mountPath: /tools}"),
    ];
    let result = migrated(&[], &bare(&more));
    let deleted = |name: &str| json!({"name": name, "$patch": "delete"});
    assert_eq!(result.list("containers"), [deleted("a"), deleted("b")]);
    let volumes = result.list("volumes");
    assert_eq!(volumes[0], deleted("definitions"));
    assert_eq!(volumes.iter().filter(|volume| volume.get("$patch").is_some()).count(), 1);
    assert_eq!(result.pod()["automountServiceAccountToken"], json!(true), "the rest stays");
    for told in [
        "replaces 2 sidecars of the patch.",
        "give the second one to kubectl patch --type strategic --patch-file: it deletes the old",
        "later, delete the ConfigMaps of the old sidecars: definitions",
    ] {
        assert!(result.report.contains(told), "{}", result.report);
    }
    assert!(!result.report.contains("kubectl replace"), "{}", result.report);
    // A whole object has no need of that.
    let whole = migrated(&[], &with(&[]));
    assert_eq!(whole.list("containers"), [json!(null); 0]);
}

#[test]
fn a_workload_without_a_selector_is_a_patch_too() {
    let patch = with(&[]).replacen("  selector: {matchLabels: {app: repo}}\n", "", 1);
    let result = migrated(&[], &patch);
    let deleted = |name: &str| json!({"name": name, "$patch": "delete"});
    assert_eq!(result.list("containers"), [deleted("a"), deleted("b")]);
    assert_eq!(result.list("volumes")[0], deleted("definitions"));
    for told in ["sidecars of StatefulSet repo.", "kustomize: put the ConfigMap and the patch"] {
        assert!(result.report.contains(told), "{}", result.report);
    }
}

#[test]
fn app_armor_profiles_of_old_sidecars_are_deleted() {
    let key = "container.apparmor.security.beta.kubernetes.io/a";
    let text = bare(&[]).replacen(
        "  template:\n",
        &format!("  template:\n    metadata: {{annotations: {{{key}: x}}}}\n"),
        1,
    );
    let patch = migrated(&[], &text).documents.pop().unwrap();
    let annotations = patch.pointer("/spec/template/metadata/annotations").unwrap();
    assert_eq!(*annotations, json!({ key: null }));
}
