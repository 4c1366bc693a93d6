//! Notifications from the kernel about changed definitions.

use std::{
    collections::BTreeSet,
    path::{PathBuf, absolute},
};

use notify::{
    ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
};
use rustix::io::Errno;
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::Places;
use crate::{
    metrics::{Metrics, WatchError},
    watcher::{self, Unwatched},
};

/// Watches the places of definitions. A notification is only a hint, because
/// definitions are also read at regular intervals.
#[derive(Debug)]
pub(super) struct Watch {
    hints: mpsc::Sender<()>,
    metrics: Metrics,
    /// Directories with definitions. Their parents are watched too, to notice
    /// that a directory was created or replaced.
    directories: Vec<PathBuf>,
    /// The directories that exist.
    present: BTreeSet<PathBuf>,
    watcher: Option<RecommendedWatcher>,
    /// Error of the last attempt, so that it is logged and counted once.
    last_error: Option<String>,
}

impl Watch {
    /// A watch without directories; [`Self::renew`] adds them.
    pub(super) fn new(places: &Places, hints: mpsc::Sender<()>, metrics: Metrics) -> Self {
        let directories = places.directory.as_deref().into_iter().chain(places.single_directory());
        // notify uses absolute paths in its events.
        let directories = directories.filter_map(|path| absolute(path).ok()).collect();
        let present = BTreeSet::new();
        Self { hints, metrics, directories, present, watcher: None, last_error: None }
    }

    /// Adds missing watches. Returns true if all directories are watched. The
    /// kernel silently removes a watch with its directory or mount; adding an
    /// existing watch has no effect.
    pub(super) fn renew(&mut self) -> bool {
        let error = self.add_all().err();
        let text = error.as_ref().map(ToString::to_string);
        if text != self.last_error {
            if let Some(error) = &error {
                self.metrics.watch_error(reason(error));
                warn!(error = %Unwatched(error), "cannot watch the plugins directory: reading it every second instead");
            } else {
                info!("watching the plugins directory again");
            }
        }
        self.last_error = text;
        self.metrics.watching(error.is_none());
        error.is_none()
    }

    fn add_all(&mut self) -> notify::Result<()> {
        let mut watcher = match self.watcher.take() {
            Some(watcher) => watcher,
            None => self.start()?,
        };
        let mut result = Ok(());
        for directory in &self.directories {
            let parent = directory.parent().unwrap_or(directory);
            let above = watcher.watch(parent, RecursiveMode::NonRecursive);
            let inside = watcher.watch(directory, RecursiveMode::NonRecursive);
            let is_missing = matches!(&inside, Err(error) if is_missing(error));
            if !is_missing {
                self.present.insert(directory.clone());
            } else if self.present.remove(directory) {
                self.metrics.watch_error(WatchError::Lost);
            }
            // The watch of the parent reports that the directory is created. If the
            // parent cannot be watched, only regular reading notices this.
            result = result.and(if is_missing { above } else { inside });
        }
        self.watcher = Some(watcher);
        result
    }

    fn start(&self) -> notify::Result<RecommendedWatcher> {
        let (hints, metrics) = (self.hints.clone(), self.metrics.clone());
        let directories = self.directories.clone();
        watcher::start(move |event: notify::Result<Event>| {
            let is_hint = match &event {
                Err(error) => {
                    metrics.watch_error(reason(error));
                    true
                }
                Ok(event) if event.need_rescan() => {
                    metrics.watch_error(WatchError::Overflow);
                    true
                }
                Ok(event) => !is_reading(event.kind) && concerns(event, &directories),
            };
            if is_hint {
                // If the channel is full, a hint is already waiting.
                let _ = hints.try_send(());
            }
        })
    }
}

/// True for events that reading causes, because our own reads are no hint.
fn is_reading(kind: EventKind) -> bool {
    let written = AccessKind::Close(AccessMode::Write);
    matches!(kind, EventKind::Access(access) if access != written)
}

/// True if an event concerns a watched directory or its content.
fn concerns(event: &Event, directories: &[PathBuf]) -> bool {
    let within = |path: &PathBuf| directories.iter().any(|directory| path.starts_with(directory));
    event.paths.is_empty() || event.paths.iter().any(within)
}

fn is_missing(error: &notify::Error) -> bool {
    matches!(error.kind, ErrorKind::PathNotFound | ErrorKind::WatchNotFound)
}

fn reason(error: &notify::Error) -> WatchError {
    // No more descriptors for the process or the system, or watches for the UID.
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOSPC].map(Errno::raw_os_error);
    match &error.kind {
        ErrorKind::MaxFilesWatch => WatchError::Exhausted,
        ErrorKind::PathNotFound | ErrorKind::WatchNotFound => WatchError::Lost,
        ErrorKind::Io(error) => match error.raw_os_error() {
            Some(code) if exhausted.contains(&code) => WatchError::Exhausted,
            _ => WatchError::Io,
        },
        ErrorKind::Generic(_) | ErrorKind::InvalidConfig(_) => WatchError::Io,
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, time::Duration};

    use tokio::time::timeout;

    use super::*;

    fn watch(directory: &Path) -> (Watch, mpsc::Receiver<()>) {
        let (hints, receiver) = mpsc::channel(1);
        let places = Places { directory: Some(directory.to_owned()), single: None };
        (Watch::new(&places, hints, Metrics::new()), receiver)
    }

    /// Waits for a hint, which may come late on a busy machine.
    async fn hinted(hints: &mut mpsc::Receiver<()>) -> bool {
        timeout(Duration::from_mins(1), hints.recv()).await.is_ok()
    }

    /// True if no hint comes for a while.
    async fn quiet(hints: &mut mpsc::Receiver<()>) -> bool {
        timeout(Duration::from_millis(300), hints.recv()).await.is_err()
    }

    #[tokio::test]
    async fn only_writing_is_a_hint() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a.yaml");
        fs::write(&file, "text").unwrap();
        let (mut watch, mut hints) = watch(root.path());
        assert!(watch.renew());
        fs::read(&file).unwrap();
        fs::read_dir(root.path()).unwrap().count();
        assert!(quiet(&mut hints).await);
        fs::write(&file, "other").unwrap();
        assert!(hinted(&mut hints).await);
    }

    #[tokio::test]
    async fn changes_next_to_the_directory_are_no_hint() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("plugins.d");
        fs::create_dir(&directory).unwrap();
        let (mut watch, mut hints) = watch(&directory);
        assert!(watch.renew());
        fs::write(root.path().join("other"), "").unwrap();
        fs::create_dir(root.path().join("plugins.d2")).unwrap();
        assert!(quiet(&mut hints).await);
        fs::rename(&directory, root.path().join("away")).unwrap();
        assert!(hinted(&mut hints).await);
    }

    #[tokio::test]
    async fn a_directory_that_is_replaced_is_watched_again() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("plugins.d");
        fs::create_dir(&directory).unwrap();
        let (mut watch, mut hints) = watch(&directory);
        assert!(watch.renew());
        fs::remove_dir(&directory).unwrap();
        assert!(hinted(&mut hints).await);
        assert!(watch.renew(), "the parent is watched");
        fs::create_dir(&directory).unwrap();
        assert!(hinted(&mut hints).await);
        while !quiet(&mut hints).await {}
        assert!(watch.renew());
        fs::write(directory.join("a.yaml"), "").unwrap();
        assert!(hinted(&mut hints).await);
    }

    #[tokio::test]
    async fn a_missing_parent_cannot_be_watched() {
        let root = tempfile::tempdir().unwrap();
        let (mut watch, mut hints) = watch(&root.path().join("missing/plugins.d"));
        assert!(!watch.renew());
        fs::create_dir_all(root.path().join("missing")).unwrap();
        assert!(watch.renew());
        fs::create_dir(root.path().join("missing/plugins.d")).unwrap();
        assert!(hinted(&mut hints).await);
    }
}
