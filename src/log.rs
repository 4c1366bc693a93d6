//! Writes one log line for each event, with the fields of its spans.
//!
//! JSON lines have the keys of Argo CD's logs (`level`, `msg`, `time`), and the
//! fields of the event and of its call, sorted.

mod fields;
mod last_words;
mod panics;
mod queue;

use std::{
    error::Error,
    fmt,
    io::{self, IsTerminal, Write as _},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cmp_sandbox::OUTPUT_TARGET;
use tracing::{
    Event, Level, Subscriber, info,
    level_filters::LevelFilter,
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
    reload::{self, Handle},
    util::SubscriberInitExt,
};

pub use self::last_words::leave;
use self::{
    fields::LogFields,
    queue::{Author, MAX_WAITING, Queue},
};
use crate::{
    budget::show,
    config::{LogFilter, LogFormat},
    event,
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
    /// Of a process without a log.
    #[cfg(test)]
    pub(crate) fn off() -> Self {
        Self { filter: Arc::default(), handle: None }
    }

    /// The filter as a line.
    #[must_use]
    pub fn filter(&self) -> String {
        format!("{}\n", self.filter.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the filter.
    pub fn set(&self, filter: LogFilter) -> Result<(), String> {
        let Some(handle) = &self.handle else { return Err("there is no log".to_owned()) };
        // Held over both: `reload` has a lock of its own, and another filter could come between.
        let mut shown = self.filter.lock().unwrap_or_else(PoisonError::into_inner);
        handle.reload(filter.targets()).map_err(|error| error.to_string())?;
        info!(filter = %filter, "the log has another filter");
        *shown = filter;
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

/// Sends warnings, errors and the output of commands as events instead of logging.
#[must_use]
pub fn init_events() -> LogControl {
    let lines = LogLayer { sink: Sink::Events };
    tracing_subscriber::registry().with(lines.with_filter(LevelFilter::INFO)).init();
    LogControl { filter: Arc::default(), handle: None }
}

/// Waits until all lines are written, for at most a second; returns false if nobody
/// reads them.
pub fn flush() -> bool {
    LINES.flush(LAST_LINES)
}

/// The line that tells of lines that were dropped.
fn lost(format: LogFormat, lines: u64) -> String {
    let most = show(MAX_WAITING as u64);
    let text = format!(
        "log lines were dropped, those of commands first: standard error is read too slowly, and at most {most} may wait"
    );
    LogFields::of(&text).with("lines", lines).into_line(format, "warning")
}

/// Writes the error that ends the program as the last line of the log. It may be
/// called before the log is started.
pub fn fatal(format: Option<LogFormat>, error: &dyn Error) {
    let line = LogFields::of(&error.to_string()).into_line(chosen(format), "fatal");
    if flush() {
        // If the log cannot be written, nothing can report it.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }
}

fn chosen(format: Option<LogFormat>) -> LogFormat {
    let is_terminal = io::stderr().is_terminal();
    format.unwrap_or(if is_terminal { LogFormat::Text } else { LogFormat::Json })
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
                fields.extend(outer);
            }
        }
        event.record(&mut fields);
        let metadata = event.metadata();
        match self.sink {
            Sink::Log(format) => {
                let is_output = metadata.target() == OUTPUT_TARGET;
                let author = if is_output { Author::Command } else { Author::Supervisor };
                LINES.push(&fields.into_line(format, word(*metadata.level())), author);
            }
            Sink::Events => {
                if let Some(event) = fields.into_event(*metadata.level(), metadata.target()) {
                    event::tell(|| event);
                }
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

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use super::*;

    #[test]
    fn the_filter_that_is_shown_is_the_one_in_use() {
        let (_layer, handle) = reload::Layer::new(LogFilter::default().targets());
        let control = LogControl { filter: Arc::default(), handle: Some(handle.clone()) };
        let together = Barrier::new(2);
        for _ in 0..1000 {
            thread::scope(|scope| {
                for level in [LevelFilter::WARN, LevelFilter::DEBUG] {
                    let (control, together) = (&control, &together);
                    scope.spawn(move || {
                        together.wait();
                        control.set(level.into()).unwrap();
                    });
                }
            });
            let shown = control.filter.lock().unwrap().targets();
            assert_eq!(handle.clone_current(), Some(shown));
        }
    }
}
