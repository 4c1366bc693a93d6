//! Writes one log line for each event, with the fields of its spans.
//!
//! JSON lines have the keys of Argo CD's logs (`level`, `msg`, `time`), and the
//! fields of the event and of its call, sorted.

mod panics;
mod queue;

use std::{
    borrow::Cow,
    error::Error,
    fmt::{self, Write as _},
    io::{self, IsTerminal, Write as _},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cmp_sandbox::OUTPUT_TARGET;
use serde_json::{Map, Value};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    info,
    level_filters::LevelFilter,
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    fmt::{
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
    reload::{self, Handle},
    util::SubscriberInitExt,
};

use self::queue::Queue;
use crate::{
    config::{LogFilter, LogFormat},
    event,
    terminal::printable,
};

/// The lines of the log of this process.
static LINES: Queue = Queue::new();

/// Time limit for the last lines to be written when the program ends.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Changes the filter of the log. Cheap to clone.
#[derive(Clone)]
pub struct LogControl {
    filter: Arc<Mutex<LogFilter>>,
    /// `None` if there is no log.
    handle: Option<Handle<Targets, Registry>>,
}

impl fmt::Debug for LogControl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LogControl").finish_non_exhaustive()
    }
}

impl LogControl {
    /// The filter as a line.
    #[must_use]
    pub fn filter(&self) -> String {
        format!("{}\n", self.filter.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the filter.
    pub fn set(&self, filter: LogFilter) -> Result<(), String> {
        let Some(handle) = &self.handle else { return Err("there is no log".to_owned()) };
        handle.reload(filter.targets()).map_err(|error| error.to_string())?;
        info!(filter = %filter, "the log has another filter");
        *self.filter.lock().unwrap_or_else(PoisonError::into_inner) = filter;
        Ok(())
    }
}

/// Starts to log to standard error. Call it once.
pub fn init(format: Option<LogFormat>, filter: LogFilter) -> io::Result<LogControl> {
    let (targets, handle) = reload::Layer::new(filter.targets());
    let format = chosen(format);
    LINES.start(move |dropped| lost(format, dropped))?;
    panics::flush_first();
    let lines = LogLayer { sink: Sink::Log(format) };
    tracing_subscriber::registry().with(lines.with_filter(targets)).init();
    Ok(LogControl { filter: Arc::new(Mutex::new(filter)), handle: Some(handle) })
}

/// Waits until all lines are written, for at most a second; returns false if nobody
/// reads them.
pub fn flush() -> bool {
    LINES.flush(LAST_LINES)
}

/// The line that tells of lines that were dropped.
fn lost(format: LogFormat, lines: u64) -> String {
    let mut fields = LogFields::default();
    let text = "log lines were dropped: standard error is read too slowly, and 1 MiB waited";
    fields.0.insert("message".to_owned(), text.into());
    fields.0.insert("lines".to_owned(), lines.into());
    fields.into_line(format, "warning")
}

/// Writes the error that ends the program as the last line of the log. It may be
/// called before the log is started.
pub fn fatal(format: Option<LogFormat>, error: &dyn Error) {
    let mut fields = LogFields::default();
    fields.0.insert("message".to_owned(), error.to_string().into());
    let line = fields.into_line(chosen(format), "fatal");
    if flush() {
        // If the log cannot be written, nothing can report it.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }
}

fn chosen(format: Option<LogFormat>) -> LogFormat {
    let is_terminal = io::stderr().is_terminal();
    format.unwrap_or(if is_terminal { LogFormat::Text } else { LogFormat::Json })
}

/// Sends warnings, errors and the output of commands as events instead of logging.
#[must_use]
pub fn init_events() -> LogControl {
    let lines = LogLayer { sink: Sink::Events };
    tracing_subscriber::registry().with(lines.with_filter(LevelFilter::INFO)).init();
    LogControl { filter: Arc::default(), handle: None }
}

/// The tracing layer that writes lines.
struct LogLayer {
    sink: Sink,
}

/// The destination of log lines.
enum Sink {
    /// Standard error.
    Log(LogFormat),
    /// The process that started this supervisor.
    Events,
}

/// The fields of an event or a span.
#[derive(Clone, Debug, Default)]
struct LogFields(Map<String, Value>);

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for LogLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = LogFields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<LogFields>()
        {
            record.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = LogFields::default();
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<LogFields>() {
                fields.0.extend(outer.0.clone());
            }
        }
        event.record(&mut fields);
        let metadata = event.metadata();
        let line = match self.sink {
            Sink::Log(format) => fields.into_line(format, word(*metadata.level())),
            Sink::Events => {
                if let Some(event) = fields.into_event(*metadata.level(), metadata.target()) {
                    event::tell(|| event);
                }
                return;
            }
        };
        LINES.push(&line);
    }
}

impl LogFields {
    fn into_line(self, format: LogFormat, level: &str) -> String {
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
        format!("{}\n", Value::Object(self.0))
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
}

impl LogFields {
    /// Converts a line to an event; `None` if one was already sent or none is needed.
    fn into_event(self, level: Level, target: &str) -> Option<event::Event> {
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
                let parts = ["message", "check", "file", "reason", "error"].map(text);
                let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                Some(event::Event::Warning { text: parts.join(": ").into() })
            }
        }
    }
}

/// Names of levels in Argo CD's logs.
fn word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
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
        let failed = [("message", "fails"), ("reason", "gone"), ("check", "work-volume")];
        let failed = failed.map(|(name, value)| (name.to_owned(), value.into()));
        let failed = LogFields(Map::from_iter(failed)).into_event(Level::WARN, "x");
        let text = "fails: work-volume: gone".into();
        assert_eq!(failed, Some(event::Event::Warning { text }));
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
        assert!(
            line.ends_with(r#"info    hello error="a \"b\"" plugin=p"#.to_owned().as_str())
                || line.trim_end().ends_with(r#"info    hello error="a \"b\"" plugin=p"#),
            "{line}"
        );
    }
}
