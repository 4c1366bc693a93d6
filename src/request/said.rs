//! The texts of a command, for its error and for hints.

use std::fmt;

use cmp_sandbox::{Excerpt, Redactor};
use cmp_yaml::stream;

/// Longest end of standard output that is kept, in bytes.
const MAX_STDOUT: usize = 4 << 10;

/// The reason for which the standard output of a generate is not shown, and the remedy.
const HIDDEN: &str = "is not shown, because it may hold secrets: send messages to standard error (>&2), or \
                      see --keep-failed";

/// The place of an error in an output, for its text. The line may be shown above it.
pub(super) fn place(error: &stream::Error, is_told: bool) -> String {
    let line = error.line();
    if error.excerpt().is_none() {
        return format!("which begins in line {line} of the output");
    }
    let shown = if is_told { "is shown above" } else { HIDDEN };
    format!("line {line} of the output, which {shown}")
}

/// Standard error of a command, and the end of its standard output if that is no
/// manifest: helm writes the cause of a failure there.
#[derive(Debug, Default)]
pub struct Said {
    stderr: String,
    stdout: String,
    /// Bytes of standard output that are not shown although there is nothing else.
    hidden: usize,
}

impl Said {
    /// The text of standard error. `at_cuts` masks the parts of values that it cuts.
    pub(super) fn new(stderr: &Excerpt, at_cuts: &Redactor) -> Self {
        Self { stderr: stderr.without_parts(at_cuts).to_string(), ..Self::default() }
    }

    /// Adds the end of the standard output, without secrets.
    pub(super) fn with_output(
        self,
        stdout: &[u8],
        redactor: &Redactor,
        at_cuts: &Redactor,
    ) -> Self {
        let mut end = redactor.end(stdout, MAX_STDOUT);
        if stdout.len() > MAX_STDOUT {
            end = at_cuts.after_cut(&end);
        }
        Self { stdout: String::from_utf8_lossy(&end).trim().to_owned(), ..self }
    }

    /// Tells that standard output, which may hold decrypted secrets, is not shown, if there is
    /// nothing else.
    pub(super) fn with_hidden(self, stdout: &[u8]) -> Self {
        let hidden = if self.stderr.is_empty() { stdout.len() } else { 0 };
        Self { hidden, ..self }
    }

    /// Everything, for hints.
    pub(super) fn all(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }

    /// True if the command wrote nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.stderr.is_empty() && self.stdout.is_empty()
    }
}

/// The standard error, as Argo CD shows it, then the standard output.
impl fmt::Display for Said {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.stderr.is_empty() {
            write!(text, ": {}", self.stderr)?;
        }
        if !self.stdout.is_empty() {
            write!(text, " [its standard output: {}]", self.stdout)?;
        }
        if self.hidden > 0 {
            write!(
                text,
                " [it printed {} bytes, all to standard output, which {HIDDEN}]",
                self.hidden
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_output_follows_the_errors() {
        let mut stderr = Excerpt::default();
        stderr.push(b"failed\n");
        let none = Redactor::default();
        let said = Said::new(&stderr, &none);
        assert_eq!((said.to_string(), said.is_empty()), (": failed".to_owned(), false));
        let long = [b"x".repeat(MAX_STDOUT).as_slice(), b"end\n"].concat();
        let text = said.with_output(&long, &none, &none).to_string();
        assert!(text.starts_with(": failed [its standard output: xx"), "{text}");
        assert!(text.ends_with("xend]") && text.len() < MAX_STDOUT + 100, "{}", text.len());
        assert!(Said::new(&Excerpt::default(), &none).is_empty());
    }

    #[test]
    fn the_part_of_a_value_at_the_beginning_of_the_output_is_masked() {
        let (none, values) = (Redactor::default(), [&b"correct-horse"[..]]);
        let at_cuts = none.with_values(values);
        for (room, start) in [(5, "***="), (20, "x correct-horse=")] {
            let long = [b"x correct-horse".as_slice(), &b"=".repeat(MAX_STDOUT - room)].concat();
            let said = Said::default().with_output(&long, &none, &at_cuts).to_string();
            let start = format!(" [its standard output: {start}");
            assert!(said.starts_with(&start), "{room}: {}", &said[..50]);
        }
    }

    #[test]
    fn hidden_output_is_told_if_there_is_nothing_else() {
        let said = |stderr: &[u8]| {
            let mut errors = Excerpt::default();
            errors.push(stderr);
            Said::new(&errors, &Redactor::default()).with_hidden(b"token: hunter2").to_string()
        };
        let told = said(b" \n");
        assert!(told.starts_with(" [it printed 14 bytes, all to standard output"), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
        assert_eq!(said(b"failed"), ": failed");
    }
}
