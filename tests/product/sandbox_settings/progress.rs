//! `render` reports a request's progress on standard error.

use std::fs;

use crate::sandbox_settings::bench::{Bench, tiers};

/// Replaces durations and UIDs, which differ from run to run.
fn steady(text: &str) -> String {
    let line = |line: &str| {
        let words = line.split(' ').map(|word| match word.strip_suffix("ms") {
            Some(number) if number.parse::<f64>().is_ok() => "N ms",
            _ if word.parse::<u32>().is_ok_and(|uid| uid > 900) => "UID",
            _ => word,
        });
        words.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn phases_output_and_the_uid_are_reported() {
    let script = "echo \"with $ARGOCD_ENV_API_TOKEN\" >&2; echo 'kind: A\napiVersion: v1'";
    for tier in tiers() {
        let bench = Bench::new("  init: {command: [sh, -c, 'echo first >&2']}", script);
        fs::write(bench.path("plugins/broken.yaml"), "kind: ConfigManagementPlugin\n").unwrap();
        let rendered = bench.render(tier, &["--env", "API_TOKEN=t0ps3cret"]);
        let told = steady(&rendered.stderr);
        let (packed, told) = told.split_once('\n').unwrap();
        assert!(packed.starts_with("   packed 1 file, "), "{packed}");
        let warning =
            "  warning requests are not isolated: all plugins can read each other's files\n";
        let told = if tier == "none" { told.strip_prefix(warning).unwrap() } else { told };
        let expected =
            "  warning invalid plugin definition: broken.yaml: line 1, column 1: CMP0105: \
             metadata.name should be non-empty: set a name: Applications use it in \
             spec.source.plugin.name
  warning invalid plugin definition: broken.yaml: line 1, column 1: CMP0107: spec.generate command \
             should be non-empty: set the command that prints manifests: generate: {command: [sh, \
             -c, \"…\"]}
        | first
        | with ***
  receive N ms
     init N ms
 generate N ms
    split N ms
 generate tried: ok in N ms as uid UID
 rendered 1 manifest by plugin tried";
        assert_eq!(told, expected, "{tier}");
    }
}
