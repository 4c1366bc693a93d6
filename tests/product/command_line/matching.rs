//! `match` says why a plugin claims an application or does not.

use std::{fs, process::Command};

#[test]
fn the_pattern_is_shown_beside_the_file_that_matches_or_the_number_that_does_not() {
    let directory = tempfile::TempDir::with_prefix("cmp-match-").unwrap();
    let [app, plugins] = ["app", "plugins"].map(|name| directory.path().join(name));
    for path in [&app, &plugins] {
        fs::create_dir(path).unwrap();
    }
    fs::write(app.join("Chart.yaml"), "").unwrap();
    for (name, discover) in
        [("claims", "fileName: Chart.yaml"), ("misses", "find: {glob: '**/*.cue'}")]
    {
        let text = format!(
            "kind: ConfigManagementPlugin\nmetadata: {{name: {name}}}\nspec:\n  generate: {{command: \
             [x]}}\n  discover: {{{discover}}}\n"
        );
        fs::write(plugins.join(format!("{name}.yaml")), text).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.args(["match", "--isolation", "none", "--plugins-dir"]).arg(&plugins).arg(&app);
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    for reason in [
        ": Chart.yaml matches discover.fileName `Chart.yaml`\n",
        ": discover.find.glob `**/*.cue` matched 0 of 1 files under .\n",
    ] {
        assert!(stderr.contains(reason), "{stderr}");
    }
}
