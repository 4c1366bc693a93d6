//! Notifications from the kernel about changes in the directory of sockets.

use std::{
    path::{Path, PathBuf, absolute},
    sync::{Arc, Mutex, PoisonError},
};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tracing::{info, warn};

use crate::{
    plugin::SOCKET_SUFFIX,
    watcher::{self, Unwatched},
};

/// Watches the directory. A notification is only a hint: sockets are also
/// examined at regular intervals.
#[derive(Debug)]
pub(super) struct SocketWatch {
    directory: PathBuf,
    hints: Arc<Notify>,
    state: Mutex<WatchState>,
}

#[derive(Debug, Default)]
struct WatchState {
    watcher: Option<RecommendedWatcher>,
    /// True if the last attempt failed, so that it is logged once.
    failed: bool,
}

impl SocketWatch {
    /// A watch that gives no hints yet; [`Self::renew`] starts it.
    pub(super) fn new(directory: &Path) -> Self {
        // notify uses absolute paths in its events.
        let directory = absolute(directory).unwrap_or_else(|_empty| directory.to_owned());
        Self { directory, hints: Arc::default(), state: Mutex::default() }
    }

    /// Adds the watch if it is missing. The kernel removes it silently with the
    /// directory; adding an existing watch has no effect.
    pub(super) fn renew(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let added = self.add(&mut state.watcher);
        match &added {
            Err(error) if !state.failed => {
                warn!(error = %Unwatched(error), "cannot watch the directory of sockets: examining it at intervals");
            }
            Ok(()) if state.failed => info!("watching the directory of sockets again"),
            Ok(()) | Err(_) => {}
        }
        state.failed = added.is_err();
    }

    /// Waits for a change.
    pub(super) async fn changed(&self) {
        self.hints.notified().await;
    }

    fn add(&self, watcher: &mut Option<RecommendedWatcher>) -> notify::Result<()> {
        let watcher = match watcher {
            Some(watcher) => watcher,
            None => watcher.insert(self.start()?),
        };
        watcher.watch(&self.directory, RecursiveMode::NonRecursive)
    }

    fn start(&self) -> notify::Result<RecommendedWatcher> {
        let (hints, directory) = (Arc::clone(&self.hints), self.directory.clone());
        watcher::start(move |event: notify::Result<Event>| {
            let is_hint = match &event {
                Err(_) => true,
                Ok(event) => {
                    !matches!(event.kind, EventKind::Access(_)) && concerns(event, &directory)
                }
            };
            if is_hint {
                hints.notify_one();
            }
        })
    }
}

/// True if an event concerns the directory itself or a socket, and not the
/// directory in which sockets are created.
fn concerns(event: &Event, directory: &Path) -> bool {
    let is_socket =
        |path: &Path| path.as_os_str().as_encoded_bytes().ends_with(SOCKET_SUFFIX.as_bytes());
    event.paths.is_empty() || event.paths.iter().any(|path| path == directory || is_socket(path))
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use tokio::time::timeout;

    use super::*;

    /// Waits for a hint, which may come late on a busy machine.
    async fn is_hinted(watch: &SocketWatch) -> bool {
        timeout(Duration::from_mins(1), watch.changed()).await.is_ok()
    }

    /// True if no hint comes for a while.
    async fn is_quiet(watch: &SocketWatch) -> bool {
        timeout(Duration::from_millis(300), watch.changed()).await.is_err()
    }

    #[tokio::test]
    async fn removing_a_socket_is_a_hint_and_another_file_is_none() {
        let sockets = tempfile::tempdir().unwrap();
        let path = sockets.path().join("a.sock");
        fs::write(&path, "").unwrap();
        let watch = SocketWatch::new(sockets.path());
        watch.renew();
        fs::write(sockets.path().join("other"), "").unwrap();
        assert!(is_quiet(&watch).await);
        fs::remove_file(&path).unwrap();
        assert!(is_hinted(&watch).await);
    }

    #[tokio::test]
    async fn a_directory_that_was_replaced_is_watched_again() {
        let root = tempfile::tempdir().unwrap();
        let sockets = root.path().join("sockets");
        fs::create_dir(&sockets).unwrap();
        let watch = SocketWatch::new(&sockets);
        watch.renew();
        fs::remove_dir(&sockets).unwrap();
        assert!(is_hinted(&watch).await);
        fs::create_dir(&sockets).unwrap();
        watch.renew();
        while !is_quiet(&watch).await {}
        fs::write(sockets.join("a.sock"), "").unwrap();
        assert!(is_hinted(&watch).await);
    }
}
