//! `spec.sandbox.env`.

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
