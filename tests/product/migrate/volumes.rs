//! Volumes that the new container does not have, or has elsewhere.

use serde_json::json;

use super::strange::told;

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
    // The directory comes before the plugin's own PATH, also one that is not usual.
    let lines = [
        ("a-mounts", mount("a").replace("/usr/local/bin", "/t")),
        ("b-mounts", mount("b").replace("/usr/local/bin", "/t")),
        ("b", "env: [{name: PATH, value: /bin:/t/}]".to_owned()),
    ];
    let result = told(&lines.each_ref().map(|(place, line)| (*place, line.as_str())), &[]);
    let command = &result.definition("b.yaml")["spec"]["generate"]["command"];
    assert_eq!(command[2], "export PATH=\"/cmp-moved/b/t:$B_PATH\"; exec \"$@\"");
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
    let home = "env: [{name: HOME, value: /w}]";
    let lines = [
        ("a", home),
        ("a-mounts", "- {name: w, mountPath: /w}"),
        ("volumes", "- {name: w, emptyDir: {}}"),
    ];
    told(&lines, &["the writable volume at /w was removed, because each request has a HOME"]);
}
