//! Warns of fixed paths in directories of temporary files.

use super::words::Word;
use crate::plugin::{Code, Diagnostic, PluginDefinition, locator::Locator};

/// Directories that everybody may write to, in which requests may not.
const DIRECTORIES: [&str; 3] = ["/tmp/", "/var/tmp/", "/dev/shm/"];

/// Most bytes of a path to show.
const MAX_SHOWN: usize = 60;

/// Warns of the first such path in the words of a command.
pub(super) fn lint(
    definition: &PluginDefinition,
    words: &[Word<'_>],
    locator: &Locator<'_>,
) -> Option<Diagnostic> {
    let is_read = |path: &str| definition.sandbox.read.iter().any(|read| path.starts_with(read));
    let found = words.iter().find_map(|word| {
        let paths = paths(word.text, &DIRECTORIES);
        let (start, path) = paths.into_iter().find(|(_, path)| !is_read(path))?;
        Some((word, start, path))
    });
    let (word, start, path) = found?;
    let part = |node| locator.part(node, start, start + path.len());
    let region =
        locator.node(&word.path).map_or_else(|| locator.value(&word.path), |node| Some(part(node)));
    let shown: String = path.chars().take(MAX_SHOWN).collect();
    let name = last(path);
    Some(
        Diagnostic::new(Code::SharedPath, format!("the fixed path {shown}"))
            .at(region)
            .label("requests cannot share files here")
            .note("with isolation `uid` and `landlock`, permission is denied; with `namespaces`, the directory is private and empty for each command")
            .help(format!("\"$TMPDIR/{name}\" is private to the request, and init and generate share it; a path to read belongs in spec.sandbox.read")),
    )
}

/// The last component of a path.
fn last(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// Offsets and texts of the paths below directories in a script, without those in comments.
/// Each directory ends with a slash.
pub(crate) fn paths<'t>(text: &'t str, directories: &[&str]) -> Vec<(usize, &'t str)> {
    let lines = text.split_inclusive('\n');
    let code = lines.filter(|line| !line.trim_start().starts_with('#'));
    code.flat_map(|line| {
        let offset = line.as_ptr().addr() - text.as_ptr().addr();
        directories.iter().filter_map(move |directory| {
            let at = line.match_indices(directory).find(|(at, _)| begins(line, *at))?.0;
            let rest = line.get(at..)?;
            let end = length(rest);
            (end > directory.len()).then(|| Some((offset + at, rest.get(..end)?)))?
        })
    })
    .collect()
}

/// True if a path begins here, and is no part of another one such as `$TMPDIR/tmp/`.
fn begins(line: &str, at: usize) -> bool {
    let before = line.get(..at).and_then(|text| text.chars().next_back());
    before.is_none_or(|last| last.is_whitespace() || "\"'=<>(;&|,:".contains(last))
}

/// Length in bytes of the path at the beginning of a text, with variables such as `${NAME}`.
fn length(text: &str) -> usize {
    let mut is_open = false;
    let ends = |next: char| {
        let closes = next == '}' && is_open;
        is_open = next == '{' || is_open && !closes;
        !closes && (next.is_whitespace() || "\"'<>();&|,`}".contains(next))
    };
    text.find(ends).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        paths(text, &DIRECTORIES).into_iter().map(|(_, path)| path).collect()
    }

    #[test]
    fn fixed_paths_are_found() {
        for (text, expected) in [
            ("helm template . > /tmp/all.yaml", "/tmp/all.yaml"),
            ("kustomize build --output=/tmp/out", "/tmp/out"),
            ("cat '/var/tmp/a b'", "/var/tmp/a"),
            ("x=$(mktemp /dev/shm/x.XXXX)", "/dev/shm/x.XXXX"),
            ("/tmp/tools/helm", "/tmp/tools/helm"),
            ("{ x > /tmp/${A}-${B}.yaml; }", "/tmp/${A}-${B}.yaml"),
            ("{cp,/tmp/x}", "/tmp/x"),
        ] {
            assert_eq!(found(text), [expected], "{text}");
        }
        assert_eq!(paths("a\nb >/tmp/c", &DIRECTORIES)[0].0, 5);
    }

    #[test]
    fn the_last_component_may_end_with_a_slash() {
        assert_eq!((last("/tmp/a/b"), last("/tmp/plugin/")), ("b", "plugin"));
    }

    #[test]
    fn other_paths_are_not() {
        for text in [
            "\"$TMPDIR/tmp/x\"",
            "\"${TMPDIR:-/tmp}/x\"",
            "ls /tmp/",
            "cd /tmp",
            "# writes /tmp/x",
            "/srv/tmp/x",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
