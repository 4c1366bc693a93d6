//! Volumes that the new container does not have, or has elsewhere.

use std::fs;

use serde_json::{Value, json};

use super::{
    result::{fixture, migrated, refused},
    strange::{told, with},
};

#[test]
fn programs_that_are_mounted_elsewhere_are_found_there() {
    let mount = |key: &str| {
        format!("- {{name: definitions, mountPath: /usr/local/bin/cat, subPath: {key}.yaml}}")
    };
    let moved = "plugin `b`: /usr/local/bin/cat is taken in the new container, so its files are at \
                 /cmp-moved/b/usr/local/bin/cat: its commands search /cmp-moved/b/usr/local/bin for \
                 programs first; check scripts that its commands call";
    let result = told(&[("a-mounts", &mount("a")), ("b-mounts", &mount("b"))], &[moved]);
    let command = &result.definition("b.yaml")["spec"]["generate"]["command"];
    assert_eq!(command[2], "export PATH=\"/cmp-moved/b/usr/local/bin:$PATH\"; exec \"$@\"");
    let first = &result.definition("a.yaml")["spec"]["generate"]["command"];
    assert_eq!(*first, json!(["cat", "a.yaml"]));
}

/// The script that sets PATH for `b`, and its PATH in the container, if `a` has other mounts at
/// these paths, and the report.
fn moved(paths: &[&str], path: Option<&str>) -> (Value, Option<Value>, String) {
    let mounts = |key: &str| {
        let mount = |path: &&str| {
            format!("- {{name: definitions, mountPath: {path}, subPath: {key}.yaml}}")
        };
        paths.iter().map(mount).collect::<Vec<_>>().join("\n            ")
    };
    let path =
        path.map_or("#".to_owned(), |path| format!("env: [{{name: PATH, value: '{path}'}}]"));
    let (a, b) = (mounts("a"), mounts("b"));
    let result = told(&[("a-mounts", &a), ("b-mounts", &b), ("b", &path)], &[]);
    let variables = result.sidecar().get("env").and_then(Value::as_array).into_iter().flatten();
    let own = variables.clone().find(|variable| variable["name"] == "B_PATH");
    let script = &result.definition("b.yaml")["spec"]["generate"]["command"][2];
    (script.clone(), own.map(|variable| variable["value"].clone()), result.report)
}

#[test]
fn a_path_of_its_own_is_searched_in_its_order() {
    for (paths, path, expected) in [
        (&["/t"][..], "/bin:/t", "/bin:/cmp-moved/b/t"),
        (&["/t"], "/bin:/t/bin/", "/bin:/cmp-moved/b/t/bin/"),
        (&["/t"], "/t/a:/bin:/t", "/cmp-moved/b/t/a:/bin:/cmp-moved/b/t"),
        (&["/t/x"], "/bin:/t/", "/bin:/cmp-moved/b/t:/t/"),
        (&["/t/x", "/t/y"], "/bin:/t", "/bin:/cmp-moved/b/t:/t"),
        (&["/t/x/y"], "/bin:/t", "/bin:/t"),
        (&["/usr/local/bin/x"], "/bin:/t", "/bin:/t"),
    ] {
        let (script, own, report) = moved(paths, Some(path));
        assert_eq!(script, "export PATH=\"$B_PATH\"; exec \"$@\"", "{paths:?} {path}");
        assert_eq!(own, Some(json!(expected)), "{paths:?} {path}");
        assert!(!report.contains("for programs first"), "{report}");
    }
    let (_, _, report) = moved(&["/t/x"], Some("/bin:/t"));
    assert!(report.contains("its PATH has /cmp-moved/b/t before /t; check scripts"), "{report}");
}

#[test]
fn every_directory_of_programs_that_moves_is_searched_once() {
    let at = |path: &str| format!("/cmp-moved/b/usr/{path}");
    let local = format!("{}:{}", at("local/sbin"), at("local/bin"));
    let all = format!("{local}:{}:{}", at("sbin"), at("bin"));
    for (paths, expected) in [
        (&["/usr/local"][..], local),
        (&["/usr"], all),
        (&["/usr/local/bin/x", "/usr/local/bin/y"], at("local/bin")),
        (&["/usr/bin/x", "/usr/local/bin/y"], format!("{}:{}", at("bin"), at("local/bin"))),
    ] {
        let (script, own, _) = moved(paths, None);
        let expected = format!("export PATH=\"{expected}:$PATH\"; exec \"$@\"");
        assert_eq!((script, own), (json!(expected), None), "{paths:?}");
    }
    assert_eq!(moved(&["/opt/x"], None).0, json!(null));
}

#[test]
fn only_changes_that_were_made_are_told_of_a_moved_path() {
    let mount = |key: &str| format!("- {{name: {key}, mountPath: /keys}}");
    let volumes =
        "- {name: a, secret: {secretName: a}}\n        - {name: b, secret: {secretName: b}}";
    let (a, b) = (mount("a"), mount("b"));
    let lines = [("a-mounts", a.as_str()), ("b-mounts", &b), ("volumes", volumes)];
    let moved = "so its files are at /cmp-moved/b/keys: ";
    told(&lines, &[&format!("{moved}check scripts")]);
    let env = ("b", "env: [{name: KEY, value: /keys/x}]");
    let more = [&lines[..], &[env]].concat();
    told(&more, &[&format!("{moved}its variables were changed; check scripts")]);
}

#[test]
fn only_a_directory_of_a_writable_volume_becomes_a_cache() {
    let removed = "plugin `a`: the writable volume at /w was removed, and these variables name files \
                   or programs there: ";
    for (name, value) in [
        ("PATH", "/w/bin:/bin"),
        ("PATH", "/bin:/w/bin"),
        ("ARGS", "/w/values.yaml --debug"),
        ("ARGS", "--kubeconfig=/w/x"),
        ("KUBECONFIG", "/w/kubeconfig"),
        ("AGE_KEY_FILE", "/w/age"),
        ("HELM_REPOSITORY_CONFIG", "/w/repositories.yaml"),
        ("ARGOCD_CACHE", "/w"),
    ] {
        let env = format!("env: [{{name: {name}, value: '{value}'}}, {{name: C, value: /w/c}}]");
        let mount = "- {name: w, mountPath: /w}";
        let lines =
            [("a", env.as_str()), ("a-mounts", mount), ("volumes", "- {name: w, emptyDir: {}}")];
        let result = told(&lines, &[&format!("{removed}{name}: let the commands")]);
        let caches = &result.definition("a.yaml")["spec"]["sandbox"]["caches"];
        assert_eq!(*caches, json!([{"name": "c", "env": "C"}]), "{name}");
    }
    for env in ["{name: HOME, value: /w}", "{name: HOME, value: /w}, {name: TMPDIR, value: /w/tmp}"]
    {
        let env = format!("env: [{env}]");
        let lines = [
            ("a", env.as_str()),
            ("a-mounts", "- {name: w, mountPath: /w}"),
            ("volumes", "- {name: w, emptyDir: {}}"),
        ];
        told(&lines, &["the writable volume at /w was removed, because each request has a HOME"]);
    }
}

#[test]
fn the_host_of_an_address_is_no_path() {
    let env = "env: [{name: VAULT_ADDR, value: 'http://vault:8200'}]";
    let mount = "- {name: w, mountPath: /vault}";
    let volume = "- {name: w, emptyDir: {}}";
    let removed = "the writable volume at /vault was removed, because each request has a HOME";
    told(&[("a", env), ("a-mounts", mount), ("volumes", volume)], &[removed]);
    let mount = |key: &str| format!("- {{name: definitions, mountPath: /vault, subPath: {key}}}");
    let (a, b) = (mount("a"), mount("b"));
    let result = told(&[("b", env), ("a-mounts", &a), ("b-mounts", &b)], &[]);
    let expected = json!([{"name": "VAULT_ADDR", "value": "http://vault:8200"}]);
    assert_eq!(result.sidecar()["env"], expected);
}

#[test]
fn a_directory_of_keys_that_an_init_container_fills_is_reported() {
    let fill = "initContainers: [{name: keys, volumeMounts: [{name: keys, mountPath: /keys}]}]";
    let told_of = |path: &str, env: &str| {
        let mount = format!("- {{name: keys, mountPath: {path}}}");
        let volume = "- {name: keys, emptyDir: {}}";
        told(&[("pod", fill), ("a", env), ("a-mounts", &mount), ("volumes", volume)], &[]).report
    };
    let env = "env: [{name: GNUPGHOME, value: /gpg/home}]";
    for (path, env, expected) in
        [("/root/.gnupg", "#", true), ("/gpg", env, true), ("/gpg", "#", false)]
    {
        let expected_text = format!("plugin `a`: gpg writes to {path} and must own it");
        assert_eq!(told_of(path, env).contains(&expected_text), expected, "{path} {env}");
    }
    let env = env.replace("/gpg/home", "/tmp/gpg");
    let moved = "plugin `a`: gpg writes to /cmp-moved/a/tmp/gpg and must own it";
    assert!(told_of("/tmp/gpg", &env).contains(moved));
}

#[test]
fn no_plugin_is_allowed_to_read_a_path_that_the_sandbox_closes() {
    let secret = ("volumes", "- {name: keys, secret: {secretName: k}}");
    let config = "/home/argocd/cmp-server/config";
    for (path, closed) in [
        ("/home/argocd", "/home/argocd/cmp-server/plugins"),
        ("/home/argocd/cmp-server/plugins/keys", "/home/argocd/cmp-server/plugins"),
        ("/run/", "/run/secrets"),
        ("/sys/keys", "/sys"),
    ] {
        let mount = format!("- {{name: keys, mountPath: {path}}}");
        let expected = format!("(volume `keys`), because no plugin may read {closed}: mount");
        let result = told(&[("a-mounts", &mount), secret], &[&expected]);
        assert_eq!(result.definition("a.yaml")["spec"].get("sandbox"), None, "{path}");
    }
    // Nothing is served of the old directory of the definition.
    for path in [config, "/var/run/secrets/keys", "/home/argocd/cmp-server/plugins.d"] {
        let mount = format!("- {{name: keys, mountPath: {path}}}");
        let result = told(&[("a-mounts", &mount), secret], &[]);
        let sandbox = &result.definition("a.yaml")["spec"]["sandbox"];
        assert_eq!(*sandbox, json!({"read": [path]}), "{}", result.report);
    }
}

#[test]
fn files_of_a_volume_at_the_directory_of_tokens_are_named_one_by_one() {
    let secret = ("volumes", "- {name: keys, secret: {secretName: k}}");
    let mount = ("a-mounts", "- {name: keys, mountPath: /var/run/secrets}");
    let rule = "plugin `a`: of /var/run/secrets, a plugin may only read the files that it names: ";
    let env = "env: [{name: KEY, value: /var/run/secrets/age.txt}, \
               {name: TOKEN_FILE, value: /var/run/secrets/kubernetes.io/serviceaccount/token}]";
    let found =
        format!("{rule}spec.sandbox.read lets it read /var/run/secrets/age.txt: add others");
    let result = told(&[mount, secret, ("a", env)], &[&found]);
    result.assert_valid();
    let sandbox = &result.definition("a.yaml")["spec"]["sandbox"];
    assert_eq!(*sandbox, json!({"read": ["/var/run/secrets/age.txt"]}));
    let unknown = format!("{rule}add those of the volume `keys`");
    let result = told(&[mount, secret], &[&unknown, "such as /var/run/secrets/FILE, or mount"]);
    assert_eq!(result.definition("a.yaml")["spec"].get("sandbox"), None);
}

#[test]
fn a_volume_of_the_repo_server_itself_stays() {
    let at = |volume: &str| format!("{{mountPath: /var/run/ask-pass, name: {volume}}}");
    let operation = "- op: add\n  path: /spec/template/spec/containers/0/volumeMounts/-\n  value: ";
    for (file, volume, place, own) in [
        (
            "chart.yaml",
            "cmp-tmp",
            "  replicas: 2\n",
            format!("  volumeMounts: [{}]\n", at("cmp-tmp")),
        ),
        (
            "operator.yaml",
            "ksops-tmp",
            "  repo:\n",
            format!("    volumeMounts: [{}]\n", at("ksops-tmp")),
        ),
        ("json-patch.yaml", "cdk8s-tmp", "", format!("{operation}{}\n", at("cdk8s-tmp"))),
    ] {
        let text = fs::read_to_string(fixture(file)).unwrap();
        let text = text.replace(&format!("{{mountPath: /tmp, name: {volume}}}"), &at(volume));
        let removed = "the writable volume at /var/run/ask-pass was removed";
        assert!(migrated(&[], &text).report.contains(removed), "{file}");
        let result = migrated(&[], &text.replacen(place, &format!("{place}{own}"), 1));
        assert!(!result.report.contains(removed), "{file}: {}", result.report);
        let expected = json!({"mountPath": "/var/run/ask-pass", "name": volume, "readOnly": true});
        let mounts = result.sidecar()["volumeMounts"].as_array().unwrap();
        assert!(mounts.contains(&expected), "{file}: {mounts:?}");
        result.assert_valid();
    }
}

#[test]
fn a_volume_without_a_source_is_an_empty_directory() {
    let mount = ("a-mounts", "- {name: data, mountPath: /data}");
    told(&[mount, ("volumes", "- {name: data}")], &["the writable volume at /data was removed"]);
    let text =
        with(&[("volumes", "- {name: data}")]).replacen("name: definitions", "name: data", 1);
    let error = refused(&text, &[]);
    assert!(error.contains("comes from the volume `data` (emptyDir), and no ConfigMap"), "{error}");
}
