//! Definitions that are written in an unusual way.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;

use super::{
    result::{migrated, output, refused},
    strange::{TWO, told, with},
};

#[test]
fn keys_in_another_case_are_refused() {
    let spec = "{generate: {command: [cat, a.yaml]}}";
    for (new, key) in [
        ("{Generate: {command: [cat, a.yaml]}}", "Generate"),
        ("{generate: {Command: [cat, a.yaml]}}", "Command"),
        ("{generate: {command: [cat], ARGS: [a.yaml]}}", "ARGS"),
        ("{generate: {command: [cat]}, discover: {Find: {command: [x]}}}", "Find"),
        ("{generate: {command: [cat]}, provideGitCREDS: true}", "provideGitCREDS"),
    ] {
        let error = refused(&TWO.replacen(spec, new, 1), &[]);
        let expected = format!(
            "error: container `a`: its definition cannot be changed: `{key}` is in another case \
             than in Argo CD's documentation"
        );
        assert!(error.contains(&expected), "no {expected} in {error}");
    }
    let other = "{Version: v1, generate: {command: [cat]}, discover: {filename: x}}";
    let result = migrated(&[], &TWO.replacen(spec, other, 1));
    assert_eq!(result.definition("a-v1.yaml")["spec"]["discover"], json!({"filename": "x"}));
}

#[test]
fn applications_that_are_only_discovered_are_reported_once() {
    let told = |text: &str| {
        let report = migrated(&[], text).report;
        report.matches("Applications that a plugin only discovers").count()
    };
    assert_eq!(told(TWO), 0);
    let text = TWO.replace("{generate:", "{discover: {fileName: x}, generate:");
    assert_eq!(text.matches("discover").count(), 2);
    assert_eq!(told(&text), 1);
}

#[test]
fn a_comment_after_spec_stays() {
    let text = "kind: ConfigManagementPlugin\n    metadata: {name: a}\n    \
                spec: # of team a\n      # Prints a file.\n      generate: {command: [cat, a.yaml]}\n";
    let (_, rest) = TWO.split_once("  b.yaml: |\n").unwrap();
    let (before, _) = TWO.split_once("  a.yaml: |\n").unwrap();
    let text = format!("{before}  a.yaml: |\n    {text}  b.yaml: |\n{rest}");
    let text = text.replace("#a-mounts", "- {name: keys, mountPath: /keys}");
    let text = text.replace("#volumes", "- {name: keys, secret: {secretName: k}}");
    let result = migrated(&[], &text);
    let definition = &result.definitions()["a.yaml"];
    assert!(definition.contains("spec: # of team a\n  sandbox:\n"), "{definition}");
    assert!(definition.contains("  # Prints a file.\n"), "{definition}");
}

#[test]
fn definitions_in_binary_data_are_found() {
    let (head, texts) = TWO.split_once("data:\n").unwrap();
    let (_, b) = texts.split_once("  b.yaml: |\n").unwrap();
    let encoded = BASE64_STANDARD.encode(b.replace("\n    ", "\n").trim_start());
    let a = texts.strip_suffix(&format!("  b.yaml: |\n{b}")).unwrap();
    let result = migrated(&[], &format!("{head}binaryData: {{b.yaml: {encoded}}}\ndata:\n{a}"));
    assert_eq!(result.definition("b.yaml")["metadata"]["name"], "b");
}

#[test]
fn a_config_map_in_use_is_not_replaced() {
    let text = TWO.replace("name: definitions", "name: argocd-cmp-plugins");
    let error = refused(&text, &[]);
    assert!(
        error.contains("ConfigMap `argocd-cmp-plugins`") && error.contains("--config-map"),
        "{error}"
    );
    migrated(&["--config-map", "new"], &text);
}

#[test]
fn definitions_from_elsewhere_are_refused_with_their_source() {
    let volume = "{name: definitions, configMap: {name: definitions}}";
    for (source, expected) in [
        ("{name: definitions, secret: {secretName: d}}", "the volume `definitions` (secret)"),
        ("{name: definitions, persistentVolumeClaim: {claimName: d}}", "(persistentVolumeClaim)"),
        ("{name: other, emptyDir: {}}", "the volume `definitions`, which is not in the input"),
    ] {
        let error = refused(&TWO.replace(volume, source), &[]);
        assert!(
            error.contains("container `a`: /home/argocd/cmp-server/config/plugin.yaml comes from"),
            "{error}"
        );
        assert!(error.contains(expected) && error.contains("--definition a=FILE"), "{error}");
    }
    let error = refused(TWO, &["--definition", "c=/dev/null"]);
    assert!(error.contains("no sidecar is named `c`: expected one of a, b"), "{error}");
}

#[test]
fn definitions_are_found_in_directories_and_projected_volumes() {
    let file = "mountPath: /home/argocd/cmp-server/config/plugin.yaml, subPath: a.yaml";
    let directory = "mountPath: /home/argocd/cmp-server/config, subPath: x";
    let volume = "{name: definitions, configMap: {name: definitions}}";
    let items = "{name: definitions, configMap: {name: definitions, items: \
                 [{key: a.yaml, path: x/plugin.yaml}, {key: b.yaml, path: b.yaml}]}}";
    let result = migrated(&[], &TWO.replace(file, directory).replace(volume, items));
    assert_eq!(result.definition("a.yaml")["metadata"]["name"], "a");
    let projected = "{name: definitions, projected: {sources: [{configMap: {name: other}}, \
                     {configMap: {name: definitions}}, {secret: {name: s}}]}}";
    let result = migrated(&[], &TWO.replace(volume, projected));
    assert_eq!(result.definitions().len(), 2);
}

#[test]
fn of_config_maps_that_are_mounted_over_each_other_the_last_one_counts() {
    let volume = "{name: definitions, configMap: {name: definitions}}";
    let projected = "{name: definitions, projected: {sources: [{configMap: {name: other}}, \
                     {configMap: {name: definitions}}]}}";
    let other = "---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: other}\ndata:\n  a.yaml: |\n    \
                 kind: ConfigManagementPlugin\n    metadata: {name: c}\n    \
                 spec: {generate: {command: [cat]}}\n";
    let result = migrated(&[], &(TWO.replace(volume, projected) + other));
    assert_eq!(result.definition("a.yaml")["metadata"]["name"], "a");
}

#[test]
fn files_beside_a_definition_stay_where_they_were() {
    let config = "/home/argocd/cmp-server/config";
    let file = format!("mountPath: {config}/plugin.yaml, subPath: a.yaml");
    let text = TWO.replace(&file, &format!("mountPath: {config}"));
    let result = migrated(&[], &text.replace("  a.yaml: |", "  plugin.yaml: |"));
    let mounts = result.sidecar()["volumeMounts"].clone();
    let is_there = |mount: &serde_json::Value| mount["mountPath"] == config;
    assert!(mounts.as_array().unwrap().iter().any(is_there), "{mounts}");
}

#[test]
fn a_config_map_that_is_still_mounted_is_not_to_be_deleted() {
    assert!(
        migrated(&[], TWO)
            .report
            .contains("later, delete the ConfigMaps of the old sidecars: definitions")
    );
    let env = "envFrom: [{configMapRef: {name: definitions}}]";
    assert!(!told(&[("a", env)], &[]).report.contains("later, delete"));
}

#[test]
fn names_that_are_no_keys_of_a_config_map_become_some() {
    let text = TWO.replace("metadata: {name: a}", "metadata: {name: 'My Plugin'}");
    let text = text.replace("metadata: {name: b}", "metadata: {name: My-Plugin}");
    let versions = text.replace("    spec: {", "    spec: {version: v1+b, ");
    for (text, keys) in [
        (text, ["My-Plugin-2.yaml", "My-Plugin.yaml"]),
        (versions, ["My-Plugin-v1-b-2.yaml", "My-Plugin-v1-b.yaml"]),
    ] {
        let result = migrated(&[], &text);
        let definitions = result.definitions();
        assert_eq!(definitions.keys().collect::<Vec<_>>(), keys);
        assert_eq!(result.definition(keys[1])["metadata"]["name"], "My Plugin");
        assert_eq!(result.definition(keys[0])["metadata"]["name"], "My-Plugin");
    }
}

#[test]
fn names_that_kubernetes_would_refuse_are_no_arguments() {
    for (flag, value) in [
        ("--config-map", "Bad Name"),
        ("--config-map", ""),
        ("--config-map", "-a"),
        ("--config-map", "a..b"),
        ("--image", ""),
        ("--image", "a b"),
    ] {
        let output = output(&[flag, value], TWO);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{flag} {value}");
        assert!(error.contains("expected"), "{error}");
    }
    migrated(&["--config-map", "a.b-1", "--image", "host:5000/a/b@sha256:1f"], TWO);
}

#[test]
fn an_isolation_that_the_new_container_does_not_have_is_reported() {
    let spec = "spec: {generate: {command: [cat, a.yaml]}";
    let text =
        |least: &str| TWO.replace(spec, &format!("{spec}, sandbox: {{minimumIsolation: {least}}}"));
    for (least, arguments, expected) in [
        ("namespaces", &[][..], Some("uid: migrate with --profile namespaces")),
        ("uid", &["--profile", "restricted"], Some("landlock: migrate with --profile uid")),
        ("uid", &[], None),
        ("namespaces", &["--profile", "namespaces"], None),
        ("landlock", &["--profile", "restricted"], None),
    ] {
        let report = migrated(arguments, &text(least)).report;
        let told = report.contains("plugin `a` will not be served: its minimumIsolation is");
        assert_eq!(told, expected.is_some(), "{report}");
        assert!(expected.is_none_or(|text| report.contains(text)), "{report}");
    }
}

#[test]
fn a_variable_of_a_given_cache_gets_no_second_one() {
    let spec = "spec: {generate: {command: [cat, a.yaml]}";
    let given = "caches: [{name: charts, env: HELM_CACHE_HOME}]";
    let text = TWO.replace(spec, &format!("{spec}, sandbox: {{{given}}}"));
    let names = ["HELM_CACHE_HOME", "KUSTOMIZE_PLUGIN_HOME"];
    let env = names.map(|name| format!("{{name: {name}, value: /c/{name}}}")).join(", ");
    let text = text.replace("#a\n", &format!("env: [{env}]\n"));
    let text = text.replace("#a-mounts\n", "- {name: c, mountPath: /c}\n");
    let result = migrated(&[], &text.replace("#volumes\n", "- {name: c, emptyDir: {}}\n"));
    let caches = json!([
        {"name": "charts", "env": names[0]},
        {"name": "kustomize-plugin-home", "env": names[1]},
    ]);
    assert_eq!(result.definition("a.yaml")["spec"]["sandbox"]["caches"], caches);
}

#[test]
fn paths_that_a_definition_reads_follow_their_mount() {
    let mount = |volume: &str| format!("- {{name: {volume}, mountPath: /keys}}");
    let (a, b) = (mount("a"), mount("b"));
    let volumes =
        "- {name: a, secret: {secretName: a}}\n        - {name: b, secret: {secretName: b}}";
    let text = with(&[("a-mounts", &a), ("b-mounts", &b), ("volumes", volumes)]);
    for (given, expected) in [
        ("[/keys/k, /other]", json!(["/cmp-moved/b/keys/k", "/other", "/cmp-moved/b/keys"])),
        ("[/keys]", json!(["/cmp-moved/b/keys"])),
    ] {
        let spec =
            format!("spec: {{sandbox: {{read: {given}}}, generate: {{command: [cat, b.yaml]}}}}");
        let text = text.replace("spec: {generate: {command: [cat, b.yaml]}}", &spec);
        let result = migrated(&[], &text);
        assert_eq!(result.definition("b.yaml")["spec"]["sandbox"]["read"], expected);
    }
}

#[test]
fn variables_that_a_definition_lists_are_listed_by_their_new_names() {
    let env = |value: &str| {
        let names = ["CLUSTER", "HELM_ARGS", "OTHER"];
        format!(
            "env: [{}]",
            names.map(|name| format!("{{name: {name}, value: {value}}}")).join(", ")
        )
    };
    let text = with(&[("a", &env("x")), ("b", &env("z"))]);
    for (given, expected) in [
        ("[CLUSTER, 'HELM_*']", json!(["CLUSTER", "HELM_*", "A_CLUSTER", "A_HELM_ARGS"])),
        ("['*']", json!(["*"])),
        ("[]", json!([])),
    ] {
        let spec =
            format!("spec: {{sandbox: {{env: {given}}}, generate: {{command: [cat, a.yaml]}}}}");
        let text = text.replace("spec: {generate: {command: [cat, a.yaml]}}", &spec);
        let result = migrated(&[], &text);
        assert_eq!(result.definition("a.yaml")["spec"]["sandbox"], json!({"env": expected}));
        assert_eq!(result.definition("b.yaml")["spec"].get("sandbox"), None);
    }
}
