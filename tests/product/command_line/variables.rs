//! Errors of values that come from the environment.

use std::process::Command;

/// The error of a verb and its arguments.
fn error(variable: (&str, &str), arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    let output = command.args(arguments).env(variable.0, variable.1).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    stderr
}

#[test]
fn a_wrong_value_of_a_variable_is_told_with_its_variable() {
    for (verb, variable) in [
        ("serve", ("CMP_SUPERVISOR_MAX_MEMORY", "lots")),
        ("serve", ("CMP_SUPERVISOR_ISOLATION", "")),
        ("status", ("CMP_SUPERVISOR_HTTP", "")),
        ("render", ("CMP_SUPERVISOR_TIMEOUT", "soon")),
    ] {
        let told = error(variable, &[verb]);
        let expected = format!("the value comes from the variable {}", variable.0);
        assert!(told.contains(&expected), "{told}");
    }
}

#[test]
fn the_variable_of_a_flag_that_is_given_is_not_told() {
    for arguments in [&["serve", "--max-memory", "many"][..], &["serve", "--max-memory=many"]] {
        let told = error(("CMP_SUPERVISOR_MAX_MEMORY", "1Gi"), arguments);
        assert!(told.contains("'many'") && !told.contains("variable"), "{told}");
    }
}

/// The log of a `serve` that finds no definitions.
fn log(name: &str, value: &str) -> String {
    let root = tempfile::tempdir().unwrap();
    let [sockets, missing] = ["sockets", "missing"].map(|name| root.path().join(name));
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.args(["serve", "--isolation", "none", "--accept-no-isolation", "--http", "off"]);
    command.arg("--plugins-dir").arg(&missing).arg("--socket-dir").arg(&sockets);
    command.arg("--work-dir").arg(root.path()).env(name, value);
    String::from_utf8(command.output().unwrap().stderr).unwrap()
}

#[test]
fn a_variable_of_argo_cd_that_cannot_be_read_is_told_and_its_default_applies() {
    for value in ["100Mi", "-1", "2147483648"] {
        let log = log("ARGOCD_GRPC_MAX_SIZE_MB", value);
        let expected =
            format!(r#"ARGOCD_GRPC_MAX_SIZE_MB is \"{value}\": expected a whole number"#);
        assert!(log.contains(&expected), "{log}");
    }
}

#[test]
fn a_misspelt_variable_is_told_by_render() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.args(["render", "plugins.d/examples/template", "--plugin", "template"]);
    command.args(["--isolation", "none"]).env("CMP_SUPERVISOR_READS", "/opt");
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let expected = "no effect: CMP_SUPERVISOR_READS: did you mean CMP_SUPERVISOR_READ?";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn a_misspelt_variable_is_told_without_its_value() {
    let log = log("CMP_SUPERVISOR_OTLP_HEADER", "authorization=hunter2");
    let expected = "CMP_SUPERVISOR_OTLP_HEADER: did you mean CMP_SUPERVISOR_OTLP_HEADERS?";
    assert!(log.contains(expected) && !log.contains("hunter2"), "{log}");
}
