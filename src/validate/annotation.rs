//! Diagnostics as annotations of a GitHub workflow.

use std::fmt::Write;

use super::Validation;
use crate::{
    plugin::{Region, Severity},
    terminal::printable,
};

/// One line for each diagnostic.
pub(super) fn github(report: &Validation) -> String {
    let mut text = String::new();
    for problem in &report.problems {
        let diagnostic = &problem.problem;
        let level = match diagnostic.severity() {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        let place = diagnostic.region.map_or_else(String::new, |region| {
            let Region { line, column, end_column } = region;
            format!(",line={line},col={column},endColumn={end_column}")
        });
        let file = property(&problem.file);
        let message = message(&diagnostic.message);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "::{level} file={file}{place},title={}::{message}", diagnostic.code);
    }
    text
}

/// Escapes characters that separate fields or lines; GitHub's runner decodes them, and no
/// others.
fn message(text: &str) -> String {
    let text = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    printable(&text).into_owned()
}

fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_property_or_a_message_is_escaped() {
        assert_eq!(property("a:b,c%\n"), "a%3Ab%2Cc%25%0A");
        assert_eq!(message("a:b,c%\r\n"), "a:b,c%25%0D%0A");
    }

    #[test]
    fn nothing_controls_a_terminal() {
        assert_eq!(property("a\u{1b}[31m"), "a\u{fffd}[31m");
    }
}
