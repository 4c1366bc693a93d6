//! `match` says why a plugin claims an application or does not.

use std::{fs, process::Command};

use serde_json::Value;

#[test]
fn the_reason_of_each_rule_is_shown_also_if_its_verdict_was_known() {
    let directory = tempfile::TempDir::with_prefix("cmp-match-").unwrap();
    let [app, plugins] = ["app", "plugins"].map(|name| directory.path().join(name));
    for path in [&app, &plugins] {
        fs::create_dir(path).unwrap();
    }
    fs::write(app.join("Chart.yaml"), "").unwrap();
    for (name, discover) in [
        ("again", "fileName: Chart.yaml"),
        ("claims", "fileName: Chart.yaml"),
        ("misses", "find: {glob: '**/*.cue'}"),
        ("prints", "find: {command: [echo, x]}"),
        ("silent", "find: {command: ['true']}"),
    ] {
        let text = format!(
            "kind: ConfigManagementPlugin\nmetadata: {{name: {name}}}\nspec:\n  generate: {{command: \
             [x]}}\n  discover: {{{discover}}}\n"
        );
        fs::write(plugins.join(format!("{name}.yaml")), text).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.args(["match", "-o", "json", "--isolation", "none", "--plugins-dir"]);
    let output = command.arg(&plugins).arg(&app).output().unwrap();
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    for (plugin, reason) in [
        ("again", "Chart.yaml matches discover.fileName `Chart.yaml`"),
        // Its verdict is known by then.
        ("claims", "Chart.yaml matches discover.fileName `Chart.yaml`"),
        ("misses", "discover.find.glob `**/*.cue` matched 0 of 1 files under ."),
        ("prints", "discover.find.command printed something"),
        ("silent", "discover.find.command printed nothing"),
    ] {
        let row = rows.iter().find(|row| row["plugin"] == plugin).unwrap();
        assert_eq!(row["reason"], reason, "{row}");
        let (plugin, reason) = (format!(" match {plugin}: "), format!(": {reason}"));
        let is_told = |line: &str| line.contains(&plugin) && line.ends_with(&reason);
        assert!(stderr.lines().any(is_told), "{reason}: {stderr}");
    }
}
