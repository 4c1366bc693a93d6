//! Events of a private supervisor, for the command that started it.
//!
//! `render`, `match`, `params` and `doctor` start `serve --events`. Such a
//! supervisor writes no log. It writes one [`Event`] a line to standard output,
//! as JSON:
//!
//! ```json
//! {"event":"ready","isolation":"uid","landlock":7,"leases":64}
//! ```
//!
//! Writing waits for the reader once the pipe is full, so that nothing is lost.
//! That delays no other request: a private supervisor serves its reader only.
//! Texts are redacted as in logs, and cut after [`MAX_TEXT`] bytes.

mod channel;
mod reader;
mod text;

use cmp_sandbox::{Shortfall, Tier};
use serde::{Deserialize, Serialize};

pub use self::{
    channel::{open, tell},
    reader::Events,
    text::Text,
};
use crate::{
    metrics::{Method, Outcome},
    request::Phase,
};

/// Longest text of an event in bytes. A plugin's line has 4 KiB at most.
pub const MAX_TEXT: usize = 16 * 1024;

/// Longest line in bytes: JSON may take six bytes for one of a text, and no
/// event has more than four long texts.
pub const MAX_LINE: usize = 512 * 1024;

/// Target of log lines whose content is also told as an [`Event`].
pub const TOLD: &str = "told";

/// Something that the starter of a private supervisor wants to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Every definition has been tried, and the sockets of the valid ones answer.
    Ready {
        /// How requests are kept apart.
        isolation: Tier,
        /// The version of Landlock that is enforced, 0 for none.
        landlock: i32,
        /// How many requests there can be at a time, including those being
        /// cleaned up.
        leases: u32,
    },
    /// The supervisor cannot serve, and ends.
    Failed {
        /// Why, and what to do.
        reason: Text,
        /// Why each tier that was asked for is not available, if that is why.
        shortfalls: Vec<Shortfall>,
    },
    /// A plugin is not served as it is defined now; the others are.
    NotServed {
        /// Its name, if the definition has a valid one.
        plugin: Option<String>,
        /// Its file in the plugins directory, if the definition is the reason.
        file: Option<Text>,
        /// The line of the mistake, counted from 1, if there is one to blame.
        line: Option<usize>,
        /// Why.
        reason: Text,
    },
    /// A plugin's command wrote a line.
    PluginOutput {
        /// The plugin's name.
        plugin: String,
        /// Where the command wrote it to.
        stream: Stream,
        /// The line, without its end.
        text: Text,
    },
    /// A request ended.
    Request {
        /// The plugin's name.
        plugin: String,
        /// What was asked of it.
        method: Method,
        /// How it ended.
        outcome: Outcome,
        /// How long it took in milliseconds.
        took_ms: f64,
        /// Its phases in order.
        phases: Vec<PhaseTime>,
        /// The UID that its commands ran as, if it got so far.
        uid: Option<u32>,
        /// Why the plugin claims the application or does not, if names decided.
        reason: Option<Text>,
    },
    /// Anything else that would be logged as a warning or an error.
    Warning {
        /// The message and its details.
        text: Text,
    },
}

/// Where a command writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard error.
    Stderr,
}

/// How long a phase took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseTime {
    /// The phase.
    pub phase: Phase,
    /// Its duration in milliseconds.
    pub took_ms: f64,
}

#[cfg(test)]
mod tests;
