//! Values of the Helm chart, and objects that hold such values.

use std::{fs, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::result::{fixture, migrated, of, output, refused};
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

/// An `ApplicationSet` with the values of chart.yaml.
fn set(go_template: &str) -> String {
    object(&format!(
        "kind: ApplicationSet\nmetadata: {{name: argocd}}\nspec:\n goTemplate: {go_template}\n \
         template:\n  spec:\n   source:\n    helm:\n     valuesObject:"
    ))
}

#[test]
fn braces_in_an_application_set_pass_each_of_its_engines() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = definition("avp-list").replace("[cat]", "[cat, '{{ .items }}']");
    fs::write(file.path(), text).unwrap();
    let given = format!("avp-list={}", file.path().display());
    for (go_template, expected) in [
        ("false", "'{{`{{`}} .items }}'"),
        // The controller makes the line above of this one.
        ("true", "'{{`{{`}}`{{`{{`}}`}} .items }}'"),
    ] {
        let result = migrated(&["--definition", &given], &set(go_template));
        let path = "/spec/template/spec/source/helm/valuesObject/extraObjects/0/data/avp-list.yaml";
        let text = result.documents[0].pointer(path).unwrap().as_str().unwrap();
        assert!(text.contains(expected), "{text}");
    }
    let error = refused(&set("true"), &[]);
    assert!(error.contains("with --definition avp-list=FILE"), "{error}");
}

#[test]
fn a_config_map_of_a_manifest_is_to_be_deleted_later() {
    let values = fs::read_to_string(fixture("umbrella.yaml")).unwrap();
    let (_, rest) = values.split_once("  repoServer:\n").unwrap();
    let map = format!(
        "---\nkind: ConfigMap\nmetadata: {{name: cue-plugin}}\ndata: {{plugin.yaml: '{}'}}\n",
        definition("cue")
    );
    let report = migrated(&[], &format!("argo-cd:\n  repoServer:\n{rest}{map}")).report;
    let told = "later, delete the ConfigMaps of the old sidecars: cue-plugin\n";
    assert!(report.contains(told), "{report}");
    assert!(!migrated(&[], &values).report.contains("later, delete"), "the chart deletes it");
}

#[test]
fn an_object_without_a_name_is_named_by_its_kind() {
    let head = "kind: Kustomization\nhelmCharts:\n- name: argo-cd\n  valuesInline:";
    let report = migrated(&[], &object(head)).report;
    assert!(report.contains("it is the whole Kustomization\n"), "{report}");
}

#[test]
fn values_of_one_of_several_sources_are_found() {
    let head = "kind: Application\nmetadata: {name: argocd}\nspec:\n  destination: {namespace: argocd}\n  \
                sources:\n  - {repoURL: x, ref: values}\n  - chart: argo-cd\n    helm:\n     valuesObject:";
    let result = migrated(&[], &object(head));
    let sources = result.documents[0].pointer("/spec/sources").unwrap().as_array().unwrap();
    assert_eq!((sources.len(), &sources[0]), (2, &json!({"repoURL": "x", "ref": "values"})));
    assert_eq!(sources[1]["chart"], "argo-cd");
    let values = &sources[1]["helm"]["valuesObject"];
    assert_eq!(values["configs"]["cmp"], json!({"create": false, "plugins": {}}));
    assert_eq!(values["extraObjects"][0]["metadata"], json!({"name": "argocd-cmp-plugins"}));
    let containers = &values["repoServer"]["extraContainers"];
    assert_eq!(*containers, json!([{"name": "cloud-proxy", "image": "proxy:1"}]));
    let check = "yq .spec.sources[1].helm.valuesObject RESULT | helm";
    assert!(result.report.contains(check), "{}", result.report);
    let error = refused(&object("releases:\n- name: argocd\n  values:\n   -"), &[]);
    assert!(error.contains("no argocd-cmp-server sidecar in the input"), "{error}");
}

/// Names of the objects in `extraObjects` that `migrate` writes, and its report.
fn extra_objects(input: &str, path: &str) -> (Vec<Value>, String) {
    let result = migrated(&[], input);
    let name = |object: &Value| match object.as_str() {
        Some(text) => documents(text.as_bytes())[0]["metadata"]["name"].clone(),
        None => object["metadata"]["name"].clone(),
    };
    let extra = result.documents[0].pointer(path).unwrap().as_array().unwrap();
    (extra.iter().map(name).collect(), result.report)
}

#[test]
fn a_config_map_that_nothing_uses_any_more_goes_out_of_extra_objects() {
    let text = fs::read_to_string(fixture("umbrella.yaml")).unwrap();
    let named = |namespace: &str| {
        text.replace(
            "        name: cue-plugin\n",
            &format!("        name: cue-plugin\n        {namespace}\n"),
        )
    };
    let live = "---\nkind: ConfigMap\nmetadata: {name: cue-plugin, namespace: argocd, annotations: {a: cue-plugin}}\n";
    for input in [
        text.clone(),
        format!("{text}{live}"),
        named("namespace: argocd"),
        named("namespace: '{{ .Release.Namespace }}'"),
    ] {
        let (left, report) = extra_objects(&input, "/argo-cd/extraObjects");
        assert_eq!(left, ["argocd-cmp-plugins"]);
        let told = "removed from extraObjects: 1 ConfigMap of the old sidecars that nothing else in \
                    the input names: cue-plugin\n";
        assert!(report.contains(told), "{report}");
        assert!(!report.contains("stays in extraObjects"), "{report}");
    }
}

#[test]
fn a_config_map_that_something_else_names_stays_in_extra_objects() {
    let text = fs::read_to_string(fixture("umbrella.yaml")).unwrap();
    let before = |place: &str, more: &str| text.replacen(place, &format!("{more}{place}"), 1);
    let key = "      data:\n";
    for input in [
        before("  repoServer:\n", "  server:\n    envFrom: [{configMapRef: {name: cue-plugin}}]\n"),
        before("    extraContainers:\n", "    envFrom: [{configMapRef: {name: cue-plugin}}]\n"),
        before("    - |\n", "    - \"{kind: Job, metadata: {name: j}, map: cue-plugin}\"\n"),
        before(
            "    - |\n",
            "    - {kind: CR, metadata: {name: j}, spec: {configMapName: cue-plugin}}\n",
        ),
        before("other:\n", "monitoring: {configMap: cue-plugin}\n"),
        format!("{text}---\nkind: Pod\nspec: {{volumes: [{{configMap: {{name: cue-plugin}}}}]}}\n"),
        // The sidecar mounts more than the definition.
        text.replacen(key, &format!("{key}        render.sh: x\n"), 1),
    ] {
        let (left, report) = extra_objects(&input, "/argo-cd/extraObjects");
        assert!(left.contains(&json!("cue-plugin")), "{left:?}: {input}");
        assert!(!report.contains("removed from extraObjects"), "{report}");
        let told =
            "ConfigMap `cue-plugin` stays in extraObjects, because something else may use it";
        assert!(report.contains(told), "{report}");
    }
}

#[test]
fn a_config_map_of_another_namespace_stays_in_extra_objects() {
    let text = fs::read_to_string(fixture("umbrella.yaml")).unwrap();
    let other =
        "    - {kind: ConfigMap, metadata: {name: cue-plugin, namespace: other}}\n    - |\n";
    let (left, _) = extra_objects(&text.replacen("    - |\n", other, 1), "/argo-cd/extraObjects");
    assert_eq!(left.len(), 3, "{left:?}");
    let lines: Vec<_> = text.lines().map(|line| format!("    {line}")).collect();
    let head = "kind: HelmRelease\nmetadata: {name: a, namespace: argocd}\nspec:\n  values:\n";
    let release = |namespace: &str| {
        let map = "name: cue-plugin\n";
        let text = lines.join("\n") + "\n";
        format!(
            "{head}{}",
            text.replacen(map, &format!("{map}            namespace: {namespace}\n"), 1)
        )
    };
    let path = "/spec/values/argo-cd/extraObjects";
    assert_eq!(extra_objects(&release("argocd"), path).0, ["argocd-cmp-plugins"]);
    assert_eq!(extra_objects(&release("other"), path).0.len(), 2);
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
