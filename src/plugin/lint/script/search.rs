//! Searches that write to a pipe.
//!
//! With `pipefail`, such a script fails if nothing matches, although that may be normal.

use super::loops::is_keyword;

/// Most bytes before a pipe that are read.
const MAX_COMMAND: usize = 1000;

/// The program of the last command in a text before a pipe, if it fails without a match.
pub(super) fn searcher(text: &str) -> Option<&'static str> {
    let start = text.len().saturating_sub(MAX_COMMAND);
    let text = (start..text.len()).find_map(|at| text.get(at..))?;
    let command = text.trim_end().rsplit(['\n', ';', '|', '&', '(', '`']).next()?;
    let mut words = command.split_whitespace();
    let program = words.find(|word| !is_keyword(word))?;
    let program = program.rsplit('/').next().unwrap_or_default();
    ["grep", "egrep", "fgrep", "zgrep"].into_iter().find(|known| *known == program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_fail_without_a_match_are_known() {
        for (text, expected) in [
            ("grep 'repository:' Chart.yaml ", "grep"),
            ("x\n  /bin/grep a b", "grep"),
            ("x=$(echo $y | egrep a ", "egrep"),
            ("LC_ALL=C grep a b ", "grep"),
            ("if grep a b ", "grep"),
        ] {
            assert_eq!(searcher(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_commands_are_not_searches() {
        for text in ["", "helm template . ", "grep a b; cat c ", "echo grep ", "xgrep a "] {
            assert_eq!(searcher(text), None, "{text}");
        }
        let within_a_character = format!("{}|", "ä".repeat(MAX_COMMAND));
        assert_eq!(searcher(&within_a_character), None);
    }
}
