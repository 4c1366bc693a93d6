//! Takes failed requests while the supervisor runs, and writes their bundles.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc::{self, error::TrySendError};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    archive,
    directory::Directory,
    record::{Archived, Printed, Record},
};
use crate::{
    evidence::{Copies, Evidence, NotCopied},
    recent::Entry,
    volume::FileThread,
};

/// Failed requests that wait for their bundles to be written. Further ones are
/// dropped.
const QUEUE: usize = 8;

/// A failed request.
#[derive(Debug)]
pub struct Failed {
    /// The request, with names and errors.
    pub entry: Entry,
    /// Its content.
    pub evidence: Evidence,
}

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

impl Failed {
    /// The description of the request.
    #[must_use]
    pub fn record(&self) -> Record {
        let Self { entry, evidence } = self;
        let error = entry.error.as_ref().map(ToString::to_string);
        let outputs = evidence.commands.iter().map(|command| Printed {
            phase: command.phase.as_str().to_owned(),
            stdout_bytes: command.stdout_bytes as u64,
            is_left_out: command.stdout.is_none(),
        });
        let shown = Entry { error: None, application: None, ..entry.clone() };
        Record {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            request_id: entry.request_id.clone(),
            plugin: entry.plugin.clone(),
            application: entry.application.clone().unwrap_or_default(),
            error: error.unwrap_or_default(),
            // An entry has only keys and values that JSON has.
            request: serde_json::to_value(shown).unwrap_or_default(),
            limits: evidence
                .limits
                .iter()
                .map(|(name, limit)| ((*name).to_owned(), *limit))
                .collect(),
            directory: evidence.asked.directory.clone(),
            environment: evidence.asked.environment.clone(),
            archive: Archived {
                sha256: evidence.asked.checksum.clone(),
                bytes: entry.received_bytes,
                left_out: evidence.archive.pieces().err().map(NotCopied::reason),
            },
            outputs: outputs.collect(),
            outputs_left_out: None,
        }
    }
}
