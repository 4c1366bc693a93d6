//! The completions, as a shell uses them.

use std::process::Command;

use crate::skip::skip;

/// Completes a last word after a flag, as bash does, and prints the proposals.
const COMPLETE: &str = r#"
eval "$("$0" completions bash)"
COMP_WORDS=(cmp-supervisor "$@")
COMP_CWORD=$#
function=$(complete -p cmp-supervisor | sed 's/.*-F \([^ ]*\).*/\1/')
"$function" cmp-supervisor "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
echo "${COMPREPLY[*]}"
"#;

#[test]
fn bash_completes_flags_and_values_of_commands() {
    let binary = env!("CARGO_BIN_EXE_cmp-supervisor");
    for (words, expected) in [
        (&["ser"][..], "serve"),
        (&["serve", "--isolation", ""], "auto namespaces uid landlock none"),
        (&["render", "--isolation", "name"], "namespaces"),
        (&["doctor", "--isol"], "--isolation"),
        (&["bundle", "list", "--out"], "--output"),
    ] {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", COMPLETE, binary]).args(words);
        let Ok(output) = bash.output() else { return skip("needs bash") };
        let proposed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(proposed.trim(), expected, "{words:?}");
    }
}
