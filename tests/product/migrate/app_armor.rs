//! `AppArmor` profiles in annotations. The API server refuses those of missing containers.

use std::fs;

use serde_json::json;

use super::{
    result::{fixture, migrated, output},
    strange::TWO,
};

const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io";

#[test]
fn profiles_of_removed_containers_are_removed() {
    let annotations = format!("{{{PREFIX}/a: runtime/default, {PREFIX}/argocd: unconfined}}");
    let template = format!("  template:\n    metadata: {{annotations: {annotations}}}\n");
    let result = migrated(&[], &TWO.replace("  template:\n", &template));
    let workload = result.documents.last().unwrap();
    let kept = json!({format!("{PREFIX}/argocd"): "unconfined"});
    assert_eq!(workload["spec"]["template"]["metadata"]["annotations"], kept);
    let removed = "container `a`: its AppArmor profile runtime/default was removed";
    assert!(result.report.contains(removed), "{}", result.report);
    assert!(!result.report.contains("container `b`: its AppArmor"), "{}", result.report);

    let operator = fs::read_to_string(fixture("operator.yaml")).unwrap();
    let repo = format!("  repo:\n    annotations: {{{PREFIX}/ksops: localhost/x}}\n");
    let result = migrated(&[], &operator.replace("  repo:\n", &repo));
    assert_eq!(result.documents[1]["spec"]["repo"]["annotations"], json!({}));
    assert!(result.report.contains("profile localhost/x was removed"), "{}", result.report);
}

#[test]
fn a_profile_that_the_result_does_not_have_is_to_be_removed() {
    let chart = fs::read_to_string(fixture("chart.yaml")).unwrap();
    let name = "avp-kustomize";
    assert!(chart.contains(&format!("name: {name}\n")), "{chart}");
    let values = format!("repoServer:\n  podAnnotations: {{{PREFIX}/{name}: localhost/x}}\n");
    let report = migrated(&[], &chart.replace("repoServer:\n", &values)).report;
    let remedy = format!("remove {PREFIX}/{name}: localhost/x from repoServer.podAnnotations");
    assert!(report.contains(&remedy), "{report}");

    let patch = fs::read_to_string(fixture("json-patch.yaml")).unwrap();
    let all = "/spec/template/metadata/annotations";
    let key = format!("{PREFIX}~1cdk8s");
    for operation in [
        format!("- {{op: add, path: {all}/{key}, value: localhost/x}}\n"),
        format!("- {{op: add, path: {all}, value: {{{PREFIX}/cdk8s: localhost/x}}}}\n"),
    ] {
        let output = output(&[], &format!("{operation}{patch}"));
        let report = String::from_utf8(output.stderr).unwrap();
        let remedy = format!("remove the annotation {PREFIX}/cdk8s from the patch");
        assert!(report.contains(&remedy), "{report}");
    }
    assert!(!migrated(&[], &patch).report.contains("AppArmor"));
}
