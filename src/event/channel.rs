//! Writes events to standard output.

use std::{
    io::{self, Stdout, Write},
    sync::OnceLock,
};

use super::Event;

/// Set only in a private supervisor.
static CHANNEL: OnceLock<Stdout> = OnceLock::new();

/// Turns on events.
pub(crate) fn open() {
    // A second call has no effect.
    let _ = CHANNEL.set(io::stdout());
}

/// True if events are on: this is a private supervisor.
pub(crate) fn are_told() -> bool {
    CHANNEL.get().is_some()
}

/// Writes an event if events are on. Blocks while the pipe is full.
pub(crate) fn tell(event: impl FnOnce() -> Event) {
    if let Some(channel) = CHANNEL.get() {
        // An error means that the reader has ended.
        let _ = channel.lock().write_all(&event().line());
    }
}

impl Event {
    /// The event as a line of JSON, with line feed.
    pub(super) fn line(&self) -> Vec<u8> {
        // This cannot fail, because every key is a string.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}
