//! Warns of `**` and braces in a pattern for which they have no meaning.

use crate::plugin::{
    Code, Diagnostic, Discovery, PluginDefinition, locator::Locator, manifest::Step,
};

/// Warns of `discover.fileName`; in `find.glob`, `**` is any number of directories, and `{a,b}`
/// is a choice.
pub(super) fn lint(definition: &PluginDefinition, locator: &Locator<'_>) -> Vec<Diagnostic> {
    let Some(Discovery::FileName(pattern)) = &definition.discovery else { return Vec::new() };
    let at = |diagnostic: Diagnostic| {
        diagnostic.at(locator.value(&Step::path("spec.discover.fileName")))
    };
    let stars = pattern.as_str().contains("**").then(|| {
        at(Diagnostic::new(Code::Stars, "`**` in `discover.fileName` is only `*`"))
            .label("one directory, not any number")
            .help("use `find: {glob: …}`, in which `**` is any number of directories")
    });
    let braces = is_choice(pattern.as_str()).then(|| {
        let text = "braces in `discover.fileName` match only file names with braces";
        at(Diagnostic::new(Code::Braces, text))
            .label("not a choice")
            .help("use `find: {glob: …}`, in which `{a,b}` is `a` or `b`")
    });
    stars.into_iter().chain(braces).collect()
}

/// True for a text such as `x.{yaml,yml}`.
fn is_choice(pattern: &str) -> bool {
    let inside = pattern.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    inside.is_some_and(|(inside, _)| inside.contains(','))
}

#[cfg(test)]
mod tests {
    use crate::plugin::lint::tests::found;

    #[test]
    fn syntax_of_find_glob_is_reported_in_file_name_only() {
        let codes = |discover: &str| {
            found(&format!("  discover: {{{discover}}}\n  generate: {{command: [a]}}\n"))
        };
        assert_eq!(codes("fileName: '**/x.cue'"), ["CMP0320 4:24"]);
        assert_eq!(codes("fileName: 'x.{yaml,yml}'"), ["CMP0324 4:24"]);
        assert_eq!(codes("fileName: '**/{a,b}'"), ["CMP0320 4:24", "CMP0324 4:24"]);
        for fine in [
            "fileName: '*/x.cue'",
            "fileName: '{x}.yaml'",
            "fileName: 'a}b,c{d'",
            "find: {glob: '**/x.{cue,yaml}'}",
        ] {
            assert_eq!(codes(fine), [""; 0], "{fine}");
        }
    }
}
