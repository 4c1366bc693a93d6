//! Loops that go on after a command has failed.

use super::reader::is_keyword;

/// First words of commands in a loop whose failure loses no output.
const HARMLESS: [&str; 20] = [
    "echo", "printf", "cat", "yes", ":", "true", "[", "[[", "test", "continue", "break", "case",
    "esac", "fi", "}", "export", "local", "shift", "if", "elif",
];

/// The loops of a script, found command by command.
#[derive(Debug, Default)]
pub(super) struct Loops {
    /// Loops around the current command.
    depth: usize,
    /// True in the condition of a loop or an `if`.
    is_condition: bool,
    /// Start and end of the name of the first command whose failure a loop ignores.
    pub(super) careless: Option<(usize, usize)>,
    /// True if the script ends after a failure, or decides by itself.
    pub(super) is_strict: bool,
}

impl Loops {
    /// Reads a simple command that begins at `start`. It is handled if `&&` or `||` follows.
    pub(super) fn command(&mut self, text: &str, start: usize, is_handled: bool) {
        let words = || text.split_whitespace();
        for word in words() {
            match word {
                "for" | "select" => self.depth += 1,
                "while" | "until" => {
                    self.depth += 1;
                    self.is_condition = true;
                }
                "if" | "elif" => self.is_condition = true,
                "then" | "do" => self.is_condition = false,
                "done" => self.depth = self.depth.saturating_sub(1),
                "set" => self.is_strict |= words().any(is_errexit),
                "else" | "!" | "{" | "time" => {}
                _ => break,
            }
        }
        let Some(program) = words().find(|word| !is_block(word) || has_blanks(word)) else {
            return;
        };
        self.is_strict |= ["exit", "return", "trap"].contains(&program);
        let is_checked = is_handled || self.is_condition;
        let is_risky = self.depth > 0 && !is_checked && !is_harmless(program);
        if is_risky && self.careless.is_none() {
            let at = start + (program.as_ptr().addr() - text.as_ptr().addr());
            self.careless = Some((at, at + program.len()));
        }
    }
}

fn is_errexit(word: &str) -> bool {
    word == "errexit" || word.strip_prefix('-').is_some_and(|letters| letters.contains('e'))
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
        ] {
            assert_eq!(careless(text), None, "{text}");
        }
    }
}
