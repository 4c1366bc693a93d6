//! What a shell does with a script, as far as it can be told from its text.
//!
//! This is no parser of shell: it knows quotes, substitutions, comments and
//! here-documents, and would rather miss something than complain about nothing.

mod reader;

use self::reader::Reader;

/// A variable that a user sets, where the shell takes its value apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unquoted {
    pub(super) name: String,
    /// With its `$`, in bytes of the script.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// What was found in a script.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// Where a `|` stands whose left side may fail unseen.
    pub(super) pipes: Vec<usize>,
    /// User's values outside quotes.
    pub(super) unquoted: Vec<Unquoted>,
    /// Whether failures in pipelines are seen.
    pub(super) has_pipefail: bool,
    /// Whether it looks at its positional parameters.
    pub(super) has_parameters: bool,
    /// Whether it looks at `$0`.
    pub(super) has_zero: bool,
}

impl Script {
    pub(super) fn new(text: &str) -> Self {
        let mut reader = Reader::new(text);
        reader.read();
        let mut script = reader.script;
        script.pipes.sort_unstable();
        script.has_pipefail |= text.contains("pipefail");
        script
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
            "if a | b; then c; fi",
        ] {
            assert_eq!(pipes(text), 1, "{text}");
        }
        assert_eq!(pipes("a | b | c"), 2);
    }

    #[test]
    fn a_pipe_that_is_text_or_something_else_is_no_pipeline() {
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
        ] {
            assert_eq!(pipes(text), 0, "{text}");
        }
    }

    #[test]
    fn a_left_side_that_cannot_fail_is_no_loss() {
        for text in ["echo \"$X\" | base64 -d", "X=1 printf x | y", "cat <<EOF | sh\na\nEOF\n"] {
            assert_eq!(pipes(text), 0, "{text}");
        }
        assert!(Script::new("set -euo pipefail\na | b").has_pipefail);
    }

    #[test]
    fn users_values_are_taken_apart_outside_quotes() {
        for (text, expected) in [
            ("helm template $ARGOCD_ENV_ARGS .", "$ARGOCD_ENV_ARGS"),
            ("helm template ${ARGOCD_ENV_ARGS:-x} .", "${ARGOCD_ENV_ARGS:-x}"),
            ("x \"$(helm $PARAM_A)\"", "$PARAM_A"),
            ("echo a$PARAM_A", "$PARAM_A"),
            ("helm --set a=$PARAM_A", "$PARAM_A"),
        ] {
            assert_eq!(unquoted(text), [expected], "{text}");
        }
    }

    #[test]
    fn quotes_assignments_tests_and_other_variables_are_no_matter() {
        for text in [
            "helm \"$ARGOCD_ENV_ARGS\"",
            "A=$PARAM_A",
            "export A=$PARAM_A B=1",
            "case $PARAM_A in a) b;; esac",
            "[[ $PARAM_A == x ]] && y",
            "helm $ARGOCD_APP_NAME",
            "echo '$PARAM_A'",
            "a \"${PARAM_A:-$PARAM_B}\"",
            "cat <<EOF\n$PARAM_A\nEOF\n",
            "# $PARAM_A",
        ] {
            assert!(unquoted(text).is_empty(), "{text}: {:?}", unquoted(text));
        }
    }

    #[test]
    fn positional_parameters_are_noticed() {
        assert!(
            Script::new("echo \"$1\"").has_parameters && Script::new("x ${2:-y}").has_parameters
        );
        assert!(
            Script::new("exec \"$@\"").has_parameters && !Script::new("echo $x").has_parameters
        );
        assert!(Script::new("echo $0").has_zero);
    }

    #[test]
    fn any_text_comes_to_an_end() {
        let deep = "$(".repeat(10_000) + &"\"${".repeat(10_000);
        for text in
            ["", "$", "\\", "'", "\"", "`", "${", "$((", "<<", "<<<", "a |", "]]", ")", &deep]
        {
            let _ = Script::new(text);
        }
    }
}
