//! Events of a private supervisor, for the command that started it.
//!
//! `render`, `match`, `params` and `doctor` start `serve --events`. This
//! supervisor writes no log. It writes each [`Event`] to standard output as one
//! line of JSON:
//!
//! ```json
//! {"event":"ready","isolation":"uid","landlock":7,"leases":64}
//! ```
//!
//! Writing blocks while the pipe is full, so no event is lost. This delays nobody
//! else, because the reader is the only client. Texts are redacted as in logs, and
//! cut after [`MAX_TEXT`] bytes.

mod channel;
mod reader;
mod text;

use std::collections::BTreeSet;

use cmp_sandbox::{Shortfall, Tier};
use serde::{Deserialize, Serialize};

pub(crate) use self::{
    channel::{are_told, open, tell},
    reader::Events,
    text::Text,
};
use crate::{
    metrics::{Method, Outcome},
    request::{Opening, Phase},
};

/// Longest text of an event in bytes. A line of a plugin's output has at most 4 KiB.
pub(crate) const MAX_TEXT: usize = 16 * 1024;

/// Longest line in bytes. JSON uses up to six bytes for one byte of text, and an
/// event has at most four long texts.
pub(crate) const MAX_LINE: usize = 512 * 1024;

/// Target of log lines whose content is also reported as an [`Event`].
pub(crate) const TOLD: &str = "cmp_supervisor::told";

/// A report from a private supervisor to the command that started it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum Event {
    /// The supervisor has tried all definitions, and the sockets of the served
    /// plugins answer.
    Ready {
        /// The tier of isolation.
        isolation: Tier,
        /// The enforced Landlock ABI version, or 0 for none.
        landlock: i32,
        /// Largest number of concurrent requests, including those being cleaned up.
        leases: u32,
        /// The reason why requests have no cgroups, or `None` if they have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        no_cgroups: Option<Text>,
        /// The reason why sockets of requests are not measured, or `None` if they are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unlisted_sockets: Option<Text>,
    },
    /// The supervisor cannot serve and ends.
    Failed {
        /// The reason and the remedy.
        reason: Text,
        /// The reasons why each requested tier is not available, if that is the cause.
        shortfalls: Vec<Shortfall>,
    },
    /// A plugin is not served with its current definition. Other plugins are.
    NotServed {
        /// Its name, if it is known.
        plugin: Option<String>,
        /// Its file in the plugins directory, if the definition is invalid.
        file: Option<Text>,
        /// The line of the mistake, counted from 1, if known.
        line: Option<usize>,
        /// The reason.
        reason: Text,
    },
    /// A plugin's command wrote a line.
    PluginOutput {
        /// The plugin's name.
        plugin: String,
        /// The stream that the command wrote to.
        stream: Stream,
        /// The line, without line feed.
        text: Text,
    },
    /// A request ended.
    Request {
        /// The plugin's name.
        plugin: String,
        /// The method that was called.
        method: Method,
        /// Its outcome.
        outcome: Outcome,
        /// Its duration in milliseconds.
        took_ms: f64,
        /// Its phases in order.
        phases: Vec<PhaseTime>,
        /// The UID of its commands, if any ran.
        uid: Option<u32>,
        /// The reason of discovery.
        reason: Option<Text>,
    },
    /// The sandbox refused an access to a command that is observed.
    Refused(Box<Refused>),
    /// The usage of a request whose commands are observed.
    Used(Box<Used>),
    /// Any other log message of level warning or error.
    Warning {
        /// The message with its fields.
        text: Text,
    },
}

/// An access that the sandbox refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refused {
    /// The plugin's name.
    pub plugin: String,
    /// The phase of the command.
    pub phase: Phase,
    /// The access and the kernel's reason.
    pub what: Text,
    /// The program that tried.
    pub program: Text,
    /// The remedy.
    pub advice: Text,
    /// The key that opens it.
    pub opening: Option<Opening>,
    /// The process that tried has failed.
    pub has_failed: bool,
}

/// The usage of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Used {
    /// The plugin's name.
    pub plugin: String,
    /// Most memory at a time in bytes.
    pub memory: u64,
    /// Most processes and threads at a time.
    pub processes: u64,
    /// Longest standard output in bytes.
    pub output: u64,
    /// Refusals and processes that were not observed.
    pub lost: u64,
    /// Paths in the plugin's `spec.sandbox.read`.
    pub read: Vec<Text>,
    /// TCP ports that the plugin may connect to; `None` for any.
    pub ports: Option<Vec<u16>>,
    /// TCP ports that its commands connected to.
    pub connected: BTreeSet<u16>,
    /// Its commands created internet sockets.
    pub is_online: bool,
    /// Variables of tools for the caches that its commands filled in their HOME.
    pub caches: BTreeSet<String>,
}

/// Output stream of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stream {
    /// Standard error.
    Stderr,
    /// Standard output.
    Stdout,
}

/// Duration of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PhaseTime {
    /// The phase.
    pub phase: Phase,
    /// Its duration in milliseconds.
    pub took_ms: f64,
}

#[cfg(test)]
mod tests;
