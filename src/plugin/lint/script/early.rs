//! Readers of a pipe that may end before the command that writes to it.
//!
//! With `pipefail`, such a script fails although nothing is wrong: the command before
//! the pipe ends with SIGPIPE.

use super::loops::is_keyword;

/// Most bytes of a command that are read.
const MAX_COMMAND: usize = 1000;

/// The program at the beginning of a text after a pipe, if it may end early.
pub(super) fn early_reader(text: &str) -> Option<&'static str> {
    let command = command(text);
    let mut words = command.split_whitespace().map(|word| word.trim_matches(['\'', '"']));
    let mut is_loop = false;
    let program = words.find(|word| {
        // `while read line` reads to the end.
        is_loop |= ["while", "until"].contains(word);
        !is_keyword(word) && !word.contains('=')
    });
    let program = program.filter(|_| !is_loop)?;
    let program = program.rsplit('/').next().unwrap_or_default();
    let mut rest = words.filter(|word| !word.is_empty());
    match program {
        "head" => Some("head"),
        "read" => Some("read"),
        "grep" | "egrep" | "fgrep" | "zgrep" => rest.any(stops_grep).then_some("grep"),
        "sed" | "gsed" => rest.any(stops_sed).then_some("sed"),
        "awk" | "gawk" | "mawk" => rest.any(|word| word.contains("exit")).then_some("awk"),
        _ => None,
    }
}

/// True for options after which grep ends with the first or one of the first matches.
fn stops_grep(word: &str) -> bool {
    let is_short = word.starts_with('-') && !word.starts_with("--");
    ["--quiet", "--silent", "--files-with-matches"].contains(&word)
        || word.starts_with("--max-count")
        || is_short && word.contains(['q', 'l', 'm'])
}

/// True for scripts that end with the command `q`, such as `5q` or `/x/{p;q;}`.
fn stops_sed(word: &str) -> bool {
    let script = word.trim_end_matches([';', '}', ' ']);
    let end = script.strip_suffix(['q', 'Q']);
    end.is_some_and(|before| before.is_empty() || before.ends_with(|c: char| !c.is_alphabetic()))
}

/// The simple command at the beginning of a text.
fn command(text: &str) -> &str {
    let text = text.trim_start();
    let mut quote = None;
    let is_end = |(_, c): &(usize, char)| match (quote, c) {
        (None, '\'' | '"') => {
            quote = Some(*c);
            false
        }
        (Some(open), c) => {
            if open == *c {
                quote = None;
            }
            false
        }
        (None, c) => "\n;|&)`".contains(*c),
    };
    let end = text.char_indices().take(MAX_COMMAND).find(is_end);
    text.get(..end.map_or(text.len(), |(at, _)| at)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_that_may_end_before_the_end_are_known() {
        for (text, expected) in [
            (" head -1", "head"),
            (" /usr/bin/head -n 1)\nx", "head"),
            ("\n  head", "head"),
            (" grep -q x; then", "grep"),
            (" LC_ALL=C grep -Eq 'a|b' && y", "grep"),
            (" grep --max-count=1 x", "grep"),
            (" sed q", "sed"),
            (" sed -n '/x/{p;q;}'", "sed"),
            (" sed 5q | x", "sed"),
            (" awk '/x/ {print; exit}'", "awk"),
            (" { read x; }", "read"),
        ] {
            assert_eq!(early_reader(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn readers_of_everything_are_no_early_ones() {
        for text in [
            " envsubst",
            " tail -1",
            " grep x | head -1",
            " grep -v quiet",
            " sed s/a/seq/",
            " sed -e 's/q/x/'",
            " awk '{print $1}'",
            " envsubst; head",
            " yq '. | head'",
            " while read x; do",
            " while IFS= read -r x",
            "",
        ] {
            assert_eq!(early_reader(text), None, "{text}");
        }
    }
}
