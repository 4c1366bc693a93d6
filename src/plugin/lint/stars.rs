//! Warns of `**` in a pattern for which it is `*`.

use crate::plugin::{
    Code, Diagnostic, Discovery, PluginDefinition, locator::Locator, manifest::Step,
};

/// Warns of `discover.fileName`; in `find.glob`, `**` is any number of directories.
pub(super) fn lint(definition: &PluginDefinition, locator: &Locator<'_>) -> Option<Diagnostic> {
    let Some(Discovery::FileName(pattern)) = &definition.discovery else { return None };
    pattern.as_str().contains("**").then(|| {
        Diagnostic::new(Code::Stars, "`**` in `discover.fileName` is only `*`")
            .at(locator.value(&Step::path("spec.discover.fileName")))
            .label("one directory, not any number")
            .help("use `find: {glob: …}`, in which `**` is any number of directories")
    })
}

#[cfg(test)]
mod tests {
    use crate::plugin::lint::tests::found;

    #[test]
    fn two_stars_are_reported_only_where_they_are_one() {
        let codes = |discover: &str| {
            found(&format!("  discover: {{{discover}}}\n  generate: {{command: [a]}}\n"))
        };
        assert_eq!(codes("fileName: '**/x.cue'"), ["CMP0320 4:24"]);
        assert_eq!(codes("fileName: '*/x.cue'"), [""; 0]);
        assert_eq!(codes("find: {glob: '**/x.cue'}"), [""; 0]);
    }
}
