//! Finds risky pipelines, loops and variables in a shell script.
//!
//! This is not a full shell parser. It knows quotes, substitutions, comments and
//! here-documents. It may miss problems, to avoid false warnings.

mod early;
mod level;
mod loops;
mod reader;
mod search;

use self::{early::early_reader, loops::is_keyword, reader::ScriptReader, search::Pipe};
use crate::plugin::{Code, Diagnostic};

/// Most bytes of a command that are searched for its first word: each use of a variable
/// searches again.
const MAX_HEAD: usize = 200;

/// A use of a variable that a user sets, whose value the shell splits into words or runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unquoted {
    pub(super) name: String,
    /// Byte offset of its `$` in the script.
    pub(super) start: usize,
    pub(super) end: usize,
    /// True if `eval` runs the value, also in quotes.
    pub(super) is_evaluated: bool,
}

impl Unquoted {
    /// The warning, without its place.
    pub(super) fn diagnostic(&self, script: &str) -> Diagnostic {
        const ARRAY: &str = "if it holds several options, take an array parameter instead";
        let name = &self.name;
        if self.is_evaluated {
            return Diagnostic::new(Code::Unquoted, format!("`{name}` in `eval`"))
                .label("the shell runs this value as commands, also in quotes")
                .note("anyone who can edit the Application can run any command")
                .help(format!("call the program without `eval`; {ARRAY}"));
        }
        let written = script.get(self.start..self.end).unwrap_or_default();
        let inner = written.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        // An operator has a reason: `${X:-}` allows `set -u`.
        let help = match inner {
            Some(inner) if inner.contains(['$', '{', '"', '\'', '`', '\\']) => {
                "put double quotes around the whole `${…}`".to_owned()
            }
            Some(_) => format!("write \"{written}\""),
            None => format!("write \"${{{name}}}\""),
        };
        Diagnostic::new(Code::Unquoted, format!("`{name}` without quotes"))
            .label("the shell splits this value into words")
            .note("anyone who can edit the Application can add options to the command")
            .help(format!("{help}; {ARRAY}"))
    }
}

/// True if a command begins with `eval`, also as the first one of a function. Words in quotes do
/// not count.
fn is_eval(command: &[u8]) -> bool {
    let head = String::from_utf8_lossy(command.get(..MAX_HEAD).unwrap_or(command));
    let is_closed = |quote| move |word: &&str| word.matches(quote).count() % 2 == 0;
    let words = head.split_whitespace().take_while(is_closed('"')).take_while(is_closed('\''));
    let words: Vec<_> = words.collect();
    let begins_body = |word: &&str| *word == "{" || word.ends_with("(){");
    let body = words.rsplit(begins_body).next().unwrap_or_default();
    body.iter().find(|word| !is_keyword(word)) == Some(&"eval")
}

/// Findings in a script.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// Each `|` that can hide a failure of its left side.
    pipes: Vec<Pipe>,
    /// The program after one of these that may end before it has read everything.
    pub(super) early: Option<&'static str>,
    /// The program before one of these that fails if nothing matches.
    pub(super) search: Option<&'static str>,
    /// Variables set by users outside quotes.
    pub(super) unquoted: Vec<Unquoted>,
    /// Start and end of the name of a command whose failure a loop ignores.
    pub(super) careless: Option<(usize, usize)>,
    /// True if the script turns on `pipefail`.
    pub(super) has_pipefail: bool,
    /// True if the script uses positional parameters, such as `$1` or `$@`.
    pub(super) has_parameters: bool,
    /// True if the script uses `$0`.
    pub(super) has_zero: bool,
}

impl Script {
    pub(super) fn new(text: &str) -> Self {
        let mut reader = ScriptReader::new(text);
        reader.read();
        let mut script = reader.script;
        script.pipes.sort_unstable_by_key(|pipe| pipe.at);
        let mut after = script.pipes.iter().filter_map(|pipe| text.get(pipe.at + 1..));
        script.early = after.find_map(early_reader);
        script.search = script.pipes.iter().find_map(|pipe| pipe.search);
        script.has_pipefail |= text.contains("pipefail");
        script
    }

    /// Byte offset of the first `|` that can hide a failure of its left side.
    pub(super) fn pipe(&self) -> Option<usize> {
        self.pipes.first().map(|pipe| pipe.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipes(text: &str) -> usize {
        Script::new(text).pipes.len()
    }

    fn unquoted(text: &str) -> Vec<String> {
        Script::new(text)
            .unquoted
            .into_iter()
            .map(|found| text[found.start..found.end].into())
            .collect()
    }

    #[test]
    fn a_pipeline_is_a_pipe_between_commands() {
        for text in [
            "kustomize build . | avp generate -",
            "a |\nb",
            "x=$(a | b)",
            "(a|b)",
            "`a | b`",
            "[[ $(a | b) = c ]]",
            "case x in (y) a | b;; esac",
            "if a | b; then c; fi",
        ] {
            assert_eq!(pipes(text), 1, "{text}");
        }
        assert_eq!(pipes("a | b | c"), 2);
    }

    #[test]
    fn other_pipe_characters_are_not_pipelines() {
        for text in [
            "a || b",
            "echo 'a | b'",
            "echo \"a | b\"",
            "# a | b\nc",
            "case $x in a|b) c;; *) d;; esac",
            "cat <<EOF\na | b\nEOF\n",
            "yq '.a | .b'",
            "a \\| b",
            "echo $((1 | 2))",
            "((a | b))",
            "[[ $X =~ ^(dev|prod(a|b))$ ]] && y",
            "[[ $X =~ a|[[:alpha:]]|b ]] || y",
            "case $x in (a|b) c;; (d|e) f;; esac",
            "rm @(a|b) !(c|d)",
            "a >| b",
        ] {
            assert_eq!(pipes(text), 0, "{text}");
        }
    }

    #[test]
    fn a_left_side_that_cannot_fail_is_not_reported() {
        for text in ["echo \"$X\" | base64 -d", "X=1 printf x | y", "cat <<EOF | sh\na\nEOF\n"] {
            assert_eq!(pipes(text), 0, "{text}");
        }
        assert!(Script::new("set -euo pipefail\na | b").has_pipefail);
    }

    #[test]
    fn variables_set_by_users_are_reported_outside_quotes() {
        for (text, expected) in [
            ("helm template $ARGOCD_ENV_ARGS .", "$ARGOCD_ENV_ARGS"),
            ("helm template ${ARGOCD_ENV_ARGS:-x} .", "${ARGOCD_ENV_ARGS:-x}"),
            ("x \"$(helm $PARAM_A)\"", "$PARAM_A"),
            ("echo a$PARAM_A", "$PARAM_A"),
            ("helm --set a=$PARAM_A", "$PARAM_A"),
            ("helm ${PARAM_A:+--values $PARAM_A}", "$PARAM_A"),
            ("helm $PARAM_A+x", "$PARAM_A"),
        ] {
            assert_eq!(unquoted(text), [expected], "{text}");
        }
    }

    #[test]
    fn quotes_assignments_tests_and_other_variables_are_not_reported() {
        for text in [
            "helm \"$ARGOCD_ENV_ARGS\"",
            "A=$PARAM_A",
            "export A=$PARAM_A B=1",
            "case $PARAM_A in a) b;; esac",
            "[[ $PARAM_A == x ]] && y",
            "[[ ($PARAM_A == x) || $X =~ ^($PARAM_A)$ ]]",
            "if x; then A=$PARAM_A; else local -r B=$PARAM_A; fi",
            "f() { A=$PARAM_A; }",
            "declare A=$PARAM_A",
            "helm $ARGOCD_APP_NAME",
            "echo '$PARAM_A'",
            "a \"${PARAM_A:-$PARAM_B}\"",
            "a ${PARAM_A:+--values \"$PARAM_A\"} ${PARAM_A+x}",
            "A=${PARAM_A:+$PARAM_A}",
            "cat <<EOF\n$PARAM_A\nEOF\n",
            "# $PARAM_A",
        ] {
            assert!(unquoted(text).is_empty(), "{text}: {:?}", unquoted(text));
        }
    }

    #[test]
    fn an_expansion_with_an_operator_is_quoted_as_it_is_written() {
        for (text, expected) in [
            ("helm $PARAM_A", "write \"${PARAM_A}\";"),
            ("helm ${PARAM_A}", "write \"${PARAM_A}\";"),
            ("helm ${PARAM_A:-}", "write \"${PARAM_A:-}\";"),
            ("helm ${PARAM_A:-${B}}", "put double quotes around the whole"),
        ] {
            let diagnostic = Script::new(text).unquoted[0].diagnostic(text);
            let help = diagnostic.help.unwrap_or_default();
            assert!(help.starts_with(expected), "{text}: {help}");
        }
    }

    #[test]
    fn variables_set_by_users_are_reported_in_eval() {
        for text in [
            "eval \"helm template $ARGOCD_ENV_ARGS .\"",
            "if x; then A=b eval helm '$y' \"${ARGOCD_ENV_ARGS:-x}\"; fi",
            "x=$(eval \"a; b $ARGOCD_ENV_ARGS\")",
            "eval $ARGOCD_ENV_ARGS",
            "f() { eval \"$ARGOCD_ENV_ARGS\"; }",
            "f(){ eval \"$ARGOCD_ENV_ARGS\"; }",
            "f () { A=b eval \"$ARGOCD_ENV_ARGS\"; }",
            "f()\n{\n  eval \"$ARGOCD_ENV_ARGS\"\n}",
        ] {
            let found = Script::new(text).unquoted;
            assert!(found.len() == 1 && found[0].is_evaluated, "{text}: {found:?}");
        }
        for text in [
            "yq eval \".a = $ARGOCD_ENV_A\" x.yaml",
            "cmd=\"yq eval '.a = $ARGOCD_ENV_A' x.yaml\"",
            "YQ=\"yq eval $PARAM_A\"",
            "echo \"{ eval $PARAM_A\"",
            "eval \"x ${PARAM_A:+y}\"",
            "eval \"$(helm template \"$ARGOCD_ENV_A\")\"",
            "eval x; helm template \"$ARGOCD_ENV_A\"",
            "eval 'helm template \"$ARGOCD_ENV_A\"'",
        ] {
            assert!(unquoted(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_variable_in_eval_is_reported_beside_its_other_uses() {
        for (text, expected) in [
            ("helm $ARGOCD_ENV_A; eval \"$ARGOCD_ENV_A\"", [false, true]),
            ("eval $PARAM_A; helm $PARAM_A $PARAM_A; eval $PARAM_A", [true, false]),
        ] {
            let found = Script::new(text).unquoted;
            assert!(found.iter().map(|use_| use_.is_evaluated).eq(expected), "{text}: {found:?}");
        }
    }

    #[test]
    fn positional_parameters_are_found() {
        assert!(
            Script::new("echo \"$1\"").has_parameters && Script::new("x ${2:-y}").has_parameters
        );
        assert!(
            Script::new("exec \"$@\"").has_parameters && !Script::new("echo $x").has_parameters
        );
        assert!(Script::new("echo $0").has_zero);
    }

    #[test]
    fn reading_ends_for_any_text() {
        let deep = "$(".repeat(10_000) + &"\"${".repeat(10_000);
        for text in
            ["", "$", "\\", "'", "\"", "`", "${", "$((", "<<", "<<<", "a |", "]]", ")", &deep]
        {
            let _ = Script::new(text);
        }
    }
}
