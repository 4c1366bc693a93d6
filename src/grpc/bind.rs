//! Creates a plugin's socket in the directory that clients search, and removes it.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{UnixListener, UnixStream},
    sync::{oneshot, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

use super::{
    client::Client,
    connection::Server,
    staging::{Identity, Staging},
};
use crate::{
    metrics::{Metrics, PluginMetrics},
    plugin::{MAX_SOCKET_PATH, PluginDefinition, PluginName},
    request::Pipeline,
    supervisor::{Bind, Listener},
};

/// The repo-server, which has our UID, and members of our group may connect.
/// The UIDs that commands run under may not.
const SOCKET_MODE: u32 = 0o660;

/// Longest path of the directory. The sandbox's trial creates the longest path
/// in it.
const MAX_DIRECTORY: usize = MAX_SOCKET_PATH - "/.canary-0123456/socket".len();

/// Longest wait for a new socket's first answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// After the file is removed, the socket closes once no client has come for this
/// time. A client may have resolved the name without having connected yet.
const LINGER: Duration = Duration::from_millis(50);

/// Longest time spent on waiting clients if there are no file descriptors left.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after a connection could not be accepted, usually for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The parts that all plugins share.
#[derive(Clone, Debug)]
pub struct Common {
    /// Serves the plugins' requests.
    pub pipeline: Pipeline,
    /// Counts the requests.
    pub metrics: Metrics,
    /// Longest message in bytes.
    pub max_message: usize,
    /// Owns the tasks that serve connections, so that shutdown can wait for them.
    pub connections: TaskTracker,
    /// Holds a token for each running call.
    pub calls: TaskTracker,
}

/// Serves plugins on sockets in one directory.
#[derive(Debug)]
pub struct Binder {
    directory: PathBuf,
    common: Common,
    staging: Arc<Staging>,
}

impl Binder {
    /// Creates a binder for sockets in `directory`, which must exist.
    pub fn new(directory: &Path, common: Common) -> io::Result<Self> {
        let length = directory.as_os_str().len();
        if length > MAX_DIRECTORY {
            return Err(io::Error::other(format!(
                "its path has {length} bytes; the limit is {MAX_DIRECTORY}"
            )));
        }
        let staging = Arc::new(Staging::new(directory)?);
        Ok(Self { directory: directory.to_owned(), common, staging })
    }

    /// Creates a socket that listens but is not visible to clients yet.
    fn stage(&self) -> io::Result<(UnixListener, PathBuf)> {
        let path = self.staging.path();
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(SOCKET_MODE))?;
        Ok((listener, path))
    }

    fn path(&self, name: &PluginName) -> io::Result<PathBuf> {
        let path = self.directory.join(name.socket_file());
        let length = path.as_os_str().len();
        if length > MAX_SOCKET_PATH {
            return Err(io::Error::other(format!(
                "listen unix {}: bind: invalid argument: the path has {length} bytes; the limit \
                 is {MAX_SOCKET_PATH}: shorten the plugin's name, or choose a shorter --socket-dir",
                path.display()
            )));
        }
        Ok(path)
    }
}

impl Bind for Binder {
    async fn bind(&self, definition: Arc<PluginDefinition>) -> io::Result<Listener> {
        let path = self.path(&definition.name)?;
        let (socket, staged) = self.stage()?;
        let metrics = self.common.metrics.plugin(definition.name.as_str());
        let server = Server::new(&self.common, metrics.clone())?;
        let (listener, definitions, retired) = Listener::new(definition);
        let (show, shown) = oneshot::channel();
        let acceptor = Acceptor { socket, server, definitions, retired, shown };
        self.common.connections.spawn(acceptor.serve());
        // A socket without an answer stays hidden: its clients would wait for ever.
        let probe = timeout(PROBE_TIMEOUT, Client::probe(&staged)).await;
        let answers = probe.map_err(io::Error::from).flatten();
        let staging = Arc::clone(&self.staging);
        let shown = answers.and_then(|()| PublishedSocket::new(path, &staged, staging, metrics));
        let shown = shown.inspect_err(|_| {
            // If this fails too, the file is removed with its directory.
            let _ = fs::remove_file(&staged);
        });
        // If the acceptor has already ended, this removes the file at once.
        let _ = show.send(shown?);
        Ok(listener)
    }
}

/// A socket's file in the directory that clients see.
#[derive(Debug)]
struct PublishedSocket {
    path: PathBuf,
    file: Identity,
    staging: Arc<Staging>,
    metrics: PluginMetrics,
}

impl PublishedSocket {
    /// Moves a listening socket to its final path, over any file that is there.
    fn new(
        path: PathBuf,
        staged: &Path,
        staging: Arc<Staging>,
        metrics: PluginMetrics,
    ) -> io::Result<Self> {
        let file = Identity::of(staged)?;
        fs::rename(staged, &path)?;
        metrics.set_up(true);
        Ok(Self { path, file, staging, metrics })
    }
}

impl Drop for PublishedSocket {
    fn drop(&mut self) {
        self.metrics.set_up(false);
        // A successor may have put its own socket at this path.
        if let Err(error) = self.staging.remove(&self.path, self.file) {
            warn!(path = %self.path.display(), %error, "cannot remove a plugin's socket");
        }
    }
}

/// Accepts the connections of one plugin's socket.
struct Acceptor {
    socket: UnixListener,
    server: Server,
    definitions: watch::Receiver<Arc<PluginDefinition>>,
    retired: CancellationToken,
    /// The socket's file, as soon as it is visible.
    shown: oneshot::Receiver<PublishedSocket>,
}

impl Acceptor {
    /// Accepts until the plugin is retired, then accepts all clients that
    /// connected before the file was removed: they would otherwise wait for ever.
    async fn serve(mut self) {
        loop {
            tokio::select! {
                biased;
                () = self.retired.cancelled() => break,
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, _)) => self.spawn_connection(stream),
                    Err(error) => {
                        warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        // Remove the file first: another socket may be at its path by the time the
        // last clients are accepted.
        drop(self.shown.try_recv());
        self.drain().await;
    }

    /// Accepts the clients that still wait.
    async fn drain(&self) {
        let latest = Instant::now() + DRAIN_TIMEOUT;
        loop {
            match timeout(LINGER, self.socket.accept()).await {
                Ok(Ok((stream, _))) => self.spawn_connection(stream),
                Ok(Err(_)) if Instant::now() < latest => sleep(ACCEPT_PAUSE).await,
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }

    fn spawn_connection(&self, stream: UnixStream) {
        self.server.serve(stream, Arc::clone(&self.definitions.borrow()));
    }
}
