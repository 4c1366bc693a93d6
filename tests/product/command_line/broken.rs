//! `render` and its kin, where definitions are not valid.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

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

/// A run of `render` with one plugin in a new directory: its error, and its exit code.
fn rendered(name: &str, set: impl FnOnce(&mut Command, &Path)) -> (String, Option<i32>) {
    let place = tempfile::tempdir().unwrap();
    let good = BROKEN.replace("broken", name).replace("sh}", "['true']}");
    fs::write(place.path().join("good.yaml"), good).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.args(["render", "--isolation", "none", "--plugins-dir"]).args([place.path(); 2]);
    set(&mut command, place.path());
    let output = command.output().unwrap();
    (String::from_utf8(output.stderr).unwrap(), output.status.code())
}

#[test]
fn a_directory_without_definitions_is_named_as_the_user_named_it() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("app.txt"), "x").unwrap();
    for verb in ["render", "match", "params"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        command.args([verb, "--isolation", "none", "--plugins-dir"]).args([place.path(); 2]);
        let output = command.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        let told = format!("error: no plugin in {}: add a definition", place.path().display());
        assert!(error.contains(&told) && !error.contains("nothing is served"), "{verb}: {error}");
        assert_eq!(output.status.code(), Some(1), "{verb}");
    }
}

#[test]
fn a_temporary_directory_that_cannot_be_used_is_named_with_its_variable() {
    let (error, code) = rendered("good", |command, _| {
        command.env("TMPDIR", "/no/such");
    });
    assert!(error.contains("/no/such: cannot write") && error.contains("set TMPDIR"), "{error}");
    assert_eq!(code, Some(1));
}

#[test]
fn a_socket_whose_path_is_too_long_is_an_error_at_once() {
    let name = "n".repeat(70);
    let (error, code) = rendered(&name, |command, place| {
        let long = place.join("d".repeat(40));
        fs::create_dir(&long).unwrap();
        command.env("TMPDIR", long);
    });
    let start = format!("error: cannot serve plugin `{name}` here: the path of its socket ");
    assert!(error.contains(&start) && error.contains("set TMPDIR to a shorter"), "{error}");
    assert_eq!(code, Some(7));
}

#[test]
fn a_missing_plugins_directory_is_an_error_with_the_flag() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.args(["render", "src", "--plugins-dir", "/no/such"]);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("/no/such: cannot list the plugins directory"), "{error}");
    assert!(error.contains(": set --plugins-dir to the directory of your definitions"), "{error}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_full_disk_is_no_internal_error() {
    for arguments in [&["validate", "-"][..], &["explain"], &["schema"], &["--help"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        let output = command.args(arguments).stdin(Stdio::null()).stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.starts_with("error: cannot print the result: "), "{arguments:?}: {stderr}");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
}
