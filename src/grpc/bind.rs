//! Putting a plugin's socket where clients look for it, and taking it away.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    net::{UnixListener, UnixStream},
    sync::{oneshot, watch},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

use super::{client::Client, connection::Server};
use crate::{
    metrics::{Metrics, PluginMetrics},
    plugin::{PluginDefinition, PluginName},
    request::Pipeline,
    supervisor::{Bind, Listener},
};

/// Where sockets are made before they are shown: a directory, because clients
/// take every socket in their own for a plugin.
const STAGING: &str = ".staging";

/// Who may connect: the repo-server, which has our user, and its group. The
/// users that commands run as may not.
const SOCKET_MODE: u32 = 0o660;

/// Longest path of a socket: what `sockaddr_un` holds, less the final NUL.
const MAX_PATH: usize = 107;

/// How long a socket may take to answer for the first time.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);

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
    staged: AtomicU64,
}

impl Binder {
    /// A binder for sockets in `directory`, which has to exist.
    pub fn new(directory: &Path, common: Common) -> io::Result<Self> {
        let staging = directory.join(STAGING);
        // What a predecessor did not get to show is nobody's.
        match fs::remove_dir_all(&staging) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        fs::DirBuilder::new().mode(0o700).create(&staging)?;
        Ok(Self { directory: directory.to_owned(), common, staged: AtomicU64::new(0) })
    }

    /// A socket that listens, but is not shown yet.
    fn stage(&self) -> io::Result<(UnixListener, PathBuf)> {
        let number = self.staged.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(STAGING).join(number.to_string());
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(SOCKET_MODE))?;
        Ok((listener, path))
    }

    fn path(&self, name: &PluginName) -> io::Result<PathBuf> {
        let path = self.directory.join(name.socket_file());
        let length = path.as_os_str().len();
        if length > MAX_PATH {
            return Err(io::Error::other(format!(
                "the socket's path {} has {length} bytes and may have {MAX_PATH}: shorten the \
                 plugin's name, or choose a shorter --socket-dir",
                path.display()
            )));
        }
        Ok(path)
    }
}

impl Drop for Binder {
    fn drop(&mut self) {
        // It is empty; if not, the next binder clears it.
        let _ = fs::remove_dir(self.directory.join(STAGING));
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
        timeout(PROBE_PATIENCE, Client::probe(&staged)).await??;
        // If the door is closed already, the file goes again at once.
        let _ = show.send(Shown::new(path, &staged, metrics)?);
        Ok(listener)
    }
}

/// A socket's file among those that clients see.
#[derive(Debug)]
struct Shown {
    path: PathBuf,
    inode: u64,
    metrics: PluginMetrics,
}

impl Shown {
    /// Moves a socket that is listening to its place, over what is there.
    fn new(path: PathBuf, staged: &Path, metrics: PluginMetrics) -> io::Result<Self> {
        let inode = fs::symlink_metadata(staged)?.ino();
        fs::rename(staged, &path)?;
        metrics.set_up(true);
        Ok(Self { path, inode, metrics })
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.metrics.set_up(false);
        // A successor may have put its own socket in this place.
        let is_ours = fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode);
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
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
        while let Some(Ok((stream, _))) = now_or_never(self.socket.accept()).await {
            self.welcome(stream);
        }
    }

    fn welcome(&self, stream: UnixStream) {
        self.server.serve(stream, Arc::clone(&self.definitions.borrow()));
    }
}

/// What a future has at once, if anything.
async fn now_or_never<F: Future>(future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = std::future::ready(()) => None,
    }
}
