//! Putting a plugin's socket where clients look for it, and taking it away.

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
    plugin::{PluginDefinition, PluginName},
    request::Pipeline,
    supervisor::{Bind, Listener},
};

/// Who may connect: the repo-server, which has our user, and its group. The
/// users that commands run as may not.
const SOCKET_MODE: u32 = 0o660;

/// Longest path of a socket: what `sockaddr_un` holds, less the final NUL.
const MAX_PATH: usize = 107;

/// Longest path of the directory: the trial of the sandbox makes the longest
/// path in it.
const MAX_DIRECTORY: usize = MAX_PATH - "/.canary-4194304/socket".len();

/// How long a socket may take to answer for the first time.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);

/// How long nobody may come after the file is gone before the socket is closed:
/// a client may have found it by its name and not be in the queue yet.
const LINGER: Duration = Duration::from_millis(50);

/// How long it is tried to accept who is left when there are no descriptors.
const DRAIN: Duration = Duration::from_secs(10);

/// Pause after a connection could not be accepted for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What all plugins have in common.
#[derive(Clone, Debug)]
pub struct Common {
    /// What serves their requests.
    pub pipeline: Pipeline,
    /// Where they are counted.
    pub metrics: Metrics,
    /// Longest message in bytes.
    pub max_message: usize,
    /// Owns the tasks that serve connections, so that stopping can wait for them.
    pub connections: TaskTracker,
    /// Holds a token for each call.
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
    /// A binder for sockets in `directory`, which has to exist.
    pub fn new(directory: &Path, common: Common) -> io::Result<Self> {
        let length = directory.as_os_str().len();
        if length > MAX_DIRECTORY {
            return Err(io::Error::other(format!(
                "its path has {length} bytes, at most {MAX_DIRECTORY} are possible"
            )));
        }
        let staging = Arc::new(Staging::new(directory)?);
        Ok(Self { directory: directory.to_owned(), common, staging })
    }

    /// A socket that listens, but is not shown yet.
    fn stage(&self) -> io::Result<(UnixListener, PathBuf)> {
        let path = self.staging.path();
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(SOCKET_MODE))?;
        Ok((listener, path))
    }

    fn path(&self, name: &PluginName) -> io::Result<PathBuf> {
        let path = self.directory.join(name.socket_file());
        let length = path.as_os_str().len();
        if length > MAX_PATH {
            return Err(io::Error::other(format!(
                "listen unix {}: bind: invalid argument: the path has {length} bytes, at most \
                 {MAX_PATH} are possible: shorten the plugin's name, or choose a shorter --socket-dir",
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
        let door = Door { socket, server, definitions, retired, shown };
        self.common.connections.spawn(door.serve());
        // Only what answers is shown: a client waits for ever on what does not.
        let probe = timeout(PROBE_PATIENCE, Client::probe(&staged)).await;
        let answers = probe.map_err(io::Error::from).flatten();
        let staging = Arc::clone(&self.staging);
        let shown = answers.and_then(|()| Shown::new(path, &staged, staging, metrics));
        let shown = shown.inspect_err(|_| {
            // If that fails too, it goes with its directory.
            let _ = fs::remove_file(&staged);
        });
        // If the door is closed already, the file goes again at once.
        let _ = show.send(shown?);
        Ok(listener)
    }
}

/// A socket's file among those that clients see.
#[derive(Debug)]
struct Shown {
    path: PathBuf,
    file: Identity,
    staging: Arc<Staging>,
    metrics: PluginMetrics,
}

impl Shown {
    /// Moves a socket that is listening to its place, over what is there.
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

impl Drop for Shown {
    fn drop(&mut self) {
        self.metrics.set_up(false);
        // A successor may have put its own socket in this place.
        if let Err(error) = self.staging.remove(&self.path, self.file) {
            warn!(path = %self.path.display(), %error, "cannot remove a plugin's socket");
        }
    }
}

/// A listening socket and what becomes of those who come.
struct Door {
    socket: UnixListener,
    server: Server,
    definitions: watch::Receiver<Arc<PluginDefinition>>,
    retired: CancellationToken,
    /// The socket's file, once it is shown.
    shown: oneshot::Receiver<Shown>,
}

impl Door {
    /// Accepts until the plugin is retired, and then whoever came before the
    /// file was gone: a client that is left in the queue waits for ever.
    async fn serve(mut self) {
        loop {
            tokio::select! {
                biased;
                () = self.retired.cancelled() => break,
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, _)) => self.welcome(stream),
                    Err(error) => {
                        warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        // The file goes first: by the time the last have been let in, another
        // socket may be in its place.
        drop(self.shown.try_recv());
        self.drain().await;
    }

    /// Accepts who is left. One that is closed on unanswered waits for ever.
    async fn drain(&self) {
        let latest = Instant::now() + DRAIN;
        loop {
            match timeout(LINGER, self.socket.accept()).await {
                Ok(Ok((stream, _))) => self.welcome(stream),
                Ok(Err(_)) if Instant::now() < latest => sleep(ACCEPT_PAUSE).await,
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }

    fn welcome(&self, stream: UnixStream) {
        self.server.serve(stream, Arc::clone(&self.definitions.borrow()));
    }
}
