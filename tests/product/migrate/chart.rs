//! Values of the Helm chart, and objects that hold such values.

use std::{fs, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::result::{fixture, migrated, of, output};
use crate::{
    documents::documents,
    skip::skip,
    tool::{self, run},
};

/// The chart's template of `extraObjects`.
const EXTRA: &str = "{{ range .Values.extraObjects }}\n---\n\
    {{ if typeIs \"string\" . }}{{ tpl . $ }}{{ else }}{{ tpl (toYaml .) $ }}{{ end }}\n{{ end }}\n";

/// A chart with this template, the values that `migrate` writes, and a definition.
struct Release(TempDir);

impl Release {
    fn new(definition: &str) -> Self {
        let release = Self(TempDir::with_prefix("cmp-release-").unwrap());
        let chart = "apiVersion: v2\nname: argo-cd\nversion: 1.0.0\n";
        for (name, text) in [("Chart.yaml", chart), ("definition.yaml", definition)] {
            fs::write(release.path(name), text).unwrap();
        }
        fs::create_dir(release.path("templates")).unwrap();
        fs::write(release.path("templates/extra.yaml"), EXTRA).unwrap();
        let definition = format!("avp-list={}", release.path("definition.yaml"));
        let values = fixture("chart.yaml");
        let values = output(&[values.to_str().unwrap(), "--definition", &definition], "");
        fs::write(release.path("values.yaml"), values.stdout).unwrap();
        release
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

#[test]
fn helm_renders_definitions_as_they_were() {
    let Some(helm) = tool::find("helm") else { return skip("needs helm: run tests/tools/build") };
    let head = "kind: ConfigManagementPlugin\nmetadata: {name: avp-list}\nspec:\n  generate:\n";
    for script in
        ["x '{{.}}'", "x '{{.}}' ", "x '{{.}}'\r", "x '{{{.}}' \"{{`a`}}\" ", "x {{-.-}} "]
    {
        let text = format!("{head}    command: [sh, -c]\n    args:\n    - |\n      {script}\n");
        let release = Release::new(&text);
        let mut template = Command::new(&helm);
        template.args(["template", "argocd"]).arg(release.0.path());
        let rendered = documents(run(&mut template).as_bytes());
        let ours = |object: &&Value| object["metadata"]["name"] == "argocd-cmp-plugins";
        let map = rendered.iter().find(ours).unwrap();
        assert_eq!(map["data"]["avp-list.yaml"], text);
    }
}

/// The values of chart.yaml in an object, at the end of its text.
fn object(head: &str) -> String {
    let values = fs::read_to_string(fixture("chart.yaml")).unwrap();
    let lines: Vec<_> = values.lines().map(|line| format!("      {line}")).collect();
    format!("{head}\n{}\n", lines.join("\n"))
}

const RELEASE: &str = "kind: HelmRelease\nmetadata: {name: argocd, namespace: flux-system}\nspec:\n  \
    targetNamespace: argocd\n  values:";

#[test]
fn the_config_map_is_in_the_namespace_of_the_release() {
    let result = migrated(&[], &object(RELEASE));
    let map = result.documents[0].pointer("/spec/values/extraObjects/0/metadata").unwrap();
    assert_eq!(*map, json!({"name": "argocd-cmp-plugins"}));
    let text = object(RELEASE)
        .replace("      repoServer:", "      namespaceOverride: dev\n      repoServer:");
    let result = migrated(&[], &text);
    let map = result.documents[0].pointer("/spec/values/extraObjects/0/metadata").unwrap();
    assert_eq!(*map, json!({"name": "argocd-cmp-plugins", "namespace": "dev"}));
}

#[test]
fn a_config_map_of_the_release_is_meant() {
    let plugin = |namespace: &str, name: &str| {
        let head =
            format!("kind: ConfigMap\nmetadata: {{name: argocd-cmp-cm, namespace: {namespace}}}");
        let (one, two) = (definition(name), definition(&format!("{name}-list")));
        format!("---\n{head}\ndata:\n  avp-kustomize.yaml: '{one}'\n  avp-list.yaml: '{two}'\n")
    };
    let own = object(RELEASE);
    let (before, rest) = own.split_once("      configs:\n").unwrap();
    let (_, rest) = rest.split_once("      repoServer:\n").unwrap();
    let own = format!("{before}      repoServer:\n{rest}");
    let without = own.replace("  targetNamespace: argocd\n", "");
    let application = own
        .replace("HelmRelease", "Application")
        .replace("  targetNamespace: argocd\n", "  destination: {namespace: argocd}\n");
    let overridden = own.replace("  values:\n", "  values:\n      namespaceOverride: dev\n");
    for (text, namespace) in
        [(own, "argocd"), (without, "flux-system"), (application, "argocd"), (overridden, "dev")]
    {
        let (first, second) = (plugin("other", "wrong"), plugin(namespace, "right"));
        let result = migrated(&[], &format!("{text}{first}{second}"));
        let map = result.documents[0].pointer("/spec/values/extraObjects/0/data").unwrap();
        let keys: Vec<_> = map.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["right-list.yaml", "right.yaml"], "{namespace}");
    }
}

fn definition(name: &str) -> String {
    format!(
        "{{kind: ConfigManagementPlugin, metadata: {{name: {name}}}, \
         spec: {{generate: {{command: [cat]}}}}}}"
    )
}

#[test]
fn an_object_keeps_other_values() {
    let text =
        object(RELEASE).replace("create: true", "create: true\n          annotations: {a: b}");
    let text =
        text.replace("plugins:\n", "plugins:\n            other: {generate: {command: [x]}}\n");
    let result = migrated(&[], &text);
    let expected = json!({"create": true, "annotations": {"a": "b"},
        "plugins": {"other": {"generate": {"command": ["x"]}}}});
    assert_eq!(result.documents[0].pointer("/spec/values/configs/cmp"), Some(&expected));
    let told = "put the result in place of yours: it is the whole HelmRelease argocd";
    assert!(result.report.contains(told), "{}", result.report);
    let check = "check the definitions: yq .spec.values RESULT | helm template … --values - | \
                 cmp-supervisor validate -";
    assert!(result.report.contains(check), "{}", result.report);
    assert!(!result.report.contains("the last --values"), "{}", result.report);
    let all = migrated(&[], &object(RELEASE));
    let expected = json!({"create": false, "plugins": {}});
    assert_eq!(all.documents[0].pointer("/spec/values/configs/cmp"), Some(&expected));
}

#[test]
fn a_config_map_that_nothing_uses_any_more_goes_out_of_extra_objects() {
    let names = |values: &str| {
        let result = migrated(&[], values);
        let extra = result.documents[0].pointer("/argo-cd/extraObjects").unwrap().clone();
        let names = |object: &Value| match object.as_str() {
            Some(text) => documents(text.as_bytes())[0]["metadata"]["name"].clone(),
            None => object["metadata"]["name"].clone(),
        };
        (extra.as_array().unwrap().iter().map(names).collect::<Vec<_>>(), result.report)
    };
    let text = fs::read_to_string(fixture("umbrella.yaml")).unwrap();
    let (left, report) = names(&text);
    assert_eq!(left, ["argocd-cmp-plugins"]);
    assert!(report.contains("removed from extraObjects: 1 ConfigMap of"), "{report}");
    let user = "  server:\n    envFrom: [{configMapRef: {name: cue-plugin}}]\n  repoServer:\n";
    let (left, report) = names(&text.replace("  repoServer:\n", user));
    assert_eq!(left, ["cue-plugin", "argocd-cmp-plugins"]);
    assert!(!report.contains("removed from extraObjects"), "{report}");
}

#[test]
fn the_last_version_in_any_case_is_part_of_the_plugin_s_name() {
    for (version, file) in [
        ("Version: v1.0", "avp-kustomize-v1.0.yaml"),
        ("Version: v2\n              version: ''", "avp-kustomize.yaml"),
    ] {
        let text = object(RELEASE).replacen("allowConcurrency: true", version, 1);
        let result = migrated(&[], &text);
        let expected = json!({"create": false, "plugins": {}});
        assert_eq!(result.documents[0].pointer("/spec/values/configs/cmp"), Some(&expected));
        let map = result.documents[0].pointer("/spec/values/extraObjects/0/data").unwrap();
        assert!(map.get(file).is_some(), "{map}");
    }
}

#[test]
fn the_chart_gives_the_token_unless_told_otherwise() {
    let token = "the token of the service account is mounted";
    assert!(of("chart.yaml", &[]).report.contains(token));
    let text = fs::read_to_string(fixture("chart.yaml")).unwrap();
    let text = text.replace("  replicas: 2\n", "  automountServiceAccountToken: false\n");
    assert!(!migrated(&[], &text).report.contains(token));
}

#[test]
fn definitions_of_the_chart_without_a_sidecar_stay() {
    let more = "plugins:\n      avp: {generate: {command: [a]}}\n";
    let text = fs::read_to_string(fixture("chart.yaml")).unwrap();
    let result = migrated(&[], &text.replacen("plugins:\n", more, 1));
    let removed = json!({"plugins": {"avp-kustomize": null, "avp-list": null}});
    assert_eq!(result.documents[0]["configs"]["cmp"], removed);
}
