//! Variables of several sidecars in one container.

use serde_json::json;

use super::{
    result::{listed, migrated},
    strange::{told, with},
};

#[test]
fn variables_of_the_log_become_flags() {
    let level = "env: [{name: ARGOCD_CMP_SERVER_LOGLEVEL, value: warn}]";
    let result = told(&[("b", level)], &[]);
    assert_eq!(
        result.sidecar()["args"],
        json!(["serve", "--log-level=warn", "--plugins-dir=/cmp-plugins", "--isolation=uid"])
    );
}

#[test]
fn variables_that_refer_to_others_follow_them() {
    let env = |cluster: &str| {
        format!("env: [{{name: C, value: {cluster}}}, {{name: URL, value: https://$(C).example}}]")
    };
    let result = told(&[("a", &env("one")), ("b", &env("two"))], &[]);
    let expected = json!([
        {"name": "A_C", "value": "one"},
        {"name": "B_C", "value": "two"},
        {"name": "A_URL", "value": "https://$(A_C).example"},
        {"name": "B_URL", "value": "https://$(B_C).example"},
    ]);
    assert_eq!(result.sidecar()["env"], expected);
}

#[test]
fn settings_of_the_server_are_not_given_to_one_plugin() {
    for (name, one, other) in [
        ("ARGOCD_EXEC_TIMEOUT", "5m", "9m"),
        ("ARGOCD_CMP_SERVER_OTLP_INSECURE", "false", "true"),
        ("ARGOCD_CMP_SERVER_OTLP_SAMPLE_RATIO", "0.1", "0.2"),
    ] {
        let [mine, its] = [one, other].map(|v| format!("env: [{{name: {name}, value: '{v}'}}]"));
        let expected = format!(
            "{name}: one value counts for all plugins, and the first one was taken: {one} in `a`, \
             {other} in `b`"
        );
        let result = told(&[("a", &mine), ("b", &its)], &[&expected]);
        assert_eq!(result.sidecar()["env"], json!([{"name": name, "value": one}]));
        told(&[("a", &mine)], &[&format!("{one} in `a`, none in `b`")]);
        assert!(!told(&[("a", &mine), ("b", &mine)], &[]).report.contains("counts for all"));
    }
}

#[test]
fn headers_of_a_collector_are_not_told() {
    for name in ["ARGOCD_CMP_SERVER_OTLP_HEADERS", "CMP_SUPERVISOR_OTLP_HEADERS"] {
        let env = format!("env: [{{name: {name}, value: token=abc}}]");
        let result = told(&[("a", &env)], &["a hidden one in `a`, none in `b`"]);
        assert!(!result.report.contains("abc"), "{}", result.report);
    }
}

#[test]
fn variables_of_sources_that_may_have_the_same_name_are_reported() {
    let from = "envFrom: [{secretRef: {name: vault}}]";
    let env = "env: [{name: TOKEN, value: x}]";
    let clash = "plugin `a`: its variables from Secret vault (envFrom) may have names";
    told(&[("a", from), ("b", env)], &[clash]);
    assert!(!told(&[("a", from)], &[]).report.contains("(envFrom)"));
    assert!(!told(&[("a", from), ("b", from)], &[]).report.contains("(envFrom)"));
    // Keys of a ConfigMap that is in the input.
    let from = "envFrom: [{prefix: X_, configMapRef: {name: definitions}}]";
    assert!(!told(&[("a", from), ("b", env)], &[]).report.contains("(envFrom)"));
    let env = "env: [{name: X_a.yaml, value: x}]";
    told(&[("a", from), ("b", env)], &["from ConfigMap definitions (envFrom)"]);
}

#[test]
fn a_resource_field_is_that_of_the_new_container() {
    let env = "env: [{name: GOMEMLIMIT, valueFrom: {resourceFieldRef: {containerName: a, resource: limits.memory}}}]";
    let volume = "- {name: v, downwardAPI: {items: [{path: m, resourceFieldRef: {containerName: a, resource: limits.memory}}]}}";
    let mount = "- {name: v, mountPath: /v}";
    let lines = [("a", env), ("a-mounts", mount), ("volumes", volume)];
    let result = told(&lines, &["GOMEMLIMIT (resourceFieldRef)"]);
    assert!(result.list("volumes").iter().any(|volume| {
        let item = &volume["downwardAPI"]["items"][0];
        item["resourceFieldRef"]["containerName"] == "cmp-supervisor"
    }));
    let expected = json!({"resourceFieldRef": {"resource": "limits.memory"}});
    assert_eq!(result.sidecar()["env"][0]["valueFrom"], expected);
}

#[test]
fn values_with_the_name_of_a_credential_are_hidden_from_others() {
    let result =
        told(&[("a", "env: [{name: API_TOKEN, value: s3cr3t}, {name: B, value: b}]")], &[]);
    assert_eq!(result.definition("b.yaml")["spec"]["sandbox"], json!({"env": listed(&[])}));
    assert_eq!(result.definition("a.yaml")["spec"].get("sandbox"), None);
}

#[test]
fn variables_that_refer_to_others_come_after_them() {
    let other = "env: [{name: C, value: c}, {name: URL, value: https://$(C).example}]";
    let result = told(&[("a", "env: [{name: URL, value: x}]"), ("b", other)], &[]);
    let expected = json!([
        {"name": "C", "value": "c"},
        {"name": "A_URL", "value": "x"},
        {"name": "B_URL", "value": "https://$(C).example"},
    ]);
    assert_eq!(result.sidecar()["env"], expected);
}

#[test]
fn own_names_of_variables_are_not_taken() {
    let env = |n: u8| format!("env: [{{name: B, value: '{n}'}}, {{name: A_B, value: x}}]");
    let result = told(&[("a", &env(1)), ("b", &env(2))], &[]);
    let expected = json!([
        {"name": "A_2_B", "value": "1"},
        {"name": "B_B", "value": "2"},
        {"name": "A_B", "value": "x"},
    ]);
    assert_eq!(result.sidecar()["env"], expected);
    assert!(result.definition("a.yaml").to_string().contains("export B=\\\"$A_2_B\\\""));
}

#[test]
fn references_to_removed_variables_are_reported() {
    let env = "env: [{name: HOME, value: /tmp/x}, {name: CONFIG, value: $(HOME)/c}, {name: C, value: /c/x}, {name: D, value: $(C)}]";
    let mount = "- {name: c, mountPath: /c}";
    let lines = [("a", env), ("a-mounts", mount), ("volumes", "- {name: c, emptyDir: {}}")];
    let expected = [
        "plugin `a`: CONFIG refers to $(HOME), which the new container does not have: set CONFIG in",
        "plugin `a`: D refers to $(C), which the new container does not have",
    ];
    told(&lines, &expected);
}

#[test]
fn directories_that_each_request_has_are_not_exported() {
    let names = ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "TMP"];
    let env = |path: &str| {
        let all = names.map(|name| format!("{{name: {name}, value: {path}/{name}}}"));
        format!("env: [{}]", all.join(", "))
    };
    let removed = ["plugin `a`: HELM_CONFIG_HOME was removed, because the sandbox sets it"];
    let result = told(&[("a", &env("/tmp")), ("b", &env("/tmp/b"))], &removed);
    // The sandbox sets TMP only if the container has it, and finds plugins of helm by the other.
    let one = ["HELM_CACHE_HOME", "TMP"];
    let one = one.map(|name| json!({"name": name, "value": format!("/tmp/{name}")}));
    assert_eq!(result.sidecar()["env"], json!(one));
    assert_eq!(
        result.definition("a.yaml")["spec"],
        json!({"generate": {"command": ["cat", "a.yaml"]}})
    );
    for name in ["HELM_CACHE_HOME", "TMP"] {
        assert!(!result.report.contains(name), "{}", result.report);
    }
    let lone = told(&[("a", &env("/tmp"))], &removed);
    assert!(!lone.report.contains("TMP") && lone.report.matches("HELM").count() == 1);
}

#[test]
fn a_directory_of_the_image_that_is_mounted_elsewhere_is_found_there() {
    let fill = "initContainers: [{name: i, volumeMounts: [{name: helm, mountPath: /helm}]}]";
    let lines = [
        ("pod", fill),
        ("a", "env: [{name: HELM_DATA_HOME, value: /tmp/helm/data}, {name: A_TOKEN, value: t}]"),
        ("b", "env: [{name: B_TOKEN, value: t}]"),
        ("a-mounts", "- {name: helm, mountPath: /tmp/helm}"),
        ("volumes", "- {name: helm, emptyDir: {}}"),
    ];
    let result = told(&lines, &[]);
    let data = json!({"name": "HELM_DATA_HOME", "value": "/cmp-moved/a/tmp/helm/data"});
    assert_eq!(result.sidecar()["env"][0], data);
    assert!(!result.report.contains("HELM_DATA_HOME was removed"), "{}", result.report);
    let names = &result.definition("a.yaml")["spec"]["sandbox"]["env"];
    assert_eq!(*names, listed(&["A_TOKEN", "HELM_DATA_HOME"]));
}

#[test]
fn a_directory_that_each_request_has_follows_a_variable_with_a_new_name() {
    let env = |base: &str| {
        format!(
            "env: [{{name: BASE, value: {base}}}, {{name: HELM_CACHE_HOME, value: $(BASE)/helm}}]"
        )
    };
    let result = told(&[("a", &env("/x")), ("b", &env("/y"))], &[]);
    let variables = result.sidecar()["env"].as_array().unwrap();
    let kept = json!({"name": "HELM_CACHE_HOME", "value": "$(A_BASE)/helm"});
    assert_eq!(variables[2], kept, "{variables:?}");
}

#[test]
fn a_plugin_with_a_list_of_variables_keeps_directories_that_each_request_has() {
    let lines =
        [("a", "env: [{name: TMP, value: /tmp}]"), ("b", "env: [{name: B_TOKEN, value: t}]")];
    let result = told(&lines, &[]);
    assert_eq!(result.definition("a.yaml")["spec"]["sandbox"], json!({"env": listed(&["TMP"])}));
    let refers = "env: [{name: TMP, value: /tmp}, {name: OUT, value: $(TMP)/out}]";
    told(&[("a", refers)], &["plugin `a`: OUT refers to $(TMP), which the sandbox sets: set OUT"]);
}

#[test]
fn paths_of_temporary_files_are_reported() {
    let expected = ["plugin `a`: HELMFILE_TEMPDIR names a path in /tmp, where requests cannot"];
    told(&[("a", "env: [{name: HELMFILE_TEMPDIR, value: /tmp/helmfile}]")], &expected);
    let key = "env: [{name: KEY, value: /tmp/key}, {name: URL, value: 'https://h/tmp'}]";
    let lines = [
        ("a", key),
        ("a-mounts", "- {name: key, mountPath: /tmp/key}"),
        ("volumes", "- {name: key, secret: {secretName: key}}"),
    ];
    assert!(!told(&lines, &[]).report.contains("names a path in /tmp"));
    let scratch = [
        (
            "a",
            "env: [{name: OUT_FILE, value: /tmp/w/x}, {name: ARGOCD_PLUGINSOCKFILEPATH, value: /tmp/s}]",
        ),
        ("a-mounts", "- {name: w, mountPath: /tmp/w}"),
        ("volumes", "- {name: w, emptyDir: {}}"),
    ];
    let report = told(&scratch, &["the writable volume at /tmp/w was removed"]).report;
    assert!(!report.contains("names a path in /tmp"), "{report}");
    let path =
        told(&[("a", "env: [{name: PATH, value: '/tmp/bin:/bin'}]")], &["put the programs into"]);
    assert!(!path.report.contains("$TMPDIR"), "{}", path.report);
}

#[test]
fn other_values_with_removed_variables_are_not_reported() {
    let home = "{name: HOME, value: /tmp/x}";
    let removed = "{name: XDG_CACHE_HOME, value: /tmp/$(HOME)}";
    let text = "{name: TEXT, value: a $$(HOME)}";
    let result = told(&[("a", &format!("env: [{home}, {removed}, {text}]"))], &[]);
    assert!(!result.report.contains("refers to"), "{}", result.report);
}

#[test]
fn a_variable_that_no_shell_can_set_is_reported() {
    let env = |value: &str| format!("env: [{{name: MY-VAR, value: {value}}}]");
    let expected = "plugin `a`: MY-VAR has other values in other sidecars: the container has it as \
                    A_MY-VAR, and sh cannot set";
    let result = told(&[("a", &env("x")), ("b", &env("y"))], &[expected]);
    assert_eq!(
        result.definition("a.yaml")["spec"]["generate"]["command"],
        json!(["cat", "a.yaml"])
    );
}

#[test]
fn a_definition_lists_the_new_name_that_no_shell_can_set() {
    let env = |value: &str| format!("env: [{{name: MY-TOKEN, value: {value}}}]");
    let result = told(&[("a", &env("x")), ("b", &env("y"))], &[]);
    for (definition, name) in [("a.yaml", "A_MY-TOKEN"), ("b.yaml", "B_MY-TOKEN")] {
        assert_eq!(
            result.definition(definition)["spec"]["sandbox"],
            json!({"env": listed(&[name])})
        );
    }
}

#[test]
fn escaped_references_are_text() {
    let env =
        |value: &str| format!("env: [{{name: C, value: {value}}}, {{name: T, value: $$(C) $(C)}}]");
    let result = told(&[("a", &env("one")), ("b", &env("two"))], &[]);
    let variables = result.sidecar()["env"].as_array().unwrap();
    assert!(variables.contains(&json!({"name": "A_T", "value": "$$(C) $(A_C)"})), "{variables:?}");
}

#[test]
fn dollar_signs_in_a_start_script_are_explained() {
    let start = |script: &str| format!("args: [sh, -c, '{script}; argocd-cmp-server']");
    let expected = "plugin `a`: Kubernetes replaces $(NAME) and $$ in the script of its sidecar, \
                    but not in definitions: in `init`, write ${NAME} for a variable and $ for $$";
    told(&[("a", &start("KEY=$$(cat /key)"))], &[expected]);
    let env = "env: [{name: KEY, value: x}]";
    let known = format!("{env}\n          {}", start("echo $(KEY)"));
    told(&[("a", &known)], &[expected]);
    for script in ["echo $KEY", "echo $(KEY)", "KEY=$(cat /key)"] {
        let plain = told(&[("a", &start(script))], &["runs a script before argocd-cmp-server"]);
        assert!(!plain.report.contains("Kubernetes replaces"), "{}", plain.report);
    }
}

#[test]
fn a_substitution_in_a_start_script_may_be_a_variable_of_env_from() {
    let script = "args: [sh, -c, 'echo $(date) $(ls /); argocd-cmp-server']";
    let from = format!("envFrom: [{{secretRef: {{name: s}}}}]\n          {script}");
    let told_of = told(
        &[("a", &from)],
        &["plugin `a`: Kubernetes replaces $(date) in the script of \
        its sidecar if envFrom has a variable of this name, and otherwise the shell runs a program"],
    );
    assert!(!told_of.report.contains("replaces $(NAME) and $$"), "{}", told_of.report);
}

#[test]
fn a_variable_that_refers_to_another_one_says_why_it_has_a_new_name() {
    let env = |b: u8| format!("env: [{{name: B, value: '{b}'}}, {{name: C, value: x/$(B)}}]");
    let expected = [
        "plugin `a`: B has other values in other sidecars: the container has it as A_B",
        "plugin `a`: C refers to B, which has a new name: the container has it as A_C",
    ];
    told(&[("a", &env(1)), ("b", &env(2))], &expected);
    let lone = "env: [{name: B, value: '2'}, {name: D, value: $(B)}]";
    told(&[("a", &env(1)), ("b", lone)], &["plugin `b`: D refers to B, which has a new name"]);
}

#[test]
fn a_secret_whose_keys_another_sidecar_gets_as_variables_is_hidden() {
    let from = "envFrom: [{secretRef: {name: vault}}]";
    let hidden = "plugin `b`: spec.sandbox.env hides the secrets of other plugins, and every other \
                  variable that it does not name, also those that the image sets";
    let report = told(&[("a", from), ("b", "env: [{name: GREETING, value: x}]")], &[hidden]).report;
    assert!(report.find("To check:") < report.find(hidden), "{report}");
    assert!(!told(&[("a", from), ("b", from)], &[]).report.contains("secrets of other plugins"));
}

#[test]
fn variables_that_more_plugins_get_are_reported() {
    let env = "env: [{name: HELM_NAMESPACE, value: x}, {name: B_TOKEN, value: t}, \
               {name: HTTPS_PROXY, value: p}]";
    let from = "envFrom: [{configMapRef: {name: definitions}}]";
    let seen = "other plugins get these variables of its sidecar now: ";
    let expected =
        format!("plugin `b`: {seen}HELM_NAMESPACE, HTTPS_PROXY, all of ConfigMap defini");
    // Of the three, `a` knows none, and a list in its definition hides them all.
    assert!(!told(&[("b", env)], &[]).report.contains(seen));
    let env = env.replace("{name: B_TOKEN, value: t}, ", "");
    told(&[("b", &format!("{env}\n          {from}"))], &[&expected]);
    assert!(!told(&[("a", &env), ("b", &env)], &[]).report.contains(seen));
}

#[test]
fn variables_of_several_plugins_are_told_for_all_of_them() {
    let (head, config_map) =
        with(&[]).split_once("---\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let (before, b) = head.split_once("        - name: b\n").unwrap();
    let (b, volumes) = b.split_once("      volumes:\n").unwrap();
    let third = b.replace("subPath: b.yaml", "subPath: c.yaml");
    let env = |names: &str| {
        let names = names.split(' ').map(|name| format!("{{name: {name}, value: x}}"));
        format!("env: [{}]", names.collect::<Vec<_>>().join(", "))
    };
    let text = format!(
        "{before}        - name: b\n{}        - name: c\n{}      volumes:\n{volumes}---\n{config_map}  \
         c.yaml: |\n    kind: ConfigManagementPlugin\n    metadata: {{name: c}}\n    \
         spec: {{generate: {{command: [cat]}}}}\n",
        b.replace("#b\n", &format!("{}\n", env("BOTH ONE ALSO"))),
        third.replace("#b\n", &format!("{}\n", env("BOTH ALSO"))),
    );
    let report = migrated(&[], &text).report;
    for told in [
        "plugins `b`, `c`: other plugins get these variables of their sidecars now: BOTH, ALSO: if \
         one changes what other plugins render, set it in the commands of `b`, `c` instead",
        "plugin `b`: other plugins get these variables of its sidecar now: ONE: if one",
    ] {
        assert!(report.contains(told), "no {told} in {report}");
    }
}

#[test]
fn a_path_of_one_sidecar_stays_its_own() {
    let lone =
        "plugin `a`: PATH is in no other sidecar: the container has it as A_PATH, and sh sets";
    let result = told(&[("a", "env: [{name: PATH, value: /a/bin:/bin}]")], &[lone]);
    assert_eq!(result.sidecar()["env"], json!([{"name": "A_PATH", "value": "/a/bin:/bin"}]));
    assert!(result.definition("a.yaml").to_string().contains("export PATH=\\\"$A_PATH\\\""));
    assert_eq!(result.definition("b.yaml")["spec"].get("sandbox"), None);
}
