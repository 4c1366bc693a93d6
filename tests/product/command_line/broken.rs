//! `render` and its kin, where definitions are not valid.

use std::{fs, process::Command};

const BROKEN: &str = "
apiVersion: argoproj.io/v1alpha1
kind: ConfigManagementPlugin
metadata: {name: broken}
spec:
  generate: {command: sh}
";

/// The last line that a verb writes to standard error.
#[track_caller]
fn error(arguments: &[&str], definitions: &[(&str, &str)]) -> String {
    let place = tempfile::Builder::new().prefix("cmp-broken-").tempdir().unwrap();
    for (name, text) in definitions {
        fs::write(place.path().join(name), text).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.args(arguments).args(["--isolation", "none", "--plugins-dir"]);
    let output = command.arg(place.path()).arg(place.path()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    stderr.lines().last().unwrap().to_owned()
}

#[test]
fn an_error_without_a_plugin_names_the_definitions_that_were_left_out() {
    for verb in ["render", "match", "params"] {
        let error = error(&[verb], &[("one.yaml", BROKEN), ("two.yaml", "kind: [")]);
        for text in
            ["error: ", "one.yaml", "line 6, column 23", "must be a list of strings", "two.yaml"]
        {
            assert!(error.contains(text), "{verb}: no {text} in: {error}");
        }
    }
}

#[test]
fn an_error_about_an_absent_plugin_names_them_too() {
    let good = BROKEN.replace("broken", "good").replace("sh}", "[sh]}");
    let error =
        error(&["render", "--plugin", "broken"], &[("one.yaml", BROKEN), ("two.yaml", &good)]);
    for text in ["no plugin `broken`", "good", "one.yaml", "must be a list of strings"] {
        assert!(error.contains(text), "no {text} in: {error}");
    }
}
