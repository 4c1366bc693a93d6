//! Pipes, and searches that write to them.
//!
//! With `pipefail`, such a script fails if nothing matches, although that may be normal.

use super::loops::is_keyword;

/// Most bytes of a command that are read.
const MAX_COMMAND: usize = 1000;

/// A `|` that can hide a failure of its left side.
#[derive(Debug)]
pub(super) struct Pipe {
    /// Its byte offset in the script.
    pub(super) at: usize,
    /// The program before it that fails if nothing matches.
    pub(super) search: Option<&'static str>,
}

impl Pipe {
    /// A pipe after a command. `last` is the last command that has ended before it, which is in
    /// the command if that is a block.
    pub(super) fn new(at: usize, command: &str, last: &str) -> Self {
        let is_block = program(command).is_some_and(|first| {
            first.starts_with('(') || ["}", "done", "fi", "esac"].contains(&first)
        });
        Self { at, search: program(if is_block { last } else { command }).and_then(searcher) }
    }
}

/// The first word of a command.
fn program(command: &str) -> Option<&str> {
    let (head, _) = command.split_at(command.floor_char_boundary(MAX_COMMAND));
    head.split_whitespace().find(|word| !is_keyword(word))
}

fn searcher(program: &str) -> Option<&'static str> {
    let program = program.rsplit('/').next()?;
    ["grep", "egrep", "fgrep", "zgrep"].into_iter().find(|known| *known == program)
}

#[cfg(test)]
mod tests {
    use crate::plugin::lint::script::Script;

    fn search(text: &str) -> Option<&'static str> {
        Script::new(text).search
    }

    #[test]
    fn commands_that_fail_without_a_match_are_known() {
        for (text, expected) in [
            ("grep 'repository:' Chart.yaml | x", "grep"),
            ("x\n  /bin/grep a b | y", "grep"),
            ("x=$(echo $y | egrep a | z)", "egrep"),
            ("LC_ALL=C grep a b | x", "grep"),
            ("if grep a b | x; then y; fi", "grep"),
            ("grep -E 'a|b' c | x", "grep"),
            ("grep \"a;b $(c)\" d | x", "grep"),
            ("{ grep a b; } | x", "grep"),
            ("{\n  a\n  grep b c\n} |\n  x", "grep"),
            ("(cd a && grep \"b\" c) | x", "grep"),
            ("for f in *; do grep a \"$f\"; done | x", "grep"),
        ] {
            assert_eq!(search(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_commands_are_not_searches() {
        for text in [
            "",
            "helm template . | x",
            "grep a b; cat c | x",
            "a | grep b",
            "a grep b | x",
            "xgrep a | x",
            "{ grep a b || [ $? = 1 ]; } | x",
            "{ grep a b; c; } | x",
            "case $x in grep|y) z;; esac; a | b",
        ] {
            assert_eq!(search(text), None, "{text}");
        }
        let within_a_character = format!("{}| x", "ä".repeat(super::MAX_COMMAND));
        assert_eq!(search(&within_a_character), None);
    }
}
