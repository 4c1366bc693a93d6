//! The fields of a log line, and the line that they make.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
};

use cmp_sandbox::OUTPUT_TARGET;
use serde_json::{Map, Value};
use tracing::{
    Level,
    field::{Field, Visit},
};
use tracing_subscriber::fmt::{
    format::Writer,
    time::{FormatTime, SystemTime},
};

use crate::{
    config::LogFormat,
    event,
    terminal::{printable, printable_json},
};

/// Fields of a warning that an event repeats after its message, in this order.
const SAID: [&str; 7] = ["check", "file", "path", "directory", "at", "reason", "error"];

/// The fields of an event or a span.
#[derive(Clone, Debug, Default)]
pub(super) struct LogFields(Map<String, Value>);

impl LogFields {
    /// A line without an event.
    pub(super) fn of(message: &str) -> Self {
        Self::default().with("message", message)
    }

    /// Adds a field.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Adds the fields of a span.
    pub(super) fn extend(&mut self, span: &Self) {
        self.0.extend(span.0.clone());
    }

    /// The line, with a line break at its end.
    pub(super) fn into_line(self, format: LogFormat, level: &str) -> String {
        match format {
            LogFormat::Json => self.into_json(level),
            LogFormat::Text => self.into_text(level),
        }
    }

    fn into_json(mut self, level: &str) -> String {
        let message = self.0.remove("message").unwrap_or_default();
        self.0.insert("level".to_owned(), level.into());
        self.0.insert("msg".to_owned(), message);
        self.0.insert("time".to_owned(), now().into());
        printable_json(&Value::Object(self.0).to_string())
    }

    fn into_text(mut self, level: &str) -> String {
        let message = self.0.remove("message").unwrap_or_default();
        let mut line = format!("{} {:<7} {}", now(), level, bare(&message));
        for (name, value) in &self.0 {
            // Writing to a String cannot fail.
            let _ = write!(line, " {name}={}", quoted(value));
        }
        line.push('\n');
        line
    }

    /// Converts a line to an event; `None` if one was already sent or none is needed.
    pub(super) fn into_event(self, level: Level, target: &str) -> Option<event::Event> {
        let text = |name: &str| self.0.get(name).map(bare).unwrap_or_default();
        match target {
            event::TOLD => None,
            OUTPUT_TARGET => Some(event::Event::PluginOutput {
                plugin: text("plugin"),
                stream: event::Stream::Stderr,
                text: text("stderr").into(),
            }),
            _ if level > Level::WARN => None,
            _ => {
                let said = SAID.map(text).into_iter().fold(self.message(), |said, part| {
                    let is_new = !part.is_empty() && !said.contains(&part);
                    if is_new { said + ": " + &part } else { said }
                });
                Some(event::Event::Warning { text: said.into() })
            }
        }
    }

    /// The message, in which the name of the plugin takes the place of `a plugin`.
    fn message(&self) -> String {
        let text = |name: &str| self.0.get(name).map(bare).unwrap_or_default();
        let (message, plugin) = (text("message"), text("plugin"));
        match message.strip_prefix("a plugin ") {
            Some(rest) if !plugin.is_empty() => format!("plugin `{plugin}` {rest}"),
            Some(_) | None => message,
        }
    }
}

fn now() -> String {
    let mut time = String::new();
    // Writing to a String cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time
}

fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Quotes a text with blanks or control characters, so that lines can be parsed.
fn quoted(value: &Value) -> String {
    let is_special = |c: char| c.is_control() || [' ', '"', '='].contains(&c);
    let text: Cow<'_, str> = match value.as_str() {
        Some(text) if !text.is_empty() && !text.contains(is_special) => text.into(),
        _ => value.to_string().into(),
    };
    printable(&text).into_owned()
}

impl Visit for LogFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    /// Leaves out empty values.
    fn record_str(&mut self, field: &Field, value: &str) {
        if !value.is_empty() {
            self.0.insert(field.name().to_owned(), value.into());
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields() -> LogFields {
        let Value::Object(map) = json!({"message": "hello", "plugin": "p", "error": "a \"b\""})
        else {
            unreachable!()
        };
        LogFields(map)
    }

    #[test]
    fn json_lines_have_argo_cds_keys() {
        let line: Value = serde_json::from_str(&fields().into_json("warning")).unwrap();
        assert_eq!(line["level"], "warning");
        assert_eq!(line["msg"], "hello");
        assert_eq!(line["plugin"], "p");
        assert!(line["time"].as_str().unwrap().contains('T'));
    }

    #[test]
    fn only_warnings_and_output_become_events() {
        let event = |level, target| fields().into_event(level, target);
        let text = "hello: a \"b\"".into();
        assert_eq!(event(Level::WARN, "x"), Some(event::Event::Warning { text }));
        for (fields, text) in [
            (&[("message", "fails"), ("reason", "gone"), ("check", "c")][..], "fails: c: gone"),
            (&[("message", "/a is missing"), ("path", "/a")], "/a is missing"),
            (&[("message", "missing"), ("path", "/a"), ("plugin", "p")], "missing: /a"),
            (&[("message", "a plugin fails"), ("plugin", "p")], "plugin `p` fails"),
            (&[("message", "a plugin fails")], "a plugin fails"),
        ] {
            let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
            let warned = LogFields(fields.collect()).into_event(Level::WARN, "x");
            assert_eq!(warned, Some(event::Event::Warning { text: text.into() }));
        }
        assert_eq!(event(Level::INFO, "x"), None);
        assert_eq!(event(Level::WARN, event::TOLD), None);
        let said = LogFields(Map::from_iter([
            ("plugin".into(), "p".into()),
            ("stderr".into(), "s".into()),
        ]));
        let (plugin, stream) = ("p".to_owned(), event::Stream::Stderr);
        let output = event::Event::PluginOutput { plugin, stream, text: "s".into() };
        assert_eq!(said.into_event(Level::INFO, OUTPUT_TARGET), Some(output));
    }

    #[test]
    fn text_lines_have_no_codes_for_a_terminal() {
        for (value, quoted_value) in
            [("\u{1b}[31m", r#""\u001b[31m""#), ("\u{9b}1m", "\"\u{fffd}1m\""), ("plain", "plain")]
        {
            assert_eq!(quoted(&value.into()), quoted_value);
        }
    }

    #[test]
    fn text_lines_quote_values_with_blanks() {
        let line = fields().into_text("info");
        assert!(line.ends_with("info    hello error=\"a \\\"b\\\"\" plugin=p\n"), "{line}");
    }
}
