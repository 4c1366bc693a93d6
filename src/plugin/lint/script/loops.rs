//! Loops that go on after a command has failed.

use super::super::words::is_errexit;

/// First words of commands in a loop whose failure loses no output.
const HARMLESS: [&str; 33] = [
    "echo", "printf", "cat", "yes", ":", "true", "[", "[[", "test", "continue", "break", "case",
    "esac", "fi", "}", "export", "local", "shift", "if", "elif", "set", "unset", "declare",
    "readonly", "read", "eval", "let", "wait", "typeset", "pushd", "popd", "rm", "sleep",
];

/// The loops of a script, found command by command.
#[derive(Debug, Default)]
pub(super) struct Loops {
    /// Loops around the current command.
    depth: usize,
    /// True in the condition of a loop or an `if`.
    is_condition: bool,
    /// The first such command in the current loop. Its end tells if it counts.
    pending: Option<(usize, usize)>,
    /// Start and end of the name of the first command whose failure a loop ignores.
    pub(super) careless: Option<(usize, usize)>,
    /// True if the script ends after a failure, or decides by itself.
    pub(super) is_strict: bool,
}

impl Loops {
    /// Reads a simple command that begins at `start`. It is handled if `&&`, `||` or `&` follows.
    pub(super) fn command(&mut self, text: &str, start: usize, is_handled: bool) {
        self.keywords(text, is_handled);
        let mut words = text.split_whitespace();
        let Some(program) = words.find(|word| !is_block(word) || has_blanks(word)) else {
            return;
        };
        self.is_strict |= ["exit", "return", "trap"].contains(&program);
        if program == "set" {
            let mut options = words.take_while(|word| *word != "--" && !word.starts_with('#'));
            self.is_strict |= options.any(is_errexit);
        }
        let is_checked = is_handled || self.is_condition;
        let is_risky = self.depth > 0 && !is_checked && !is_harmless(program);
        if is_risky && self.pending.is_none() {
            let at = start + (program.as_ptr().addr() - text.as_ptr().addr());
            self.pending = Some((at, at + program.len()));
        }
    }

    /// Reads the keywords at the beginning of a command.
    pub(super) fn keywords(&mut self, text: &str, is_handled: bool) {
        for word in text.split_whitespace() {
            match word.split(['<', '>']).next().unwrap_or_default() {
                "for" | "select" => self.depth += 1,
                "while" | "until" => {
                    self.depth += 1;
                    self.is_condition = true;
                }
                "if" | "elif" => self.is_condition = true,
                "then" | "do" => self.is_condition = false,
                "done" => self.done(is_handled),
                "else" | "!" | "{" | "time" => {}
                _ => break,
            }
        }
    }

    /// Ends a loop. `set -e` has no effect in one that is handled.
    fn done(&mut self, is_handled: bool) {
        self.depth = self.depth.saturating_sub(1);
        if is_handled {
            self.pending = None;
        } else if self.depth == 0 {
            self.careless = self.careless.or(self.pending.take());
        }
    }
}

/// True for keywords and assignments before a command.
pub(super) fn is_keyword(word: &str) -> bool {
    ["if", "then", "else", "elif", "do", "while", "until", "!", "{", "time"].contains(&word)
        || word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        })
}

/// True for words before a command in a block.
fn is_block(word: &str) -> bool {
    is_keyword(word) && !["if", "elif", "while", "until"].contains(&word)
}

/// True for the beginning of an assignment whose value may have blanks.
fn has_blanks(word: &str) -> bool {
    word.contains('=') && word.contains(['(', '`', '"', '\''])
}

fn is_harmless(program: &str) -> bool {
    let is_head = ["for", "while", "until", "select", "done", "#"];
    HARMLESS.contains(&program)
        || is_head.iter().any(|head| program.starts_with(head))
        || program.contains(['=', '('])
        || !program
            .starts_with(|first: char| first.is_ascii_alphanumeric() || "./$\"".contains(first))
}

#[cfg(test)]
mod tests {
    use crate::plugin::lint::script::Script;

    fn careless(text: &str) -> Option<&str> {
        Script::new(text).careless.map(|(start, end)| &text[start..end])
    }

    #[test]
    fn a_loop_without_errexit_ignores_failures() {
        for text in [
            "for f in *.yaml; do sops -d \"$f\"; done",
            "for f in $(find . -name '*.yaml'); do\n  if grep -q sops: \"$f\"; then\n    sops -d \"$f\"\n  \
             else\n    cat \"$f\"\n  fi\ndone\n",
            "find . | while read -r f; do sops -d $f; done",
            "while read -r f; do echo ---; sops -d $f; done < list",
            "for f in *; do case $f in *.enc.yaml) sops -d \"$f\" ;; *) cat \"$f\" ;; esac; done",
            "set -u\nfor f in *; do # all\n sops -d \"$f\" 2>&1; done",
            "set -- --values x; for f in *; do sops -d \"$f\"; done",
            "set -u -- -e; for f in *; do sops -d \"$f\"; done",
            "set -u # -e\nfor f in *; do sops -d \"$f\"; done",
            "for f in *; do sops -d \"$f\"; done>all; cat all",
            "for d in *; do for f in $d/*; do cat \"$f\"; done; sops -d $d; done || true\n\
             for f in *; do sops -d \"$f\"; done | cat",
        ] {
            assert_eq!(careless(text), Some("sops"), "{text}");
        }
    }

    #[test]
    fn other_loops_are_not_reported() {
        for text in [
            "set -eu\nfor f in *; do sops -d \"$f\"; done",
            "set -o errexit; for f in *; do sops -d \"$f\"; done",
            "for f in *; do sops -d \"$f\" || exit 1; done",
            "for f in *; do if ! sops -d \"$f\"; then exit 1; fi; done",
            "for f in *; do sops -d \"$f\" 2>/dev/null || cat \"$f\"; echo '---'; done",
            "for f in *; do grep -q x \"$f\" 2>&1 && cat \"$f\"; done",
            "for f in *; do ARGS=\"$ARGS -f $f\"; done; helm template . $ARGS",
            "for f in *; do cat \"$f\"; done",
            "sops -d a\nhelm template .",
            "echo 'for f in *; do sops -d; done'",
            "x=$(for f in *; do sops -d \"$f\"; done)",
            "for f in *; do name=$(echo \"$f\" | cut -c1); A='a b' B=\"$(c)\"; done",
            "for f in *; do if test -f x && grep -q a \"$f\"; then cat \"$f\"; fi; done",
            "for f in *; do cat \"$f\" | sed s/a/b/; done",
            "for f in *; do set -- \"$@\" -f \"$f\"; done; helm template . \"$@\"",
            "while ! helm dependency build; do sleep 5; done",
            "until helm dependency build; do sleep 1; done; helm template .",
            "for f in *; do read -r a; eval \"$a\"; unset a; rm -f \"$f\"; done",
            "test -d charts || exit 1; for f in *; do sops -d \"$f\"; done",
            "test -d charts || { echo none; exit 1; }; for f in *; do sops -d \"$f\"; done",
            "for f in *; do sops -d \"$f\"; done || exit 1",
            "for f in *; do sops -d \"$f\"; done 2>/dev/null || false",
            "for f in *; do sops -d \"$f\"; done && helm template .",
            "for f in *; do sops -d \"$f\" & done; wait",
            "for f in *; do cat \"$f\"; done | sort; helm template .",
        ] {
            assert_eq!(careless(text), None, "{text}");
        }
    }

    #[test]
    fn many_words_are_read_once() {
        assert_eq!(careless(&"set ".repeat(300_000)), None);
    }
}
