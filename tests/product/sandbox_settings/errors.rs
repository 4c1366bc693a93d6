//! Error texts and logs, and the secrets that they must not contain.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
};

use crate::sandbox_settings::bench::Bench;

#[test]
fn an_error_begins_with_argo_cds_text_and_ends_with_its_request() {
    let bench = Bench::new("", "echo bad >&2; exit 3");
    let rendered = bench.render("none", &[]);
    let error = rendered.error().trim_end();
    assert_eq!(
        error,
        "error: error generating manifests: `sh -c \"echo bad >&2; exit 3\"` failed exit status 3: \
         bad (plugin tried, application app, phase generate)"
    );
}

#[test]
fn an_error_of_init_names_init() {
    let bench = Bench::new("  init: {command: [sh, -c, 'exit 4']}", "true");
    let rendered = bench.render("none", &[]);
    assert!(rendered.error().contains("phase init"), "{}", rendered.stderr);
}

#[test]
fn a_script_without_its_interpreter_is_told_from_a_missing_program() {
    let init =
        |program: &str| format!("  preserveFileMode: true\n  init: {{command: [{program}]}}");
    let bench = Bench::new(&init("./run"), "true");
    let script = bench.path("app/run");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let rendered = bench.render("none", &[]);
    assert!(rendered.error().contains("but not its interpreter"), "{}", rendered.stderr);
    fs::write(&script, "#!/bin/sh\r\n").unwrap();
    let rendered = bench.render("none", &[]);
    assert!(rendered.error().contains("Windows line endings: save it"), "{}", rendered.stderr);
    fs::write(&script, "echo 'kind: A'\n").unwrap();
    let rendered = bench.render("none", &[]);
    assert!(rendered.error().contains("a line like `#!/bin/sh`)"), "{}", rendered.stderr);
    let rendered = Bench::new(&init("/no/such/program"), "true").render("none", &[]);
    assert!(rendered.error().contains("or mount it there"), "{}", rendered.stderr);
}

#[test]
fn a_file_of_the_image_that_is_not_executable_has_another_remedy_than_one_of_the_repository() {
    let init = |program: &str| format!("  init: {{command: [{program}]}}");
    let rendered = Bench::new(&init("/etc/passwd"), "true").render("none", &[]);
    assert!(rendered.error().contains("make it executable in the image"), "{}", rendered.stderr);
    let bench = Bench::new(&init("./run"), "true");
    fs::write(bench.path("app/run"), "#!/bin/sh\n").unwrap();
    let rendered = bench.render("none", &[]);
    assert!(rendered.error().contains("set preserveFileMode"), "{}", rendered.stderr);
}

#[test]
fn credentials_reach_neither_errors_nor_logs() {
    let script = "echo \"$GIT_PASSWORD and $ARGOCD_ENV_API_TOKEN\" >&2; echo \
                  https://user:pa55@example.com >&2; printf hunter >&2; sleep 0.2; echo 22side >&2; \
                  exit 1";
    let bench = Bench::new("", script).with("GIT_PASSWORD", "hunter22side");
    let mut server = bench.serve("none", &[]);
    let rendered = bench.ask("tried", &["--env", "API_TOKEN=t0ps3cret"]);
    let (error, log) = (rendered.error(), server.last_log());
    assert!(error.contains("*** and ***\nhttps://***@example.com\n***"), "{error}");
    for secret in ["hunter22side", "t0ps3cret", "pa55"] {
        assert!(!error.contains(secret), "{error}");
        assert!(!log.contains(secret), "{log}");
    }
    assert!(log.contains("*** and ***"), "{log}");
}

#[test]
fn an_error_about_invalid_yaml_contains_no_credentials() {
    let bench = Bench::new("", "echo \"a: *$DB_PASSWORD\"");
    let rendered = bench.with("DB_PASSWORD", "hunter22").render("none", &[]);
    assert!(rendered.error().contains("unknown anchor '…'"), "{}", rendered.stderr);
    assert!(!rendered.stderr.contains("hunter22"), "{}", rendered.stderr);
}

#[test]
fn manifests_keep_credentials() {
    let script = "echo 'kind: Secret'; echo \"value: $DB_PASSWORD\"";
    let rendered = Bench::new("", script).with("DB_PASSWORD", "hunter22").render("none", &[]);
    assert_eq!(rendered.value("value"), "hunter22");
}

#[test]
fn a_long_error_keeps_both_ends_and_the_request() {
    let script = "echo first >&2; head -c 200000 /dev/zero | tr '\\0' x >&2; echo last >&2; exit 1";
    let rendered = Bench::new("", script).render("none", &[]);
    let error = rendered.error();
    for part in ["first", "bytes left out", "last (plugin tried, application app"] {
        assert!(error.contains(part), "{part}: {} bytes", error.len());
    }
    assert!(error.len() < 64 * 1024, "{}", error.len());
}

#[test]
fn a_malformed_application_name_does_no_harm() {
    let bench = Bench::new("", "exit 1");
    let name = "é\u{1}\n".repeat(40);
    fs::rename(bench.path("app"), bench.path(&name)).unwrap();
    std::os::unix::fs::symlink(bench.path(&name), bench.path("app")).unwrap();
    let rendered = bench.render("none", &[]);
    assert!(rendered.error().contains("failed exit status 1"), "{}", rendered.stderr);
}
