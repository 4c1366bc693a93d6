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
