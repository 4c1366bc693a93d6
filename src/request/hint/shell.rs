//! Messages of shells.

/// Ends of a shell's message about a program.
const SHELL_ENDS: [&str; 3] = ["Permission denied", "not found", "command not found"];

/// The name in a shell's message, such as `sh: 1: helm: Permission denied`.
pub(super) fn program(line: &str) -> Option<&str> {
    let mut parts = line.trim_end().rsplit(": ");
    let is_end = SHELL_ENDS.contains(&parts.next()?);
    let name = parts.next()?;
    let is_place = parts.next()?.trim_start_matches("line ").bytes().all(|b| b.is_ascii_digit());
    let is_name = !name.is_empty() && !name.contains(['/', ' ']);
    (is_end && is_place && is_name).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_a_shell_cannot_start_is_named() {
        for line in ["sh: 1: helm: Permission denied", "/bin/bash: line 3: helm: command not found"]
        {
            assert_eq!(program(line), Some("helm"), "{line}");
        }
        assert_eq!(program("./generate.sh: 12: helm: not found\n"), Some("helm"));
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
