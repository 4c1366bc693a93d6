//! The shell that sets variables before a command, as `migrate` writes it.

use std::collections::BTreeMap;

use super::definition::CommandLine;

const SHELL: &str = "sh";
const OPTION: &str = "-c";

/// The script around the variables.
const BEGIN: &str = "export ";
const END: &str = "; exec \"$@\"";

/// The variable with the directories of programs, and a reference to it.
const PATH: &str = "PATH";
const OLD_PATH: &str = "$PATH";

/// The command that such a shell becomes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrapped<'l> {
    /// The program as written.
    pub(crate) program: &'l str,
    /// The value that the shell gives to `PATH`.
    path: Option<&'l str>,
}

/// The words before those of a command that sees these variables. The shell reads the values
/// between double quotes.
pub(crate) fn wrapper(exports: &BTreeMap<String, String>) -> [String; 4] {
    let pairs: Vec<_> = exports.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    let script = format!("{BEGIN}{}{END}", pairs.join(" "));
    [SHELL.to_owned(), OPTION.to_owned(), script, SHELL.to_owned()]
}

impl CommandLine {
    /// The command behind such a shell.
    pub(crate) fn wrapped(&self) -> Option<Wrapped<'_>> {
        let words: Vec<_> = self.words().take(5).collect();
        let [SHELL, OPTION, script, SHELL, program] = words[..] else { return None };
        let exports = exports(script.strip_prefix(BEGIN)?.strip_suffix(END)?)?;
        let path = exports.into_iter().find_map(|(name, value)| (name == PATH).then_some(value));
        Some(Wrapped { program, path })
    }
}

impl Wrapped<'_> {
    /// The directories in which the program is looked for, with `search` as those of the shell.
    /// `None` if they depend on another variable.
    pub(crate) fn search(&self, search: &[u8]) -> Option<Vec<u8>> {
        let Some(path) = self.path else { return Some(search.to_vec()) };
        let (own, rest) =
            path.strip_suffix(OLD_PATH).map_or((path, &b""[..]), |before| (before, search));
        let is_plain = !own.contains(['$', '`', '\\']);
        is_plain.then(|| [own.as_bytes(), rest].concat())
    }
}

/// The variables of `A="a" B="b"`; `None` for a text of another form.
fn exports(text: &str) -> Option<Vec<(&str, &str)>> {
    let (mut rest, mut found) = (text, Vec::new());
    loop {
        let (name, after) = rest.split_once("=\"")?;
        let (value, after) = after.split_once('"')?;
        found.push((name, value));
        if after.is_empty() {
            return Some(found);
        }
        rest = after.strip_prefix(' ')?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> CommandLine {
        CommandLine::new(words.iter().map(|&word| word.to_owned()).collect(), Vec::new()).unwrap()
    }

    fn wrapped_with(exports: &[(&str, &str)]) -> CommandLine {
        let exports = exports.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let words = wrapper(&exports.collect());
        line(&[&words.each_ref().map(String::as_str)[..], &["helm", "template"]].concat())
    }

    #[test]
    fn the_program_is_looked_for_where_the_shell_looks() {
        for (exports, expected) in [
            (&[("A", "$B_A")][..], Some("/bin")),
            (&[("A", "$B_A"), ("PATH", "/tools:$PATH")], Some("/tools:/bin")),
            (&[("PATH", "/tools")], Some("/tools")),
            (&[("PATH", "/tools:$B_PATH")], None),
        ] {
            let line = wrapped_with(exports);
            let wrapped = line.wrapped().unwrap();
            assert_eq!(wrapped.program, "helm");
            let search = wrapped.search(b"/bin").map(|found| String::from_utf8(found).unwrap());
            assert_eq!(search.as_deref(), expected, "{exports:?}");
        }
    }

    #[test]
    fn other_scripts_are_not_looked_through() {
        for words in [
            &["sh", "-c", "export A=\"a\"; exec \"$@\"", "sh"][..],
            &["sh", "-c", "export A=\"a\"; exec \"$@\"", "bash", "helm"],
            &["bash", "-c", "export A=\"a\"; exec \"$@\"", "sh", "helm"],
            &["sh", "-c", "export A=a; exec \"$@\"", "sh", "helm"],
            &["sh", "-c", "export A=\"a\"; cd x; exec \"$@\"", "sh", "helm"],
            &["sh", "-c", "exec \"$@\"", "sh", "helm"],
            &["helm", "template"],
        ] {
            assert_eq!(line(words).wrapped(), None, "{words:?}");
        }
    }
}
