//! Sidecars in which cmp-supervisor has replaced argocd-cmp-server, one plugin each.

use serde_json::json;

use super::strange::told;

/// The line of a sidecar with these variables.
fn env(variables: &[(&str, &str)]) -> String {
    let all = variables
        .iter()
        .map(|(name, value)| format!("{{name: CMP_SUPERVISOR_{name}, value: '{value}'}}"));
    format!("env: [{}]", all.collect::<Vec<_>>().join(", "))
}

#[test]
fn variables_against_the_new_arguments_and_probes_are_removed() {
    let variables = [
        ("HTTP", "0.0.0.0:9281"),
        ("ADMIN_HTTP", "127.0.0.1:9381"),
        ("PLUGINS_DIR", "/plugins"),
        ("SOCKET_DIR", "/sockets"),
        ("WORK_DIR", "/work"),
        ("ISOLATION", "landlock"),
        ("RUN_AS_UID", "1000"),
        ("SHUTDOWN_DELAY", "20s"),
    ];
    let other = [("HTTP", "0.0.0.0:9282"), ("WORK_DIR", "/other")];
    let lines = [
        ("a", &*env(&variables)),
        ("b", &*env(&other)),
        ("a-mounts", "- {name: work, mountPath: /work}"),
        ("volumes", "- {name: work, emptyDir: {}}"),
    ];
    let result = told(&lines, &[]);
    let (_, checks) = result.report.split_once("To check:").unwrap();
    for (plugin, name) in variables.map(|(n, _)| ("a", n)).into_iter().chain([("b", "HTTP")]) {
        let removed = format!(
            "plugin `{plugin}`: CMP_SUPERVISOR_{name} was removed, because the new container has its \
             own arguments, probes and volumes"
        );
        assert!(checks.contains(&removed), "no {removed} in {checks}");
    }
    assert_eq!(result.sidecar().get("env"), None);
    assert!(!result.report.contains("name files or programs there"), "{}", result.report);
    for key in ["a.yaml", "b.yaml"] {
        assert_eq!(result.definition(key)["spec"]["generate"]["command"][0], "cat");
    }
}

#[test]
fn other_variables_are_settings_for_all_plugins() {
    let [a, b] = ["1Gi", "2Gi"].map(|memory| env(&[("MAX_MEMORY", memory)]));
    let setting = "CMP_SUPERVISOR_MAX_MEMORY: one value counts for all plugins, and the first one was \
                   taken: 1Gi in `a`, 2Gi in `b`";
    let result = told(&[("a", &a), ("b", &b)], &[setting]);
    let kept = json!([{"name": "CMP_SUPERVISOR_MAX_MEMORY", "value": "1Gi"}]);
    assert_eq!(result.sidecar()["env"], kept);
    let result = told(&[("a", &a)], &["1Gi in `a`, none in `b`"]);
    assert!(!result.report.contains("change what other plugins render"), "{}", result.report);
}
