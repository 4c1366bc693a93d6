//! Warns of an amount of processors where an amount of their time is expected.

use serde_json::Value;

use crate::{
    plugin::{Code, Diagnostic, locator::Locator, manifest::Step},
    settings::CPU,
};

/// Most minutes that nobody takes for thousandths of a processor.
const USUAL: u64 = 60;

/// Warns of `limits.cpu: 500m`, as `resources` of a container has it. `value` is the definition's
/// JSON.
pub(super) fn lint(value: &Value, locator: &Locator<'_>) -> Option<Diagnostic> {
    let text = value.pointer("/spec/limits/cpu")?.as_str()?;
    let minutes: u64 = text.strip_suffix('m')?.parse().ok()?;
    (minutes > USUAL).then(|| {
        let time = CPU.say(minutes.saturating_mul(60));
        Diagnostic::new(Code::Processors, format!("`cpu: {text}` is {minutes} minutes"))
            .at(locator.value(&Step::path("spec.limits.cpu")))
            .label("minutes, not thousandths of a processor")
            .note("spec.limits.cpu limits the CPU time of each process")
            .help(format!("write {time} if you mean this time; otherwise remove the key, or write less time, such as 5m"))
    })
}

#[cfg(test)]
mod tests {
    use crate::plugin::lint::tests::found;

    #[test]
    fn only_minutes_like_thousandths_of_a_processor_are_reported() {
        for (cpu, is_found) in [
            ("500m", true),
            ("61m", true),
            ("60m", false),
            ("8h20m", false),
            ("500s", false),
            ("unlimited", false),
        ] {
            let spec = format!(
                "  discover: {{fileName: x}}\n  generate: {{command: [a]}}\n  limits: {{cpu: {cpu}}}\n"
            );
            let expected: &[&str] = if is_found { &["CMP0321 6:17"] } else { &[] };
            assert_eq!(found(&spec), expected, "{cpu}");
        }
    }
}
