//! `render --check-deterministic`.

use std::{
    fs,
    process::{Command, Output},
};

fn render(script: &str) -> Output {
    let place = tempfile::TempDir::with_prefix("cmp-twice-").unwrap();
    fs::create_dir(place.path().join("plugins")).unwrap();
    let plugin = format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: {{name: p}}\n\
         spec: {{generate: {{command: [sh, -c, {script:?}]}}}}\n"
    );
    fs::write(place.path().join("plugins/p.yaml"), plugin).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.args(["render", "--check-deterministic", "--isolation", "none", "--plugins-dir"]);
    command.arg(place.path().join("plugins")).arg(place.path()).output().unwrap()
}

#[test]
fn a_plugin_that_prints_something_else_each_time_is_found() {
    let output = render("echo same: true; echo \"changing: v$$\"");
    assert_eq!(output.status.code(), Some(1));
    let stdout = String::from_utf8(output.stdout).unwrap();
    let has = |start: &str| stdout.lines().any(|line| line.starts_with(start));
    assert!(has("-changing: v") && has("+changing: v") && has(" same: true"), "{stdout}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("plugin p does not give the same result twice"), "{stderr}");
}

#[test]
fn a_plugin_that_prints_the_same_is_rendered() {
    let output = render("echo same: true");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "---\nsame: true\n");
}
