//! Warns of fixed paths in directories of temporary files.

mod written;

use self::written::is_written;
use super::words::Word;
use crate::plugin::{Code, Diagnostic, PluginDefinition, locator::Locator};

/// Directories that everybody may write to, in which requests may not.
const DIRECTORIES: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Most bytes of a path to show.
const MAX_SHOWN: usize = 60;

/// Warns of the first such path in the words of a command.
pub(super) fn lint(
    definition: &PluginDefinition,
    words: &[Word<'_>],
    locator: &Locator<'_>,
) -> Option<Diagnostic> {
    let is_read = |path: &str| definition.sandbox.read.iter().any(|read| path.starts_with(read));
    let previous = std::iter::once("").chain(words.iter().map(|word| word.text));
    let found = words.iter().zip(previous).find_map(|(word, previous)| {
        let paths = fixed_paths(word.text, previous);
        let (start, path) = paths.into_iter().find(|(_, path)| !is_read(path))?;
        Some((word, start, path))
    });
    let (word, start, path) = found?;
    let part = |node| locator.part(node, start, start + path.len());
    let region =
        locator.node(&word.path).map_or_else(|| locator.value(&word.path), |node| Some(part(node)));
    Some(shared_path(path).at(region))
}

/// Offset and text of the first such path in a script.
pub(crate) fn fixed_path(script: &str) -> Option<(usize, &str)> {
    fixed_paths(script, "").into_iter().next()
}

/// The warning of a path.
pub(in crate::plugin) fn shared_path(path: &str) -> Diagnostic {
    let shown: String = path.chars().take(MAX_SHOWN).collect();
    let help = if is_directory(path) {
        "\"$TMPDIR\" is private to the request, and init and generate share it; spec.sandbox.caches keeps a directory for later requests".to_owned()
    } else {
        let name = last(path);
        format!(
            "\"$TMPDIR/{name}\" is private to the request, and init and generate share it; a path to read belongs in spec.sandbox.read"
        )
    };
    Diagnostic::new(Code::SharedPath, format!("the fixed path {shown}"))
        .label("requests cannot share files here")
        .note("with isolation `uid` and `landlock`, permission is denied; with `namespaces`, /tmp and /dev/shm are private and empty for each command, and /var/tmp does not exist")
        .help(help)
}

/// True for one of the directories themselves.
fn is_directory(path: &str) -> bool {
    DIRECTORIES.contains(&path.trim_end_matches('/'))
}

/// The last component of a path.
fn last(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// Offsets and texts of the paths below directories in a script, without those in comments.
/// Each directory ends with a slash.
pub(crate) fn paths<'t>(text: &'t str, directories: &[&str]) -> Vec<(usize, &'t str)> {
    find(text, directories, |directory, _, rest| {
        let path = rest.get(..length(rest))?;
        (path.len() > directory.len()).then_some(path)
    })
}

/// Offsets and texts of the fixed paths in a script. `previous` is the word of the command
/// before it.
fn fixed_paths<'t>(text: &'t str, previous: &str) -> Vec<(usize, &'t str)> {
    find(text, &DIRECTORIES, |_, before, rest| fixed(previous, before, rest))
}

/// Looks at each place outside comments where a path with one of these beginnings stands, until
/// `choose` takes a path: once in a line for each beginning. It gets the beginning, and the line
/// before and from the path on.
fn find<'t>(
    text: &'t str,
    beginnings: &[&str],
    choose: impl Fn(&str, &'t str, &'t str) -> Option<&'t str>,
) -> Vec<(usize, &'t str)> {
    let code = text.split_inclusive('\n').filter(|line| !line.trim_start().starts_with('#'));
    let mut found = Vec::new();
    for line in code {
        let offset = line.as_ptr().addr() - text.as_ptr().addr();
        found.extend(beginnings.iter().filter_map(|beginning| {
            let mut places = line.match_indices(beginning).filter(|(at, _)| begins(line, *at));
            places.find_map(|(at, _)| {
                let (before, rest) = line.split_at_checked(at)?;
                Some((offset + at, choose(beginning, before, rest)?))
            })
        }));
    }
    found
}

/// The path at the beginning of `rest`, if it is below a directory of temporary files, or is one
/// to which the command writes.
fn fixed<'l>(previous: &str, before: &str, rest: &'l str) -> Option<&'l str> {
    let (path, after) = rest.split_at_checked(length(rest))?;
    if is_directory(path) {
        return is_written(previous, before, after).then_some(path);
    }
    let directory = DIRECTORIES.iter().find_map(|directory| path.strip_prefix(directory));
    directory.filter(|below| below.starts_with('/')).map(|_| path)
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
        fixed_paths(text, "").into_iter().map(|(_, path)| path).collect()
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
        assert_eq!(fixed_paths("a\nb >/tmp/c", "")[0].0, 5);
    }

    #[test]
    fn a_directory_counts_if_a_command_writes_to_it() {
        for text in [
            "export KCL_CACHE_PATH=/tmp\n",
            "TMPDIR=/tmp helm template",
            "X='/tmp'",
            "if true; then cd /tmp; fi",
            "mktemp -d -p /tmp",
            "helm pull x --untardir /tmp",
            "helm pull x --untardir=\"/tmp\"",
            "tar -x -C /tmp/",
            "cp -r . /tmp && x",
            "mv x /tmp/ 2>/dev/null",
            "ls /tmp; cd /tmp",
        ] {
            let [path] = found(text)[..] else { panic!("{text}: {:?}", found(text)) };
            assert_eq!(path.trim_end_matches('/'), "/tmp", "{text}");
        }
        assert_eq!(fixed_paths("/tmp", "--cache-dir")[0].0, 0);
        assert_eq!(found("ls /tmp >/tmp/x"), ["/tmp/x"]);
        for fine in [
            "TMPDIR=${TMPDIR:-/tmp}",
            "X=\"${TMPDIR:=/tmp}\"",
            "[ -d /tmp ]",
            "[ \"$PWD\" = /tmp ]",
            "cp -r /tmp .",
            "find /tmp -name x",
            "mkdir -p /tmp",
            "PATH=/tmp:$PATH",
            "cd /tmpfs",
            "X=/tmp-x",
        ] {
            assert_eq!(found(fine), [""; 0], "{fine}");
        }
        assert!(fixed_paths("/tmp", "ls").is_empty());
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
            "# writes /tmp/x",
            "/srv/tmp/x",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
