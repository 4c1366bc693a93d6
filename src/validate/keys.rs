//! Definitions under keys of a `ConfigMap` that `serve` ignores once they are mounted as files.

use std::collections::BTreeSet;

use crate::{
    loader::is_definition,
    plugin::{Code, Diagnostic, Problem, Reading},
};

/// One warning for each such key of a file.
pub(super) fn ignored(file: &str, readings: &[Reading]) -> Vec<Problem> {
    let mut seen = BTreeSet::new();
    let defined = readings.iter().filter(|reading| reading.definition.is_some());
    let warning = |reading: &Reading| {
        let (key, place) = reading.place.key().filter(|(key, _)| !is_definition(key))?;
        if !seen.insert(place.clone()) {
            return None;
        }
        let text = format!("the key `{key}` is mounted as a file that `serve` ignores");
        let problem = Diagnostic::new(Code::IgnoredKey, text)
            .at(reading.name_region)
            .label("not served")
            .note(
                "its name does not end in .yaml, .yml or .json; `items` or `subPath` of the volume \
                 can give it another name",
            )
            .help(format!("rename the key to `{key}.yaml`"));
        Some(Problem { file: file.to_owned(), place, stale: false, problem })
    };
    defined.filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::read_all;

    fn warnings(text: &str) -> Vec<String> {
        let problems = ignored("cm.yaml", &read_all(text.as_bytes()));
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_key_without_the_extension_of_a_definition_has_one_warning() {
        let plugin = |name: &str| {
            format!(
                "'{{kind: ConfigManagementPlugin, metadata: {{name: {name}}}, spec: {{generate: {{command: [x]}}}}}}'"
            )
        };
        let one = plugin("one");
        let map = |key: &str| format!("kind: ConfigMap\ndata:\n  {key}: {one}\n");
        for served in ["plugin.yaml", "one.yml", "one.json"] {
            assert!(warnings(&map(served)).is_empty(), "{served}");
        }
        assert!(warnings("kind: ConfigMap\ndata: {run.sh: echo}\n").is_empty());
        let found = warnings(&format!("{}---\n{}", map("greet"), map("greet")));
        let text = ": CMP0409: the key `greet` is mounted as a file that `serve` ignores";
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|found| found.ends_with(text)), "{found:?}");
        let several = "kind: ConfigMap\ndata:\n  greet: |\n    KIND\n    ---\n    KIND\n";
        let several = several.replace("KIND", plugin("one").trim_matches('\''));
        assert_eq!(warnings(&several).len(), 1);
    }
}
