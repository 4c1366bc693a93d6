//! Colours for terminals.

use crate::plugin::Severity;

/// Colours text, or returns it unchanged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    is_colored: bool,
}

impl Paint {
    pub(super) fn new(is_colored: bool) -> Self {
        Self { is_colored }
    }

    /// Text in the colour of a severity.
    pub(super) fn severity(self, severity: Severity, text: &str) -> String {
        self.paint(
            match severity {
                Severity::Error => "1;31",
                Severity::Warning => "1;33",
                Severity::Note => "1;36",
            },
            text,
        )
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Arrows, bars and line numbers around an excerpt.
    pub(super) fn frame(self, text: &str) -> String {
        self.paint("1;34", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.is_colored { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
