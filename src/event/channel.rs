//! The writing end, which is standard output.

use std::{
    io::{self, Stdout, Write},
    sync::OnceLock,
};

use super::Event;

/// Set in a private supervisor.
static CHANNEL: OnceLock<Stdout> = OnceLock::new();

/// Begins to write events to standard output.
pub fn open() {
    // A second call changes nothing.
    let _ = CHANNEL.set(io::stdout());
}

/// Writes an event if there is a reader for it. Waits for the reader.
pub fn tell(event: impl FnOnce() -> Event) {
    if let Some(channel) = CHANNEL.get() {
        // Without a reader nobody is left to tell.
        let _ = channel.lock().write_all(&event().line());
    }
}

impl Event {
    /// The line for it, with its end.
    pub(super) fn line(&self) -> Vec<u8> {
        // Cannot fail: every key is a text.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}
