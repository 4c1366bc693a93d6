//! `migrate`: every way in which people run sidecars becomes one container.

mod app_armor;
mod bare_patch;
mod by_hand;
mod chart;
mod check;
mod definitions;
mod homes;
mod identities;
mod images;
mod left_over;
mod mount_paths;
mod ports;
mod resources;
pub(crate) mod result;
mod scripts;
mod start;
mod strange;
mod variables;
mod volumes;

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::json;
use tempfile::TempDir;

use self::result::{fixture, listed, migrated, of, output, program, refused};
use crate::{documents::documents, manifests::deploy};

#[test]
fn wrong_arguments_would_be_noticed() {
    let output = program().args(["serve", "--isolation=strong", "--help"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn every_result_is_valid_for_every_choice() {
    for name in ["chart", "umbrella", "deployment", "patch", "json-patch", "operator", "five"] {
        // The operator gives an image only to ordinary sidecars.
        let kind = if name == "operator" { "ordinary" } else { "native" };
        for choice in [
            &[][..],
            &["--profile", "restricted", "--sidecar", "ordinary"],
            &["--profile", "namespaces", "--tools", "image-volume", "--sidecar", kind],
        ] {
            of(&format!("{name}.yaml"), choice).assert_valid();
        }
    }
}

#[test]
fn the_probes_are_those_of_our_manifests() {
    let ours = deploy().join("kustomize/components/sidecar/sidecar.yaml");
    let ours = documents(&fs::read(ours).unwrap());
    let result = of("deployment.yaml", &[]);
    for probe in ["startupProbe", "livenessProbe"] {
        assert_eq!(result.sidecar()[probe], ours[0][0]["value"][probe]);
    }
}

#[test]
fn values_of_the_chart_become_values_to_lay_over_them() {
    let result = of("chart.yaml", &["--image", "registry.example/cmp-supervisor:1"]);
    let values = &result.documents[0];
    let keys: Vec<_> = values.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["configs", "extraObjects", "repoServer"]);
    let removed = json!({"avp-kustomize": null, "avp-list": null});
    assert_eq!(values["configs"], json!({"cmp": {"create": false, "plugins": removed}}));
    assert_eq!(
        result.list("extraContainers"),
        [json!({"name": "cloud-proxy", "image": "proxy:1"})]
    );
    let order: Vec<_> =
        result.list("initContainers").iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(order, ["download-tools", "cmp-install", "cmp-supervisor"]);
    assert_eq!(result.container("cmp-install")["image"], "registry.example/cmp-supervisor:1");
    let sidecar = result.sidecar();
    assert_eq!(sidecar["image"], "registry.example/argocd:v3.2.1");
    assert_eq!(sidecar["envFrom"], json!([{"secretRef": {"name": "vault"}}]));
    let tool = json!({"mountPath": "/usr/local/bin/argocd-vault-plugin", "name": "custom-tools",
        "subPath": "argocd-vault-plugin", "readOnly": true});
    assert!(sidecar["volumeMounts"].as_array().unwrap().contains(&tool));
    let list = result.definition("avp-list.yaml");
    assert!(list.to_string().contains("{{.}}"), "{list}");
}

#[test]
fn a_definition_in_extra_objects_keeps_its_version() {
    let result = of("umbrella.yaml", &[]);
    assert!(result.documents[0].get("other").is_none());
    assert_eq!(result.definition("cue-v1.0.yaml")["spec"]["version"], "v1.0");
    assert_eq!(
        result.sidecar()["args"],
        json!(["serve", "--log-format=text", "--plugins-dir=/cmp-plugins", "--isolation=uid"])
    );
}

#[test]
fn a_deployment_keeps_everything_but_its_sidecars() {
    let result = of("deployment.yaml", &[]);
    let [config_map, deployment] = &result.documents[..] else { panic!("two documents") };
    assert_eq!(
        config_map["metadata"],
        json!({"name": "argocd-cmp-plugins", "namespace": "argocd"})
    );
    assert_eq!(
        deployment["metadata"],
        json!({"name": "argocd-repo-server", "namespace": "argocd"})
    );
    assert_eq!(deployment.get("status"), None);
    assert_eq!(result.list("containers").len(), 1);
    assert_eq!(result.container("copyutil")["volumeMounts"][0]["name"], "var-files");
    // The Secret of one sidecar, and nothing of it for the other.
    assert_eq!(result.definition("sops.yaml")["spec"]["sandbox"], json!({"read": ["/sops"]}));
    let helmfile = result.definition("helmfile-v1.0.yaml");
    let cache = json!([{"name": "helm-cache-home", "env": "HELM_CACHE_HOME"}]);
    let sandbox = json!({"caches": cache, "env": listed(&["HELMFILE_ENVIRONMENT"])});
    assert_eq!(helmfile["spec"]["sandbox"], sandbox);
    assert_eq!(helmfile["spec"]["limits"], json!({"memory": "1024Mi"}));
    assert!(result.definitions()["helmfile-v1.0.yaml"].contains("# Renders a helmfile."));
    let names: Vec<_> =
        result.sidecar()["env"].as_array().unwrap().iter().map(|v| &v["name"]).collect();
    assert_eq!(names, ["HELMFILE_ENVIRONMENT", "SOPS_AGE_KEY_FILE", "REGISTRY_TOKEN"]);
    let script = result.container("cmp-tools-sops")["command"][3].to_string();
    assert!(script.contains("for program in sops;") || script.contains(" sops"), "{script}");
}

#[test]
fn the_report_names_resources_and_removed_parts() {
    let report = of("deployment.yaml", &[]).report;
    for text in [
        "One container `cmp-supervisor` replaces 2 sidecars of Deployment argocd-repo-server.",
        "1536Mi before",
        "300m before",
        "HOME was removed",
        "helmfile-plugin, sops-plugin",
        "kubectl create configmap argocd-cmp-plugins, and then kubectl replace",
    ] {
        assert!(report.contains(text), "no {text} in {report}");
    }
}

#[test]
fn an_image_volume_brings_a_whole_image() {
    let result = of("deployment.yaml", &["--tools", "image-volume"]);
    let volume = json!({"name": "cmp-tools-sops", "image": {"reference": "example/sops:3.9"}});
    assert!(result.list("volumes").contains(&volume));
    let command = &result.definition("sops.yaml")["spec"]["generate"]["command"];
    assert!(command[2].as_str().unwrap().contains("/cmp-tools/sops/usr/local/bin:"), "{command}");
}

#[test]
fn a_json_patch_stays_a_json_patch() {
    let output = output(&[fixture("json-patch.yaml").to_str().unwrap()], "");
    let documents = documents(&output.stdout);
    let [config_map, patch] = &documents[..] else { panic!("two documents") };
    assert_eq!(config_map["metadata"], json!({"name": "argocd-cmp-plugins"}));
    let operations = patch.as_array().unwrap();
    let added = |name: &str| operations.iter().any(|operation| operation["value"]["name"] == name);
    for (name, expected) in [
        ("ARGOCD_EXEC_TIMEOUT", true),
        ("cmp-supervisor", true),
        ("cmp-work", true),
        ("registry", true),
        ("cdk8s", false),
        ("cdk8s-tmp", false),
    ] {
        assert_eq!(added(name), expected, "{name}");
    }
    let definition = of("json-patch.yaml", &[]).definition("cdk8s.yaml");
    assert_eq!(definition["spec"]["sandbox"], json!({"read": ["/registry"]}));
}

#[test]
fn operations_by_position_are_to_be_checked() {
    let patch = fs::read_to_string(fixture("json-patch.yaml")).unwrap();
    let more = "- {op: remove, path: /spec/template/spec/volumes/3}\n";
    let report = migrated(&[], &format!("{more}{patch}")).report;
    assert!(report.contains("an operation at /spec/template/spec/volumes/3"), "{report}");
}

#[test]
fn a_patch_stays_a_patch() {
    let result = of("patch.yaml", &[]);
    assert_eq!(result.list("containers"), [json!({"name": "tanka", "$patch": "delete"})]);
    let sandbox = json!({"read": ["/charts", "/home/argocd/.ssh"]});
    assert_eq!(result.definition("tanka.yaml")["spec"]["sandbox"], sandbox);
    let volumes = result.list("volumes");
    let work = volumes.iter().find(|volume| volume["name"] == "cmp-work").unwrap();
    assert_eq!(work["emptyDir"], json!({"sizeLimit": "20Gi"}));
    for text in
        ["defaultMode 0444", "ssh does not look for /home/argocd/.ssh", "can no longer write there"]
    {
        assert!(result.report.contains(text), "no {text} in {}", result.report);
    }
}

#[test]
fn a_token_that_plugins_may_use_is_reported() {
    let text = fs::read_to_string(fixture("patch.yaml")).unwrap();
    let told = "add spec.sandbox.read: [/var/run/secrets/kubernetes.io/serviceaccount/token]";
    assert!(!migrated(&[], &text).report.contains(told));
    let pod = "    spec:\n      automountServiceAccountToken: true\n      containers:";
    let text = text.replace("    spec:\n      containers:", pod);
    let report = migrated(&[], &text).report;
    assert!(report.contains(told), "{report}");
}

#[test]
fn rights_that_count_on_the_node_are_reported() {
    let report = of("chart.yaml", &["--profile", "namespaces"]).report;
    assert!(report.contains("set hostUsers: false for the Pod"), "{report}");
    assert!(!of("chart.yaml", &[]).report.contains("hostUsers"));
}

#[test]
fn a_resource_of_the_operator_needs_no_rights() {
    let result = of("operator.yaml", &[]);
    let resource = &result.documents[1];
    assert_eq!(resource["spec"]["server"], json!({"route": {"enabled": true}}));
    let sidecar = result.list("sidecarContainers");
    assert_eq!(sidecar.len(), 1);
    assert_eq!(sidecar[0].get("image"), None);
    assert_eq!(
        sidecar[0]["args"],
        json!([
            "serve",
            "--plugins-dir=/cmp-plugins",
            "--isolation=landlock",
            "--shutdown-delay=20s"
        ])
    );
    for container in [&sidecar[0], result.container("cmp-install")] {
        let context = &container["securityContext"];
        assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
        assert_eq!((&context["runAsNonRoot"], context.get("runAsUser")), (&json!(true), None));
    }
    assert!(result.report.contains("RUN_AS=999:999"), "{}", result.report);
}

#[test]
fn a_uid_that_a_sidecar_of_the_operator_states_stays() {
    let text = fs::read_to_string(fixture("operator.yaml")).unwrap();
    for (stated, uid) in [("runAsNonRoot: true, runAsUser: 1234", 1234), ("runAsUser: 0", 999)] {
        let stated = format!("securityContext: {{{stated}}}");
        let text = text.replace("securityContext: {runAsNonRoot: true}", &stated);
        let result = migrated(&[], &text);
        for container in [&result.list("sidecarContainers")[0], result.container("cmp-install")] {
            assert_eq!(container["securityContext"]["runAsUser"], uid, "{stated}");
        }
        assert!(!result.report.contains("RUN_AS"), "{}", result.report);
    }
}

#[test]
fn values_that_differ_reach_the_right_plugin() {
    let result = of("five.yaml", &[]);
    assert_eq!(result.definitions().len(), 5);
    assert!(result.report.contains("2560Mi before"), "{}", result.report);
    // A program that shows what it got, in place of helm.
    let tools = TempDir::with_prefix("cmp-tools-").unwrap();
    let helm = tools.path().join("helm");
    let script = "#!/bin/sh\necho \"{kind: ConfigMap, apiVersion: v1, metadata: {name: x}, \
                  data: {args: '$*', cluster: '$CLUSTER', region: '$REGION'}}\"\n";
    fs::write(&helm, script).unwrap();
    fs::set_permissions(&helm, fs::Permissions::from_mode(0o755)).unwrap();
    let variables = result.sidecar()["env"].as_array().unwrap().iter();
    let variables = variables.map(|v| (v["name"].as_str().unwrap(), v["value"].as_str().unwrap()));
    let definitions = result.directory();
    // The keys are Secrets that are mounted only in the container.
    for text in ["helm-dev.yaml", "helm-prod.yaml"] {
        fs::remove_file(definitions.path().join(text)).unwrap();
    }
    let application = TempDir::with_prefix("cmp-application-").unwrap();
    fs::write(application.path().join("Chart.yaml"), "name: x\n").unwrap();
    for (cluster, flag) in [("test", "--debug"), ("stage", "--no-hooks"), ("dr", "--atomic")] {
        let mut render = program();
        render.args(["render", "--isolation", "none", "--output", "json", "--plugin"]);
        render.arg(format!("helm-{cluster}")).arg("--plugins-dir").arg(definitions.path());
        render.arg(application.path()).envs(variables.clone());
        render.env("PATH", format!("{}:/usr/bin:/bin", tools.path().display()));
        let output = render.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let shown = String::from_utf8(output.stdout).unwrap();
        for text in [&format!("template . {flag}"), cluster, "eu"] {
            assert!(shown.contains(text), "no {text} in {shown}");
        }
    }
    let prod = result.definition("helm-prod.yaml").to_string();
    assert!(prod.contains("/cmp-moved/helm-prod/keys/values.yaml"), "{prod}");
}

#[test]
fn standard_input_is_the_default() {
    let text = fs::read_to_string(fixture("five.yaml")).unwrap();
    assert_eq!(migrated(&[], &text).documents, of("five.yaml", &[]).documents);
}

#[test]
fn input_without_sidecars_is_refused() {
    let error = refused("kind: ConfigMap\nmetadata: {name: a}\n", &[]);
    assert!(error.contains("no argocd-cmp-server sidecar in the input"), "{error}");
}

#[test]
fn a_second_migration_is_refused() {
    let first = output(&[fixture("five.yaml").to_str().unwrap()], "");
    let result = String::from_utf8(first.stdout).unwrap();
    let error = refused(&result, &[]);
    assert!(error.contains("already has a container `cmp-supervisor`"), "{error}");
}

#[test]
fn missing_definitions_are_all_named_with_the_remedy() {
    let text = fs::read_to_string(fixture("deployment.yaml")).unwrap();
    let (deployment, _) = text.split_once("  - apiVersion: v1\n    kind: ConfigMap").unwrap();
    let error = refused(deployment, &[]);
    for text in [
        "error: container `helmfile`: ConfigMap `helmfile-plugin` is not in the input",
        "error: container `sops`: ConfigMap `sops-plugin` is not in the input",
        "kubectl get configmap sops-plugin -o yaml",
    ] {
        assert!(error.contains(text), "no {text} in {error}");
    }
}

const BAKED: &str = "
kind: Pod
metadata: {name: r}
spec:
  containers:
    - name: NAME
      image: baked
      volumeMounts: [{name: plugins, mountPath: /home/argocd/cmp-server/plugins}]
  volumes: [{name: plugins, emptyDir: {}}]
";

#[test]
fn a_definition_of_an_image_comes_from_a_file() {
    let error = refused(&BAKED.replace("NAME", "lovely"), &[]);
    assert!(error.contains("--definition lovely=FILE"), "{error}");
    let file = tempfile::NamedTempFile::with_prefix("cmp-definition-").unwrap();
    let definition = "kind: ConfigManagementPlugin\nmetadata: {name: lovely}\nspec: {generate: {command: [lovely]}}\n";
    fs::write(file.path(), definition).unwrap();
    let given = format!("lovely={}", file.path().display());
    let result = migrated(&["--definition", &given], &BAKED.replace("NAME", "lovely"));
    assert_eq!(result.definitions()["lovely.yaml"], definition);
}

#[test]
fn one_socket_for_two_plugins_is_an_error() {
    let text = fs::read_to_string(fixture("five.yaml")).unwrap();
    let error =
        refused(&text.replace("metadata: {name: helm-prod}", "metadata: {name: helm-dev}"), &[]);
    for text in ["container `helm-prod`", "plugin `helm-dev`", "both use one socket"] {
        assert!(error.contains(text), "no {text} in {error}");
    }
}

#[test]
fn invalid_input_names_its_place() {
    let error = refused("a: [\n", &["-"]);
    assert!(error.contains("error: stdin: document 1: yaml: line"), "{error}");
}
