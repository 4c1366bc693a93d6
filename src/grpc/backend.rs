//! The parts behind the services of all plugins.

use std::time::Duration;

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{open_calls::OpenCalls, room::Room, stream::Drains};
use crate::{
    bundle::Keeper,
    metrics::Metrics,
    recent::Recent,
    request::{ArchiveShare, Pipeline},
    traces::Tracer,
};

/// The parts behind the services of all plugins. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Backend {
    /// Serves the plugins' requests.
    pub pipeline: Pipeline,
    /// Memory for archives, which also lends that of wide windows.
    pub archive_share: ArchiveShare,
    /// Counts the requests.
    pub metrics: Metrics,
    /// Records the requests.
    pub recorders: Recorders,
    /// Longest message in bytes.
    pub max_message: usize,
    /// Turns of ended requests whose streams are read.
    pub drains: Drains,
    /// Longest time in which a client sends too little.
    pub stream_timeout: Duration,
    /// Room for connections.
    pub room: Room,
    /// Counts the calls of all plugins.
    pub open_calls: OpenCalls,
    /// Owns the tasks that serve connections, so that shutdown can wait for them.
    pub connections: TaskTracker,
    /// Holds a token for each running call.
    pub calls: TaskTracker,
    /// Holds a token for each answer that is not sent yet. Its call has ended.
    pub answers: TaskTracker,
    /// Cancelled when the supervisor cuts off all requests.
    pub cut_off: CancellationToken,
}

/// The recorders of calls, in addition to metrics and logs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorders {
    /// Keeps the last requests.
    pub recent: Recent,
    /// Keeps the last failed requests.
    pub keeper: Keeper,
    /// Begins the traces of requests.
    pub tracer: Tracer,
}
