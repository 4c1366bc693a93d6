//! Definitions with and without warnings.

use super::MAX_FOUND;
use crate::plugin::{Code, read_all};

/// Codes and places of all diagnostics of a definition.
pub(super) fn found(spec: &str) -> Vec<String> {
    let head = "kind: ConfigManagementPlugin\nmetadata: {name: p}\nspec:\n";
    let readings = read_all(format!("{head}{spec}").as_bytes());
    assert!(readings[0].definition.is_some(), "{:?}", readings[0].diagnostics);
    let line = |diagnostic: &crate::plugin::Diagnostic| {
        format!("{} {}", diagnostic.code, diagnostic.region.unwrap())
    };
    readings[0].diagnostics.iter().map(line).collect()
}

/// Warnings about a generate command of a plugin with discovery.
fn generate(command: &str) -> Vec<String> {
    found(&format!("  discover: {{fileName: x}}\n  generate:\n    command: {command}\n"))
}

#[test]
fn a_plugin_without_mistakes_has_no_warnings() {
    assert!(generate("[helm, template, .]").is_empty());
    assert!(generate("[bash, -euo, pipefail, -c, 'a | b \"$ARGOCD_ENV_X\"']").is_empty());
    assert!(generate("[sh, -c, 'exec \"$@\"', sh, a, b]").is_empty());
}

#[test]
fn a_shell_that_another_program_starts_is_one() {
    for fine in ["[/usr/bin/env, bash, -euc, ", "[timeout, '50', sh, -c, ", "[busybox, ash, -c, "] {
        assert_eq!(generate(&format!("{fine}'helm template \"$ARGOCD_APP_NAME\"']")), [""; 0]);
        assert!(generate(&format!("{fine}'kustomize build | x']"))[0].starts_with("CMP0301"));
    }
    assert_eq!(generate("[sops, exec-env, f, 'helm template $ARGOCD_APP_NAME']"), [""; 0]);
    assert!(generate("[env, A=$ARGOCD_APP_NAME, helm]")[0].starts_with("CMP0316"));
}

#[test]
fn options_behind_the_file_of_a_script_are_its_own() {
    assert_eq!(generate("[bash, /opt/generate.sh, -c, config.yaml, -o, yaml]"), [""; 0]);
    assert!(generate("[bash, -o, errexit, -c, 'a | b']")[0].starts_with("CMP0301"));
    assert!(generate("[bash, --rcfile, x, -c, 'a | b']")[0].starts_with("CMP0301"));
}

#[test]
fn a_key_for_anchors_is_not_unknown() {
    let plugin =
        |key| format!("  discover: {{fileName: x}}\n  generate: {{command: [a]}}\n{key}: {{}}");
    assert!(found(&plugin("x-common")).is_empty());
    for unknown in ["common", "  x-common"] {
        assert!(found(&plugin(unknown))[0].starts_with("CMP0108"), "{unknown}");
    }
}

#[test]
fn a_pipeline_is_reported_at_its_pipe() {
    assert_eq!(generate("[sh, -c, 'kustomize build | avp -']"), ["CMP0301 6:40"]);
    let block = "[sh, -c]\n    args:\n      - |\n        set -e\n        a | b\n";
    assert_eq!(generate(block), ["CMP0301 10:11"]);
    assert!(generate("[sh, -c, 'a']\n  init: {command: [sh, -c, 'a | b']}")[0].contains("CMP0301"));
}

#[test]
fn pipefail_alone_is_not_proposed_if_a_pipeline_then_fails_without_reason() {
    let help = |script: &str| {
        let head = "kind: ConfigManagementPlugin\nmetadata: {name: p}\nspec:\n";
        let spec =
            format!("  discover: {{fileName: x}}\n  generate: {{command: [sh, -c, '{script}']}}");
        let readings = read_all(format!("{head}{spec}").as_bytes());
        readings[0].diagnostics[0].help.clone().unwrap()
    };
    assert!(help("a | b").starts_with("begin the script with `set -eo pipefail`"));
    for script in ["a | head -1", "x=$(a | b | sed 2q); echo $x", "if a | grep -q b; then c; fi"] {
        assert!(
            help(script).starts_with("let the command before the pipe write to a file"),
            "{script}"
        );
    }
    for (script, is_search) in [
        ("grep a b | c", true),
        ("x=$(a | grep b | c)", true),
        ("a | grep b", false),
        ("grep a b; c | d", false),
    ] {
        assert_eq!(help(script).contains("{ grep … || [ $? = 1 ]; } | …"), is_search, "{script}");
    }
}

#[test]
fn a_pipeline_in_discovery_is_not_reported() {
    let spec =
        "  generate: {command: [a]}\n  discover: {find: {command: [sh, -c, 'find . | grep x']}}";
    assert!(found(spec).is_empty());
}

#[test]
fn a_loop_is_reported_at_the_command_that_may_fail() {
    let script = "'for f in *; do sops -d $f; done'";
    assert_eq!(generate(&format!("[sh, -c, {script}]")), ["CMP0318 6:39"]);
    assert_eq!(generate(&format!("[sh, -euc, {script}]")), [""; 0]);
    assert_eq!(generate(&format!("[bash, -o, errexit, -c, {script}]")), [""; 0]);
}

#[test]
fn an_unquoted_variable_is_reported_at_its_place() {
    assert_eq!(generate("[sh, -c, \"helm template $ARGOCD_ENV_ARGS .\"]"), ["CMP0307 6:38"]);
}

#[test]
fn arguments_after_a_script_are_reported() {
    assert_eq!(generate("[sh, -c, helm, template]"), ["CMP0305 6:29"]);
    assert_eq!(generate("[sh, -c, 'echo \"$1\"', a]"), ["CMP0305 6:36"]);
}

#[test]
fn other_discovery_methods_are_reported_as_unused() {
    let spec = "  generate: {command: [a]}\n  discover:\n    fileName: x\n    find: {glob: z, command: [a]}";
    assert_eq!(found(spec), ["CMP0302 7:12", "CMP0302 7:21"]);
    assert_eq!(found("  generate: {command: [a]}"), ["CMP0303 2:18"]);
}

#[test]
fn what_only_a_shell_understands_is_reported_outside_one() {
    for (command, expected) in [
        ("[helm, template, $ARGOCD_APP_NAME]", "CMP0316 6:31"),
        ("[helm, '--set=a=${ARGOCD_ENV_A}']", "CMP0316 6:21"),
        ("[helm, template, ., '|', envsubst]", "CMP0316 6:34"),
        ("[helm, template, $(date)]", "CMP0316 6:31"),
        ("[helm, '--set=a=$(REGION)']", "CMP0316 6:21"),
        ("[helm, '--set=a=`date`']", "CMP0316 6:21"),
        ("[sh, -c, 'helm \"$(ARGOCD_APP_NAME)\"']", "CMP0316 6:30"),
        ("[sh, -c, \"# x\\n$(ARGOCD_ y) $(PARAM_A)\"]", "CMP0316 6:42"),
        ("[export, A=$ARGOCD_ENV_A;, helm]", "CMP0316 6:15"),
        ("['helm template .']", "CMP0317 6:15"),
        ("[A=b helm, template]", "CMP0317 6:15"),
        ("[sh, 'helm template .']", "CMP0317 6:19"),
    ] {
        assert_eq!(generate(command), [expected], "{command}");
    }
    for fine in [
        "[sh, -ec, 'helm template \"$ARGOCD_APP_NAME\" .']",
        "[bash, '/opt/my tools/run']",
        "['/opt/my tools/run', x]",
        "[envsubst, $ARGOCD_APP_NAME]",
        "[make, CFLAGS=$(X)]",
        "[sh, -c, \"# $(ARGOCD_APP_NAME)\\ntrue\"]",
        "[sh, -c, 'echo \\$(ARGOCD_ENV_A)']",
        "[sh, -c, \"echo '$(ARGOCD_ENV_A)'\"]",
        "[find, ., -exec, cat, '{}', ;]",
        "[helm, template, '$5']",
        "[sh, -c, 'helm \"$(date)\" \"$(ARGOCD_X y)\"']",
        "[yq, '.a = \"$(x) y\"']",
    ] {
        assert!(generate(fine).is_empty(), "{fine}: {:?}", generate(fine));
    }
}

#[test]
fn secrets_in_a_definition_are_reported() {
    assert_eq!(generate("[helm, --password=hunter2]"), ["CMP0309 6:21"]);
    assert_eq!(generate("[sh, -c, 'vault login --token s.abc']"), ["CMP0309 6:36"]);
    for secret in ["--pass=hunter2", "--git-pat, ghp_abc", "--DB_PWD=hunter2"] {
        assert_eq!(generate(&format!("[helm, {secret}]")), ["CMP0309 6:21"], "{secret}");
    }
    for fine in [
        "--password=$P",
        "--token-file=/x",
        "--secret, $X",
        "password",
        "--bypass=all",
        "--pwd=build",
        "--pass-credentials",
        "--patch=a.yaml",
    ] {
        assert!(generate(&format!("[helm, {fine}]")).is_empty(), "{fine}");
    }
}

#[test]
fn a_readable_token_is_reported_at_its_path() {
    let spec = "  generate: {command: [a]}\n  discover: {fileName: x}\n  sandbox:\n    read:\n    - /opt\n    - /var/run/secrets/kubernetes.io/serviceaccount/token\n";
    assert_eq!(found(spec), ["CMP0311 9:7"]);
}

#[test]
fn announcements_need_a_name_and_a_matching_collection_type() {
    let parameters = |list: &str| {
        let spec = "  discover: {fileName: x}\n  generate: {command: [a]}\n  parameters: {static: ";
        found(&format!("{spec}{list}}}")).len()
    };
    assert_eq!(
        parameters("[{name: a, collectionType: map, map: {b: c}}, {name: b, array: []}]"),
        0
    );
    for bad in [
        "[null]",
        "[{}]",
        "[{name: a}, {name: a}]",
        "[{name: a, collectionType: list}]",
        "[{name: a, array: [b]}]",
        "[{name: a, map: {b: c}}]",
    ] {
        assert_eq!(parameters(bad), 1, "{bad}");
    }
}

#[test]
fn a_repeated_key_is_reported_at_its_last_use() {
    assert_eq!(generate("[a]\n    command: [b]"), ["CMP0111 7:5"]);
}

#[test]
fn a_file_full_of_mistakes_has_few_warnings() {
    let announced = "{name: a}, ".repeat(1000);
    let announced =
        format!("  generate: {{command: [a]}}\n  parameters: {{static: [{announced}]}}\n");
    let repeated = "  generate: {command: [a]}\n".repeat(1000);
    for (spec, code) in [(announced, Code::Announcement), (repeated, Code::RepeatedKey)] {
        let all = found(&spec).into_iter();
        assert_eq!(all.filter(|text| text.starts_with(&code.to_string())).count(), MAX_FOUND);
    }
}

#[test]
fn a_name_too_long_for_a_socket_path_is_reported() {
    let head =
        "kind: ConfigManagementPlugin\nspec: {discover: {fileName: x}, generate: {command: [a]}}\n";
    let text = format!("{head}metadata: {{name: {}}}", "x".repeat(71));
    let diagnostics = read_all(text.as_bytes()).swap_remove(0).diagnostics;
    assert!(diagnostics[0].to_string().contains("CMP0203"), "{diagnostics:?}");
}

#[test]
fn a_generate_command_that_writes_only_to_standard_error_is_reported() {
    assert_eq!(generate("[sh, -c, 'helm template . >&2']"), ["CMP0308 6:23"]);
    assert!(generate("[sh, -c, \"echo start >&2\\nhelm template .\"]").is_empty());
    assert!(generate("[sh, -c, 'set -e']").is_empty());
}

#[test]
fn a_fixed_path_in_tmp_is_reported_unless_it_is_only_read() {
    assert_eq!(generate("[sh, -c, 'helm template . > /tmp/x && a']"), ["CMP0314 6:42"]);
    assert!(generate("[sh, -c, 'helm template . > \"$TMPDIR/x\"']").is_empty());
    assert_eq!(generate("[sh, -c, 'export KCL_CACHE_PATH=/tmp; a']"), ["CMP0314 6:46"]);
    assert_eq!(generate("[helm, pull, --untardir, /tmp, x]"), ["CMP0314 6:39"]);
    assert!(generate("[ls, /tmp]").is_empty());
    let named = "[/tmp/tools/helm]\n  sandbox: {read: [/tmp/tools]}";
    assert!(generate(named).is_empty());
}

#[test]
fn a_discovery_of_ordinary_applications_is_reported_at_its_pattern() {
    let discovering =
        |discover: &str| found(&format!("  generate: {{command: [a]}}\n  discover: {discover}\n"));
    for claiming in ["Chart.yaml", "kustomiz*.yaml", "'*.yaml'", "values.yaml", "'*'"] {
        assert_eq!(discovering(&format!("{{fileName: {claiming}}}")), ["CMP0315 5:24"]);
    }
    for claiming in ["'**/*.yaml'", "'**/Chart.yaml'", "'**/*'"] {
        assert_eq!(discovering(&format!("{{find: {{glob: {claiming}}}}}")), ["CMP0315 5:27"]);
    }
    for fine in ["helmfile.y*ml", "'*.cue'", ".ksops", "environments/*/main.jsonnet"] {
        assert!(discovering(&format!("{{fileName: {fine}}}")).is_empty(), "{fine}");
    }
}

#[test]
fn a_line_with_another_command_may_print_manifests() {
    assert_eq!(generate("[sh, -c, 'helm template . >&2']"), ["CMP0308 6:23"]);
    assert!(generate("[sh, -c, 'helm template . && helm repo list >&2']").is_empty());
}
