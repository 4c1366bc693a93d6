//! Warns of an argument that the kernel does not pass to a program.

use cmp_sandbox::MAX_ARGUMENT;

use super::words::Word;
use crate::plugin::{Code, Diagnostic, locator::Locator};

/// Warns of the first such word of a command.
pub(super) fn lint(words: &[Word<'_>], locator: &Locator<'_>) -> Option<Diagnostic> {
    let word = words.iter().find(|word| word.text.len() > MAX_ARGUMENT)?;
    let text = format!("an argument of {} bytes", word.text.len());
    Some(
        Diagnostic::new(Code::LongWord, text)
            .at(locator.value(&word.path))
            .label("each request fails: argument list too long")
            .note(format!("Linux passes at most {MAX_ARGUMENT} bytes in one argument"))
            .help("put the script into a file beside the definitions, and name that"),
    )
}

#[cfg(test)]
mod tests {
    use super::MAX_ARGUMENT;
    use crate::plugin::lint::tests::found;

    #[test]
    fn an_argument_that_no_program_can_get_is_reported() {
        for (length, is_found) in [(MAX_ARGUMENT, false), (MAX_ARGUMENT + 1, true)] {
            let spec = format!("  generate: {{command: [echo, {}]}}", "a".repeat(length));
            let codes = found(&spec);
            assert_eq!(codes.iter().any(|code| code.starts_with("CMP0319")), is_found, "{codes:?}");
        }
    }
}
