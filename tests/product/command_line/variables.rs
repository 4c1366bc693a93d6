//! Errors of values that come from the environment.

use std::process::Command;

/// The error of `serve`.
fn error(variable: (&str, &str), arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    let output = command.arg("serve").args(arguments).env(variable.0, variable.1).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    stderr
}

#[test]
fn a_wrong_value_of_a_variable_is_told_with_its_variable() {
    for variable in [
        ("CMP_SUPERVISOR_MAX_MEMORY", "lots"),
        ("CMP_SUPERVISOR_ISOLATION", ""),
        ("CMP_SUPERVISOR_HTTP", ""),
    ] {
        let told = error(variable, &[]);
        let expected = format!("the value comes from the variable {}", variable.0);
        assert!(told.contains(&expected), "{told}");
    }
}

#[test]
fn the_variable_of_a_flag_that_is_given_is_not_told() {
    for arguments in [&["--max-memory", "many"][..], &["--max-memory=many"]] {
        let told = error(("CMP_SUPERVISOR_MAX_MEMORY", "1Gi"), arguments);
        assert!(told.contains("'many'") && !told.contains("variable"), "{told}");
    }
}
