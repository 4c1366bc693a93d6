//! Warns of names of variables that no shell can read.

use super::MAX_FOUND;
use crate::plugin::{Code, Diagnostic, PluginDefinition, locator::Locator, manifest::Step};

/// Warns of such names in `sandbox.env`. Kubernetes accepts them.
pub(super) fn lint(
    definition: &PluginDefinition,
    locator: &Locator<'_>,
    found: &mut Vec<Diagnostic>,
) {
    let patterns = definition.sandbox.variables.iter().flatten().enumerate();
    let strange = patterns.filter(|(_, pattern)| !pattern.is_of_shell()).take(MAX_FOUND);
    found.extend(strange.map(|(index, _)| {
        Diagnostic::new(Code::VariableName, "no shell can read a variable with this name")
            .at(locator.value(&Step::item("spec.sandbox.env", index)))
            .label("not only letters, digits and `_`")
            .note("commands get the variable of the container with exactly this name, if there is one")
            .help("write the variable's name as the container has it")
    }));
}

#[cfg(test)]
mod tests {
    use crate::plugin::lint::tests::found;

    #[test]
    fn names_that_only_programs_can_read_are_reported() {
        let codes = |env: &str| {
            found(&format!(
                "  discover: {{fileName: x}}\n  generate: {{command: [a]}}\n  sandbox: {{env: [{env}]}}\n"
            ))
        };
        assert_eq!(codes("VAULT_ADDR, AWS_*"), [""; 0]);
        assert_eq!(codes("A, VAULT-ADDR"), ["CMP0325 6:22"]);
    }
}
