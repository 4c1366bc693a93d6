//! The recorders of requests, in addition to metrics and logs.

use crate::{
    bundle::{Keeper, Keeping},
    traces::Tracer,
};

/// Records requests.
pub(super) struct Recorders {
    /// Keeps failed requests.
    pub(super) keeper: Keeper,
    /// Writes them; `None` if none are kept.
    pub(super) keeping: Option<Keeping>,
    /// Begins the traces of requests.
    pub(super) tracer: Tracer,
}
