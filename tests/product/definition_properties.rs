//! Properties of every file that is read for definitions.

use cmp_supervisor::plugin::{MAX_DEFINITIONS, Severity, read_all, read_first};
use proptest::{collection::vec, prelude::*, sample::select};

/// Lines of definitions, config maps and mistakes.
const LINES: [&str; 34] = [
    "kind: ConfigManagementPlugin",
    "kind: ConfigMap",
    "kind: List",
    "items:",
    "- kind: ConfigManagementPlugin",
    "metadata: {name: a}",
    "metadata:",
    "  name: a/b",
    "data:",
    "  a.yaml: |",
    "    kind: ConfigManagementPlugin",
    "    metadata: {name: b}",
    "    spec: {generate: {command: x}}",
    "  b.yaml: \"kind: ConfigManagementPlugin\\nmetadata: {name: \\u00e9}\\n\"",
    "  c.yaml: >",
    "spec:",
    "  generate:",
    "    command: [sh, -c]",
    "    args:",
    "    - |",
    "      a | b $ARGOCD_ENV_X \"${PARAM_A:-$(c | d)}\" 'é' # x",
    "      cat <<EOF",
    "  limits: {memory: lots}",
    "  version: 1.0",
    "spec: {generate: {command: [x]}}",
    "x: &a [1, 2]",
    "y: *a",
    "<<: {kind: ConfigManagementPlugin}",
    "---",
    "...",
    "%YAML 1.1",
    "\t",
    "é: {",
    "\u{feff}",
];

/// Checks the properties for one text.
fn check(text: &[u8]) -> Result<(), TestCaseError> {
    let lines = text.split(|&byte| byte == b'\n').count();
    let readings = read_all(text);
    prop_assert!(!readings.is_empty() && readings.len() <= MAX_DEFINITIONS + 1);
    for reading in readings.iter().chain([&read_first(text)]) {
        let errors = reading.diagnostics.iter().filter(|d| d.severity() == Severity::Error);
        prop_assert_eq!(reading.definition.is_none(), errors.count() > 0);
        for region in reading.diagnostics.iter().filter_map(|diagnostic| diagnostic.region) {
            prop_assert!((1..=lines).contains(&region.line), "{region} of {lines} lines");
            prop_assert!(region.column >= 1 && region.end_column > region.column);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_an_end(text in vec(any::<u8>(), 0..300)) {
        check(&text)?;
    }

    #[test]
    fn lines_in_any_order_have_a_verdict_and_places(lines in vec(select(&LINES[..]), 0..30)) {
        check(lines.join("\n").as_bytes())?;
        check(lines.join("\r\n").as_bytes())?;
    }
}
