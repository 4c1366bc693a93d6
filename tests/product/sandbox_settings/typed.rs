//! Messages about wrong arguments: they name the error and the remedy.

use std::fs;

use crate::{
    reload::server::remove_at_once,
    sandbox_settings::bench::{Bench, Rendered},
};

/// Renders with these arguments, which must fail; returns the message.
fn refused(bench: &Bench, arguments: &[&str], code: i32) -> String {
    let rendered = bench.render("none", arguments);
    assert_eq!(rendered.code, Some(code), "{arguments:?}: {}", rendered.stderr);
    rendered.error().to_owned()
}

#[test]
fn wrong_arguments_are_refused() {
    let bench = Bench::new("", "echo 'kind: A'");
    let plugins = bench.path("plugins");
    for (arguments, code, text) in [
        (
            &["--timeout", "0"][..],
            2,
            "'0' for '--timeout <DURATION>': expected a duration above 0, for example 90s or 1m30s",
        ),
        (&["--param", "a[=3"], 2, "for lists NAME[]=VALUE"),
        (
            &["--param", "a=1", "--param", "a[]=2"],
            2,
            "contradictory values of --param a: use one form",
        ),
        (&["--env", "FOO"], 2, "expected NAME=VALUE\n"),
        (&["--repo-root", plugins.to_str().unwrap()], 1, "set --repo-root to a parent directory"),
        (
            &["--socket", "/nope"],
            7,
            "/nope: cannot connect: No such file or directory (os error 2)",
        ),
        (&["--socket", "/etc/hostname"], 7, "no server listens on it"),
        (&["--plugin", "other"], 1, "no plugin `other`: available plugins: tried"),
    ] {
        let error = refused(&bench, arguments, code);
        assert!(error.contains(text), "{arguments:?}: {error}");
    }
}

#[test]
fn contradictory_parameters_are_refused_for_a_bundle_too() {
    for verb in ["render", "match", "params"] {
        let mut command = Bench::new("", "true").command(verb);
        command.args(["--from-bundle", "/none", "--param", "a=1", "--param", "a=2"]);
        let rendered = Rendered::from(command.output().unwrap());
        let error = rendered.error();
        assert!(error.contains("contradictory values of --param a: "), "{verb}: {error}");
        assert_eq!(rendered.code, Some(2), "{verb}");
    }
}

#[test]
fn a_directory_without_plugins_is_named() {
    let bench = Bench::new("", "true");
    fs::remove_file(bench.path("plugins/tried.yaml")).unwrap();
    let text = format!("no plugin in {}", bench.path("plugins").display());
    assert!(refused(&bench, &[], 1).contains(&text));
}

#[test]
fn an_application_without_files_is_named() {
    let bench = Bench::new("", "true");
    fs::remove_file(bench.path("app/x")).unwrap();
    assert!(refused(&bench, &[], 1).contains("the directory has no regular file"));
}

#[test]
fn with_a_plugins_name_only_its_own_problems_are_shown() {
    let bench = Bench::new("", "echo 'kind: A'");
    fs::write(bench.path("plugins/broken.yaml"), "kind: ConfigManagementPlugin").unwrap();
    let rendered = bench.render("none", &[]);
    assert!(rendered.stderr.contains("broken.yaml"), "{}", rendered.stderr);
    let rendered = bench.render("none", &["--plugin", "tried"]);
    assert_eq!(rendered.code, Some(0), "{}", rendered.stderr);
    assert!(!rendered.stderr.contains("broken.yaml"), "{}", rendered.stderr);
}

#[test]
fn render_has_the_depth_limit_of_serve() {
    let bench = Bench::new("", "echo 'kind: A'");
    let deepest = bench.path("app").join("d/".repeat(254));
    fs::create_dir_all(&deepest).unwrap();
    fs::write(deepest.join("file"), "").unwrap();
    assert_eq!(bench.render("none", &[]).code, Some(0));
    fs::create_dir(deepest.join("d")).unwrap();
    fs::write(deepest.join("d/file"), "").unwrap();
    let error = refused(&bench, &[], 1);
    assert!(error.contains("at most 255 components: set a smaller --repo-root"), "{error}");
}

#[test]
fn a_log_has_no_empty_fields_and_none_of_rust() {
    let bench = Bench::new("", "echo 'kind: A'");
    let mut server = bench.serve("none", &[]);
    remove_at_once(&bench.path("plugins"));
    bench.ask("tried", &[]).value("kind");
    server.says("CMP0303");
    let log = server.last_log();
    for text in [r#":"""#, r#""None""#, "Some("] {
        assert!(!log.contains(text), "{text}: {log}");
    }
}
