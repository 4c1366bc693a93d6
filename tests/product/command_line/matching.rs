//! `match` says why a plugin claims an application or does not.

use std::{
    fs,
    process::{Command, Output},
};

use serde_json::Value;

/// Runs a command for an application with a chart, and with plugins of these rules.
fn run(arguments: &[&str], rules: &[(&str, &str)]) -> Output {
    let directory = tempfile::TempDir::with_prefix("cmp-match-").unwrap();
    let [app, plugins] = ["app", "plugins"].map(|name| directory.path().join(name));
    for path in [&app, &plugins] {
        fs::create_dir(path).unwrap();
    }
    fs::write(app.join("Chart.yaml"), "").unwrap();
    for (name, discover) in rules {
        let text = format!(
            "kind: ConfigManagementPlugin\nmetadata: {{name: {name}}}\nspec:\n  generate: {{command: \
             [echo, 'kind: Chart']}}\n  discover: {{{discover}}}\n"
        );
        fs::write(plugins.join(format!("{name}.yaml")), text).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.args(arguments).args(["-o", "json", "--isolation", "none", "--plugins-dir"]);
    command.arg(&plugins).arg(&app).output().unwrap()
}

#[test]
fn a_discovery_that_fails_leaves_the_application_to_the_next_plugin() {
    let fails = ("fails", "find: {command: ['false']}");
    let output = run(&["render"], &[fails, ("next", "fileName: Chart.yaml")]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("1 manifest by plugin next"), "{stderr}");
    let output = run(&["render"], &[fails, ("other", "fileName: none")]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("error running find command: `false`"), "{stderr}");
    assert_eq!(output.status.code(), Some(5));
}

#[test]
fn a_plugin_that_argo_cd_would_not_use_is_told_also_if_it_is_named() {
    let rules = [
        ("claims", "fileName: Chart.yaml"),
        ("fails", "find: {command: ['false']}"),
        ("misses", "fileName: none"),
        ("named", ""),
    ];
    for (plugin, reason) in [
        ("claims", None),
        ("fails", Some("the discovery of fails fails for this application: ")),
        ("misses", Some("the discovery of misses does not claim this application: ")),
        ("named", None),
    ] {
        let output = run(&["render", "--plugin", plugin], &rules);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}");
        let told =
            format!("Argo CD does not use {plugin} for it, even if the Application names it");
        let told = reason.map(|reason| format!("{reason}{told}"));
        assert!(told.as_ref().is_none_or(|told| stderr.contains(told)), "{stderr}");
        assert_eq!(told.is_some(), stderr.contains("Argo CD does not use"), "{stderr}");
        let cause = "error running find command: `false` failed";
        assert_eq!(plugin == "fails", stderr.contains(cause), "{stderr}");
    }
}

#[test]
fn a_discovery_that_takes_too_long_is_no_refusal() {
    let rules = [("slow", "find: {command: [sleep, '60']}")];
    let output = run(&["render", "--timeout", "1s"], &rules);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let told = "the discovery of slow took too long for this application, so it is not known";
    assert!(stderr.contains(told) && !stderr.contains("Argo CD does not use"), "{stderr}");
    assert!(stderr.contains("raise --timeout"), "{stderr}");
}

#[test]
fn the_reason_of_each_rule_is_shown_also_if_its_verdict_was_known() {
    let rules = [
        ("again", "fileName: Chart.yaml"),
        ("claims", "fileName: Chart.yaml"),
        ("misses", "find: {glob: '**/*.cue'}"),
        ("prints", "find: {command: [echo, x]}"),
        ("silent", "find: {command: ['true']}"),
        ("stars", "fileName: '**/Chart.yaml'"),
    ];
    let output = run(&["match"], &rules);
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
        (
            "stars",
            "discover.fileName `**/Chart.yaml` matched 0 of 1 files under .; ** is only * in \
             fileName, unlike in find.glob",
        ),
    ] {
        let row = rows.iter().find(|row| row["plugin"] == plugin).unwrap();
        assert_eq!(row["reason"], reason, "{row}");
        let (plugin, reason) = (format!(" match {plugin}: "), format!(": {reason}"));
        let is_told = |line: &str| line.contains(&plugin) && line.ends_with(&reason);
        assert!(stderr.lines().any(is_told), "{reason}: {stderr}");
    }
}
