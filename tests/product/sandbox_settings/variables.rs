//! `spec.sandbox.env`.

use std::fs;

use crate::sandbox_settings::bench::{Bench, tiers};

const PRINT: &str = "echo 'kind: A'; env | sed 's/^/#/' >&2; for n in SHOWN HIDDEN CMP_SUPERVISOR_X \
                     OTEL_EXPORTER_OTLP_HEADERS OTEL_EXPORTER_OTLP_TRACES_HEADERS ARGOCD_ENV_MINE PARAM_P HOME PATH; do eval \"v=\\${$n-unset}\"; echo \"$n: $v\"; \
                     done";

fn bench(spec: &str) -> Bench {
    Bench::new(spec, PRINT)
        .with("SHOWN", "shown")
        .with("HIDDEN", "hidden")
        .with("CMP_SUPERVISOR_X", "own")
        .with("OTEL_EXPORTER_OTLP_HEADERS", "own")
        .with("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "own")
}

const REQUEST: [&str; 4] = ["--env", "MINE=mine", "--param", "p=given"];

#[test]
fn variables_that_are_not_listed_do_not_reach_the_plugin() {
    for tier in tiers() {
        let rendered = bench("  sandbox: {env: ['SH*']}").render(tier, &REQUEST);
        assert_eq!(rendered.value("SHOWN"), "shown", "{tier}");
        assert_eq!(rendered.value("HIDDEN"), "unset", "{tier}");
        assert_eq!(rendered.value("ARGOCD_ENV_MINE"), "mine", "{tier}");
        assert_eq!(rendered.value("PARAM_P"), "given", "{tier}");
        assert!(rendered.value("HOME").ends_with("/home"), "{tier}");
        assert!(rendered.value("PATH").contains("/bin"), "{tier}");
    }
}

#[test]
fn without_a_list_all_variables_do_but_the_supervisors_own() {
    let rendered = bench("").render("none", &REQUEST);
    assert_eq!(rendered.value("SHOWN"), "shown");
    assert_eq!(rendered.value("HIDDEN"), "hidden");
    for own in
        ["CMP_SUPERVISOR_X", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"]
    {
        assert_eq!(rendered.value(own), "unset", "{own}");
    }
}

#[test]
fn the_supervisors_own_variables_cannot_be_listed() {
    let rendered = bench("  sandbox: {env: ['*']}").render("none", &[]);
    assert_eq!(rendered.value("CMP_SUPERVISOR_X"), "unset");
    assert_eq!(rendered.value("HIDDEN"), "hidden");
}

/// Argo CD's text comes first, and the variable's value is nowhere.
#[test]
fn a_variable_that_no_program_can_have_is_named() {
    let value = "v3ry".repeat((128 << 10) / 4 - 2);
    let rendered = bench("").render("none", &["--env", &format!("MINE={value}")]);
    for part in ["sh: argument list too long (the variable ARGOCD_ENV_MINE has 13", "131072"] {
        assert!(rendered.stderr.contains(part), "{}", rendered.stderr);
    }
    assert!(!rendered.stderr.contains("v3ry"), "{}", rendered.stderr);
}

#[test]
fn variables_that_are_too_long_together_are_the_fault_of_the_request() {
    let bench = bench("");
    for (number, bytes) in [(30, 100_000), (100, 100_000)] {
        let entry = |n: usize| format!("{{name: V{n}, value: {}}}", "v3ry".repeat(bytes / 4));
        let entries: Vec<_> = (0..number).map(entry).collect();
        let application = format!(
            "kind: Application\nmetadata: {{name: a}}\nspec: {{source: {{repoURL: a, path: ., \
             plugin: {{env: [{}]}}}}}}",
            entries.join(", ")
        );
        fs::write(bench.path("application.yaml"), application).unwrap();
        let path = bench.path("application.yaml").display().to_string();
        let rendered = bench.render("none", &["-f", &path]);
        for part in [
            "sh: argument list too long (all arguments and variables take",
            "variable ARGOCD_ENV_V",
            "phase generate)",
        ] {
            assert!(rendered.stderr.contains(part), "{}", rendered.stderr);
        }
        let text = &rendered.stderr;
        assert!(!text.contains("v3ry") && !text.contains("plan"), "{text}");
    }
}

#[test]
fn relative_directories_of_path_are_skipped() {
    for tier in tiers() {
        // From the root of the image, they would lead to the programs.
        let bench = Bench::new("", PRINT).with("PATH", "./bin:usr/bin::/usr/bin:/bin");
        let seen = bench.render(tier, &[]).value("PATH");
        assert_eq!(seen, "./bin:usr/bin::/usr/bin:/bin", "{tier}");
    }
}
