//! Warns of programs and files in the directory of the sockets.

use super::{scratch::paths, words::Word};
use crate::plugin::{Code, DEFAULT_SOCKET_DIR, Diagnostic, locator::Locator};

/// Warns of the first such path in the words of a command.
pub(super) fn lint(words: &[Word<'_>], locator: &Locator<'_>) -> Option<Diagnostic> {
    let directory = format!("{DEFAULT_SOCKET_DIR}/");
    let (word, start, path) = words.iter().find_map(|word| {
        let (start, path) = paths(word.text, &[&directory]).into_iter().next()?;
        Some((word, start, path))
    })?;
    let part = |node| locator.part(node, start, start + path.len());
    let region =
        locator.node(&word.path).map_or_else(|| locator.value(&word.path), |node| Some(part(node)));
    let name = path.rsplit('/').next().unwrap_or_default();
    Some(
        Diagnostic::new(Code::Sockets, "a path in the directory of the sockets")
            .at(region)
            .label("no plugin may read this directory")
            .help(format!("put `{name}` into another directory, such as /opt, and name that")),
    )
}

#[cfg(test)]
mod tests {
    use crate::plugin::lint::tests::found;

    #[test]
    fn a_program_beside_the_sockets_is_reported_at_its_path() {
        let codes = |script: &str| {
            found(&format!(
                "  discover: {{fileName: x}}\n  generate: {{command: [sh, -c, '{script}']}}\n"
            ))
        };
        assert_eq!(codes("x; /home/argocd/cmp-server/plugins/tk show"), ["CMP0323 5:36"]);
        for fine in
            ["ls /home/argocd/cmp-server/plugins.d/x", "/a/home/argocd/cmp-server/plugins/x"]
        {
            assert_eq!(codes(fine), [""; 0], "{fine}");
        }
    }
}
