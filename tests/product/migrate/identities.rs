//! Identities in a cloud, which no manifest of a container shows.

use super::{
    result::{fixture, listed, migrated},
    strange::{told, with},
};

const AWS: &str = "the repo-server has an IAM role of AWS, and plugins cannot read its token: add \
                   spec.sandbox.read: [/var/run/secrets/eks.amazonaws.com/serviceaccount/token]";

const AZURE: &str = "the repo-server has an identity of Azure, and plugins cannot read its token: \
                     add spec.sandbox.read: [/var/run/secrets/azure/tokens/azure-identity-token]";

#[test]
fn an_annotation_of_the_service_account_in_values_is_one() {
    let values = std::fs::read_to_string(fixture("chart.yaml")).unwrap();
    let role = |account: &str, arn: &str| {
        let line = format!("{{annotations: {{eks.amazonaws.com/role-arn: {arn}}}}}");
        let values =
            values.replace("repoServer:\n", &format!("repoServer:\n  {account}: {line}\n"));
        migrated(&[], &values).report
    };
    assert!(role("serviceAccount", "arn:aws:iam::1:role/a").contains(AWS));
    for (account, arn) in [("serviceAccount", "''"), ("other", "arn:aws:iam::1:role/a")] {
        assert!(!role(account, arn).contains(AWS), "{account} {arn}");
    }
}

#[test]
fn a_label_of_the_pod_is_one_and_its_variables_are_shown() {
    let text = with(&[("b", "env: [{name: T, valueFrom: {secretKeyRef: {name: t, key: k}}}]")]);
    let label = "metadata: {labels: {azure.workload.identity/use: 'true'}}";
    let text = text.replace("  template:\n", &format!("  template:\n    {label}\n"));
    let result = migrated(&[], &text);
    assert!(result.report.contains(AZURE), "{}", result.report);
    let variables = ["AUTHORITY_HOST", "CLIENT_ID", "FEDERATED_TOKEN_FILE", "TENANT_ID"];
    let variables = variables.map(|name| format!("AZURE_{name}"));
    let expected = listed(&variables.each_ref().map(String::as_str));
    assert_eq!(result.definition("a.yaml")["spec"]["sandbox"]["env"], expected);
    assert!(!told(&[], &[]).report.contains("cannot read its token"));
}

#[test]
fn only_the_account_of_the_repo_server_counts() {
    let account = |name: &str| {
        format!(
            "---\nkind: ServiceAccount\nmetadata: {{name: {name}, annotations: \
             {{eks.amazonaws.com/role-arn: 'arn:aws:iam::1:role/a'}}}}\n"
        )
    };
    let report = |pod: &str, name: &str| {
        migrated(&[], &format!("{}{}", with(&[("pod", pod)]), account(name))).report
    };
    assert!(report("serviceAccountName: mine", "mine").contains(AWS));
    assert!(!report("serviceAccountName: mine", "argocd-repo-server").contains(AWS));
    assert!(report("hostUsers: true", "argocd-repo-server").contains(AWS));
    assert!(!report("hostUsers: true", "argocd-server").contains(AWS));
}

#[test]
fn annotations_that_a_json_patch_adds_are_one() {
    let patch = std::fs::read_to_string(fixture("json-patch.yaml")).unwrap();
    let arn = "'arn:aws:iam::1:role/a'";
    let key = "eks.amazonaws.com/role-arn";
    let pod = "/spec/template/metadata";
    let report = |path: &str, value: &str| {
        let operation = format!("- {{op: add, path: {path}, value: {value}}}\n");
        let account = format!("---\n- {{op: add, path: {path}, value: {value}}}\n");
        [format!("{operation}{patch}"), format!("{patch}{account}")]
            .map(|text| migrated(&[], &text).report)
    };
    for (path, value) in [
        (format!("{pod}/annotations/eks.amazonaws.com~1role-arn"), arn.to_owned()),
        (format!("{pod}/annotations"), format!("{{{key}: {arn}}}")),
        ("/metadata".to_owned(), format!("{{annotations: {{{key}: {arn}}}}}")),
    ] {
        for report in report(&path, &value) {
            assert!(report.contains(AWS), "{path}: {report}");
        }
    }
    let other = format!("{pod}/annotations/other");
    assert!(report(&other, arn).iter().all(|report| !report.contains(AWS)));
}
