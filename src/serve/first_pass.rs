//! The first attempt to serve all plugins.

use std::{future::pending, path::PathBuf};

use tokio::sync::watch;
use tracing::{info, warn};

use super::NotServing;
use crate::{
    event::{self, Event},
    grpc::sweep,
    state::State,
};

/// Reports ready once every initial plugin has been tried. It stays ready after
/// that, because one bad plugin must not stop all others. Then removes the
/// sockets of earlier processes.
pub(super) async fn report_ready(state: watch::Sender<State>, sockets: PathBuf, event: Event) {
    let mut states = state.subscribe();
    let Ok(defined) = states.wait_for(State::is_useful).await.map(|now| now.desired.clone()) else {
        return;
    };
    state.send_modify(|state| state.started = true);
    info!("ready");
    event::tell(|| event);
    // Not earlier: sockets of defined plugins are taken over one by one.
    if let Err(error) = sweep(&sockets, &defined).await {
        warn!(%error, "cannot remove sockets without a server");
    }
}

/// Returns an error if the first pass could serve no plugin; otherwise it never returns.
pub(super) async fn unserved(mut states: watch::Receiver<State>) -> NotServing {
    let first = states.wait_for(|state| state.tried.is_some()).await;
    let failed = first.ok().filter(|now| now.served.is_empty()).map(|now| now.failed.clone());
    match failed.and_then(|mut failed| failed.pop_first()) {
        Some((plugin, reason)) => NotServing::Unserved(plugin, reason),
        None => pending().await,
    }
}
