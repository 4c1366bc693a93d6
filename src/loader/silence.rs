//! Notices that the places of definitions do not answer.

use std::path::PathBuf;

use tokio::{
    sync::watch::Sender,
    task::{JoinError, JoinHandle},
    time::timeout,
};

use super::{Loader, NoSnapshot, log_kept};
use crate::{
    metrics::{Metrics, Reload},
    state::{Kept, State},
    volume::{ANSWER, silent},
};

/// Reports reads that take too long. Until they end, the loader can say nothing.
#[derive(Debug)]
pub(super) struct Silence {
    path: PathBuf,
    state: Sender<State>,
    metrics: Metrics,
}

impl Silence {
    pub(super) fn of(loader: &Loader) -> Self {
        let Loader { reader, state, metrics, .. } = loader;
        let places = &reader.places;
        let path = places.directory.as_deref().or(places.single_directory()).unwrap_or("".as_ref());
        Self { path: path.to_owned(), state: state.clone(), metrics: metrics.clone() }
    }

    /// Waits for a read, and reports meanwhile that it does not end.
    pub(super) async fn watch<T>(&self, mut read: JoinHandle<T>) -> Result<T, JoinError> {
        if let Ok(ended) = timeout(ANSWER, &mut read).await {
            return ended;
        }
        self.report();
        read.await
    }

    fn report(&self) {
        let error = NoSnapshot::List { path: self.path.clone(), error: silent(ANSWER) };
        let kept = Kept { reason: error.to_string(), seconds_left: None };
        log_kept(&self.state.borrow(), &kept);
        self.state.send_modify(|state| {
            state.result = Reload::Rejected;
            state.kept = Some(kept);
        });
        self.metrics.reloaded(Reload::Rejected, ANSWER);
        self.metrics.configured(&self.state.borrow().configured());
    }
}
