//! What happens, told on standard error.

use std::io::{self, IsTerminal, Write};

use serde_json::{Map, Value};

use crate::config;

/// Tells people what goes on, and leaves standard output to the result.
#[derive(Debug)]
pub(super) struct Report {
    color: bool,
}

impl Report {
    pub(super) fn new() -> Self {
        Self { color: io::stderr().is_terminal() && !config::no_color() }
    }

    /// A step that is finished.
    pub(super) fn step(&self, step: &str, detail: &str) {
        self.write(&format!("{} {detail}", self.painted("1;32", &format!("{step:>9}"))));
    }

    /// Something that deserves attention.
    pub(super) fn warn(&self, text: &str) {
        self.write(&format!("{} {text}", self.painted("1;33", "  warning")));
    }

    /// A line of a supervisor's log.
    pub(super) fn line(&self, event: &Map<String, Value>) {
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        match (text("msg"), text("level")) {
            ("plugin", _) => {
                self.write(&format!("{} {}", self.painted("2", "        |"), text("stderr")));
            }
            ("request", _) => self.request(event),
            (message, "warning" | "error" | "") => {
                let error = text("error");
                let file = text("file");
                let parts: Vec<_> =
                    [message, file, error].into_iter().filter(|part| !part.is_empty()).collect();
                self.warn(&parts.join(": "));
            }
            _ => {}
        }
    }

    fn request(&self, event: &Map<String, Value>) {
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("method") == "check" {
            return;
        }
        for phase in text("phases").split(' ').filter(|phase| !phase.starts_with("queue=")) {
            if let Some((name, took)) = phase.split_once('=') {
                self.step(name, took);
            }
        }
        let uid = event.get("uid").map(|uid| format!(" as uid {uid}")).unwrap_or_default();
        let reason =
            event.get("reason").map(|_| format!(": {}", text("reason"))).unwrap_or_default();
        let (outcome, took) = (text("outcome"), text("took"));
        self.step(text("method"), &format!("{}: {outcome} in {took}{uid}{reason}", text("plugin")));
    }

    fn painted(&self, code: &str, text: &str) -> String {
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    #[expect(clippy::unused_self, reason = "a report is what writes")]
    fn write(&self, line: &str) {
        // Nobody is left to tell that nothing can be told.
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
}
