//! Takes failed requests while the supervisor runs, and writes their bundles.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc::{self, error::TrySendError};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{archive, directory::Directory, record::Failed};
use crate::{
    evidence::{Copies, Evidence},
    recent::Entry,
    volume::FileThread,
};

/// Failed requests that wait for their bundles to be written. Further ones are
/// dropped.
const QUEUE: usize = 8;

/// Takes failed requests. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Keeper(Option<(mpsc::Sender<Failed>, Copies)>);

/// Writes the bundles of failed requests.
#[derive(Debug)]
pub struct Keeping {
    failed: mpsc::Receiver<Failed>,
    directory: Directory,
    files: FileThread,
}

impl Keeper {
    /// A keeper for a directory, and the work that fills it.
    #[must_use]
    pub fn new(directory: Directory) -> (Self, Keeping) {
        let (sender, failed) = mpsc::channel(QUEUE);
        let keeping = Keeping { failed, directory, files: FileThread::new() };
        (Self(Some((sender, Copies::default()))), keeping)
    }

    /// The evidence of a new request; `None` if failed requests are not kept.
    #[must_use]
    pub fn evidence(&self) -> Option<Evidence> {
        self.0.as_ref().map(|(_, copies)| Evidence::new(copies))
    }

    /// Takes a failed request. If too many wait, it is dropped with a warning.
    pub fn keep(&self, failed: Failed) {
        let Some((sender, _)) = &self.0 else { return };
        match sender.try_send(failed) {
            Ok(()) => {}
            Err(TrySendError::Full(Failed { entry, .. })) => {
                let Entry { plugin, request_id, .. } = entry;
                warn!(
                    plugin,
                    request_id,
                    limit = QUEUE,
                    "a failed request is not kept: too many wait to be written"
                );
            }
            Err(TrySendError::Closed(Failed { entry, .. })) => {
                let Entry { plugin, request_id, .. } = entry;
                warn!(plugin, request_id, "a failed request is not kept: the supervisor ends");
            }
        }
    }
}

impl Keeping {
    /// Writes bundles until no request runs any more, and then those that wait.
    pub async fn run(mut self, drained: CancellationToken) {
        let directory = self.directory.clone();
        let tidied = self.files.run(move || directory.tidy()).await;
        if let Err(error) = tidied.flatten() {
            let directory = self.directory.path().display();
            warn!(%directory, %error, "cannot remove old bundles of failed requests");
        }
        while let Some(failed) = drained.run_until_cancelled(self.failed.recv()).await.flatten() {
            self.write(failed).await;
        }
        // A request that fails from now on is told that it is too late.
        self.failed.close();
        while let Ok(failed) = self.failed.try_recv() {
            self.write(failed).await;
        }
    }

    async fn write(&self, failed: Failed) {
        let (id, directory) = (failed.entry.request_id.clone(), self.directory.clone());
        let plugin = failed.entry.plugin.clone();
        let kept = id.clone();
        let write =
            move || archive::pack(&failed).and_then(|bundle| directory.keep(now(), &id, &bundle));
        match self.files.run(write).await.flatten() {
            Ok(()) => info!(request_id = kept, plugin, "kept a bundle of the failed request"),
            Err(error) => {
                let directory = self.directory.path().display();
                warn!(request_id = kept, plugin, %directory, %error, "cannot keep a bundle of the failed request");
            }
        }
    }
}

/// Milliseconds of the clock.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
