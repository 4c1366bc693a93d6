//! Accepts the connections of one plugin's socket.

use std::{
    fs, io, mem,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{UnixListener, UnixStream, unix::SocketAddr},
    sync::oneshot,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{connection::Server, leftovers::Leftovers, staging::Staging};
use crate::{accept::AcceptErrors, request::admission::NewestDefinition, supervisor::FileIdentity};

/// After the file is removed, the socket closes once no client has come for this
/// time. A client may have resolved the name without having connected yet.
const LINGER: Duration = Duration::from_millis(50);

/// Longest time spent on waiting clients if there are no file descriptors left.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after a waiting client could not be accepted.
const DRAIN_PAUSE: Duration = Duration::from_millis(100);

/// A socket's file in the directory that clients see.
#[derive(Debug)]
pub(super) struct PublishedSocket {
    path: PathBuf,
    file: FileIdentity,
    staging: Arc<Staging>,
    leftovers: Leftovers,
}

impl PublishedSocket {
    /// Moves a listening socket to its final path, over any file that is there.
    pub(super) fn new(
        path: PathBuf,
        staged: &Path,
        staging: Arc<Staging>,
        leftovers: Leftovers,
    ) -> io::Result<Self> {
        let file = FileIdentity::of(staged)?;
        fs::rename(staged, &path).map_err(|error| {
            let shown = path.display();
            if path.is_dir() {
                return io::Error::other(format!("{shown} is a directory: remove it"));
            }
            error
        })?;
        Ok(Self { path, file, staging, leftovers })
    }

    pub(super) fn file(&self) -> FileIdentity {
        self.file
    }
}

impl Drop for PublishedSocket {
    fn drop(&mut self) {
        // A successor may have put its own socket at this path.
        if let Err(error) = self.staging.remove(&self.path, self.file) {
            warn!(path = %self.path.display(), %error, "cannot remove a plugin's socket yet");
            self.leftovers.add(mem::take(&mut self.path), self.file);
        }
    }
}

/// Accepts the connections of one plugin's socket.
pub(super) struct Acceptor {
    pub(super) socket: UnixListener,
    pub(super) server: Server,
    pub(super) definitions: NewestDefinition,
    pub(super) retired: CancellationToken,
    /// The socket's file, as soon as it is visible.
    pub(super) shown: oneshot::Receiver<PublishedSocket>,
}

impl Acceptor {
    /// Accepts until the plugin is retired, then accepts all clients that
    /// connected before the file was removed: they would otherwise wait for ever.
    pub(super) async fn serve(mut self) {
        let mut errors = AcceptErrors::new("a connection of a plugin's client");
        let mut definitions = self.definitions.clone();
        // Requests of an earlier socket may wait with an older limit.
        definitions.mark_changed();
        loop {
            tokio::select! {
                biased;
                () = self.retired.cancelled() => break,
                Ok(()) = definitions.changed() => self.server.follow(&definitions),
                accepted = self.accept() => match accepted {
                    Ok((stream, _)) => {
                        errors.accepted();
                        self.spawn_connection(stream);
                    }
                    Err(error) => errors.pause(&error).await,
                },
            }
        }
        // Remove the file first: another socket may be at its path by the time the
        // last clients are accepted.
        drop(self.shown.try_recv());
        self.drain().await;
    }

    /// Accepts a client once there is room for it.
    async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        self.server.room().free().await;
        self.socket.accept().await
    }

    /// Accepts the clients that still wait.
    async fn drain(&self) {
        let latest = Instant::now() + QUEUE_TIMEOUT;
        loop {
            match timeout(LINGER, self.socket.accept()).await {
                Ok(Ok((stream, _))) => self.spawn_connection(stream),
                Ok(Err(_)) if Instant::now() < latest => sleep(DRAIN_PAUSE).await,
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }

    fn spawn_connection(&self, stream: UnixStream) {
        self.server.serve(stream, self.definitions.clone());
    }
}
