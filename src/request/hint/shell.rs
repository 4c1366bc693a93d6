//! Messages of shells.

use crate::plugin::shell_name;

/// Ends of a shell's message about a program.
const SHELL_ENDS: [&str; 3] = ["Permission denied", "not found", "command not found"];

/// The command of shells that starts a program in their place.
const EXEC: &str = "exec";

/// Words of bash that other shells take for programs.
const BASH: [&str; 11] = [
    "[[",
    "declare",
    "function",
    "let",
    "mapfile",
    "popd",
    "pushd",
    "readarray",
    "shopt",
    "source",
    "typeset",
];

/// Messages of dash about what only bash knows, after the number of the line.
const UNKNOWN_TO_DASH: [&str; 2] = ["set: Illegal option -o pipefail", "Bad substitution"];

/// Ends of bash's messages about a script whose interpreter is missing.
const NO_INTERPRETER: [&str; 2] =
    ["cannot execute: required file not found", "bad interpreter: No such file or directory"];

const WINDOWS: &str = "the script has Windows line endings: save it with Unix ones (LF)";

const INTERPRETER: &str = "the interpreter in the script's first line does not exist; if the line is right, the \
                           script has Windows line endings: save it with Unix ones (LF)";

const FOR_BASH: &str = "the script is for bash: start it with bash, which must be in the image";

/// The remedy if a shell has refused a script: one for bash, or one whose interpreter is missing.
pub(super) fn foreign(text: &str) -> Option<&'static str> {
    let lacks_interpreter =
        |line: &str| NO_INTERPRETER.iter().any(|end| line.trim_end().ends_with(end));
    if text.lines().any(lacks_interpreter) {
        return Some(INTERPRETER);
    }
    text.lines().any(is_foreign).then_some(FOR_BASH)
}

/// True for a message such as `sh: 1: Bad substitution`.
fn is_foreign(line: &str) -> bool {
    UNKNOWN_TO_DASH.iter().any(|message| {
        let place = line.trim_end().strip_suffix(message).and_then(|rest| rest.strip_suffix(": "));
        let number = place.and_then(|place| place.rsplit(": ").next());
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// The remedy if a shell has taken something else for the name of a program.
pub(super) fn misunderstanding(name: &str) -> Option<&'static str> {
    if BASH.contains(&name) {
        return Some(FOR_BASH);
    }
    let is_return = name.ends_with(char::is_control) || name.ends_with("\\r");
    is_return.then_some(WINDOWS)
}

/// The name in a shell's message, such as `sh: 1: helm: Permission denied`.
pub(super) fn program(line: &str) -> Option<&str> {
    let (name, end) = named(line)?;
    let is_name = !name.is_empty() && !name.contains(['/', ' ']);
    (SHELL_ENDS.contains(&end) && is_name).then_some(name)
}

/// The remedy for a script of the repository that dash could not start: it says `sh: 1: ./gen.sh:
/// not found` of one without its interpreter, too.
pub(super) fn absent_script(line: &str) -> Option<String> {
    let (path, end) = named(line)?;
    let is_script = end == "not found" && path.contains('/') && !path.starts_with('/');
    is_script.then(|| {
        format!(
            "{path} does not exist, or the interpreter in its first line does not: if both are there, \
             {WINDOWS}"
        )
    })
}

/// True if a shell's message refuses a program, instead of missing it.
pub(super) fn is_refused(line: &str) -> bool {
    line.trim_end().ends_with(SHELL_ENDS[0])
}

/// The path in the message of dash about a program that is not there, such as
/// `sh: 1: /opt/tool: not found`.
pub(super) fn absent(line: &str) -> Option<&str> {
    let (path, end) = named(line)?;
    (end == "not found" && path.starts_with('/')).then_some(path)
}

/// The subject of a shell's message, and its last words. Before them is the number of the line or,
/// from bash and busybox, the shell alone; and `exec`, if the script starts the program by it.
fn named(line: &str) -> Option<(&str, &str)> {
    let mut parts = line.trim_end().rsplit(": ");
    let (end, name) = (parts.next()?, parts.next()?);
    let place = parts.find(|part| *part != EXEC)?;
    let is_line = place.trim_start_matches("line ").bytes().all(|byte| byte.is_ascii_digit());
    (is_line || shell_name(place).is_some()).then_some((name, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_no_programs_are_known() {
        assert!(misunderstanding("source").is_some_and(|remedy| remedy.contains("bash")));
        for name in ["\r", "\\r", "echo\r"] {
            assert!(misunderstanding(name).is_some_and(|remedy| remedy.contains("Windows")));
        }
        assert_eq!(misunderstanding("helm"), None);
    }

    #[test]
    fn scripts_for_bash_are_known() {
        for line in ["sh: 1: set: Illegal option -o pipefail\n", "x\n/bin/sh: 3: Bad substitution"]
        {
            assert_eq!(foreign(line), Some(FOR_BASH), "{line}");
        }
        for line in ["bash: line 1: ${x!y}: bad substitution", "values.yaml: Bad substitution"] {
            assert_eq!(foreign(line), None, "{line}");
        }
    }

    #[test]
    fn a_script_whose_interpreter_is_missing_may_have_other_line_endings() {
        for line in [
            "bash: line 1: ./gen.sh: cannot execute: required file not found",
            "bash: ./gen.sh: /bin/sh^M: bad interpreter: No such file or directory",
        ] {
            assert_eq!(foreign(line), Some(INTERPRETER), "{line}");
        }
        let absent = absent_script("sh: 1: ./gen.sh: not found").unwrap();
        assert!(absent.starts_with("./gen.sh does not exist, or the interpreter"), "{absent}");
        for other in ["sh: 1: gen.sh: not found", "sh: 1: /opt/x: not found"] {
            assert_eq!(absent_script(other), None, "{other}");
        }
    }

    #[test]
    fn a_program_that_a_shell_cannot_start_is_named() {
        for line in ["sh: 1: helm: Permission denied", "/bin/bash: line 3: helm: command not found"]
        {
            assert_eq!(program(line), Some("helm"), "{line}");
        }
        assert_eq!(program("./generate.sh: 12: helm: not found\n"), Some("helm"));
        for line in [
            "sh: 1: exec: helm: not found",
            "sh: line 1: exec: helm: not found",
            "bash: exec: helm: not found",
            "bash: helm: command not found",
            // busybox
            "sh: exec: line 0: helm: not found",
            "/bin/sh: helm: not found",
        ] {
            assert_eq!(program(line), Some("helm"), "{line}");
        }
        assert_eq!(absent("sh: 1: exec: /opt/a: not found"), Some("/opt/a"));
        assert_eq!(absent("sh: 1: /opt/a b: not found\n"), Some("/opt/a b"));
        assert_eq!(absent("./generate.sh: 12: helm: not found\n"), None);
        for other in [
            "cat: helm: Permission denied",
            "sh: 1: /usr/bin/helm: Permission denied",
            "sh: 1: cannot open x y: Permission denied",
            "Error: chart: not found",
            "",
        ] {
            assert_eq!(program(other), None, "{other}");
        }
    }
}
