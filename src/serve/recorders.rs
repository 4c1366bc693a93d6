//! The recorders of requests, in addition to metrics and logs.

use crate::{bundle::Keeper, traces::Tracer};

/// Records requests.
pub(super) struct Recorders {
    /// Keeps failed requests.
    pub(super) keeper: Keeper,
    /// Begins the traces of requests.
    pub(super) tracer: Tracer,
}
