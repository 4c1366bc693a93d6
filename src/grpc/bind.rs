//! Creates a plugin's socket in the directory that clients search, and removes it.

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cmp_sandbox::{TRIAL_PATH, refuse_descriptors};
use tokio::{net::UnixListener, sync::oneshot, time::timeout};
use tonic::service::Routes;
use tracing::warn;

use super::{
    acceptor::{Acceptor, PublishedSocket},
    backend::Backend,
    client::Client,
    connection::Server,
    leftovers::Leftovers,
    occupant::examine,
    services::services,
    socket_watch::SocketWatch,
    staging::{self, Staging},
};
use crate::{
    own_directory::{OWNER, restore},
    plugin::{MAX_SOCKET_PATH, PluginDefinition, PluginName},
    supervisor::{Bind, FileIdentity, Listener, LostSocket},
};

/// The repo-server, which has our UID, and members of our group may connect.
/// The UIDs that commands run under may not.
const SOCKET_MODE: u32 = 0o660;

/// Mode of the directory of sockets, if we create it.
const DIRECTORY_MODE: u32 = 0o755;

/// Longest path of the directory. The sandbox's trial creates the longest path
/// in it.
const MAX_DIRECTORY: usize = MAX_SOCKET_PATH - TRIAL_PATH;

/// Longest wait for a new socket's first answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves plugins on sockets in one directory.
#[derive(Debug)]
pub struct Binder {
    directory: PathBuf,
    backend: Backend,
    /// The services of all plugins.
    services: Routes,
    staging: Mutex<Arc<Staging>>,
    leftovers: Leftovers,
    watch: SocketWatch,
}

impl Binder {
    /// Creates a binder for sockets in `directory`, which must exist.
    pub fn new(directory: &Path, backend: Backend) -> io::Result<Self> {
        check_length(directory)?;
        restore(directory, OWNER, DIRECTORY_MODE)?;
        let staging = Mutex::new(Arc::new(Staging::new(directory)?));
        let (directory, watch) = (directory.to_owned(), SocketWatch::new(directory));
        let (services, leftovers) = (services()?, Leftovers::default());
        Ok(Self { directory, backend, services, staging, leftovers, watch })
    }

    /// The directory for new sockets; created again if it was removed.
    fn staging(&self) -> io::Result<Arc<Staging>> {
        self.present_staging().map_err(|error| self.unusable(&error))
    }

    fn present_staging(&self) -> io::Result<Arc<Staging>> {
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        if !staging.is_present() {
            // If this fails, the next line has the reason.
            let _ = DirBuilder::new().mode(DIRECTORY_MODE).create(&self.directory);
            *staging = Arc::new(Staging::new(&self.directory)?);
        }
        restore(staging.directory(), OWNER, staging::MODE)?;
        Ok(Arc::clone(&staging))
    }

    /// Creates a socket that listens but is not visible to clients yet.
    fn stage(staging: &Staging) -> io::Result<(UnixListener, PathBuf)> {
        let path = staging.path();
        let listener = UnixListener::bind(&path)?;
        refuse_descriptors(&listener);
        fs::set_permissions(&path, Permissions::from_mode(SOCKET_MODE))?;
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

    /// An error of the directory, with its path and the remedy.
    fn unusable(&self, error: &io::Error) -> io::Error {
        let (directory, remedy) = (self.directory.display(), directory_remedy(error));
        io::Error::other(format!("{directory}: cannot create sockets: {error}: {remedy}"))
    }
}

/// Fails if the path of the directory for sockets is too long.
pub fn check_length(directory: &Path) -> io::Result<()> {
    let length = directory.as_os_str().len();
    if length <= MAX_DIRECTORY {
        return Ok(());
    }
    let text = format!("its path has {length} bytes; the limit is {MAX_DIRECTORY}");
    Err(io::Error::new(io::ErrorKind::InvalidFilename, text))
}

/// The remedy for a directory in which sockets cannot be created.
#[must_use]
pub fn directory_remedy(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        return "create the directory or mount a volume there, for example the repo-server's \
                volume `plugins`, or choose another with --socket-dir"
            .to_owned();
    }
    cmp_sandbox::directory_remedy(error, "--socket-dir")
}

impl Bind for Binder {
    async fn bind(&self, definition: Arc<PluginDefinition>) -> io::Result<Listener> {
        let path = self.path(&definition.name)?;
        let staging = self.staging()?;
        let (socket, staged) = Self::stage(&staging).map_err(|error| self.unusable(&error))?;
        let server = Server::new(&self.backend, &definition.name, self.services.clone());
        let (mut listener, definitions, retired) = Listener::new(definition);
        let (show, shown) = oneshot::channel();
        let acceptor = Acceptor { socket, server, definitions, retired, shown };
        self.backend.connections.spawn(acceptor.serve());
        // A socket without an answer stays hidden: its clients would wait for ever.
        let probe = timeout(PROBE_TIMEOUT, Client::probe(&staged)).await;
        let answers = probe.map_err(io::Error::from).flatten();
        let leftovers = self.leftovers.clone();
        let shown = answers.and_then(|()| PublishedSocket::new(path, &staged, staging, leftovers));
        let shown = shown.inspect_err(|_| {
            // If this fails too, the file is removed with its directory.
            let _ = fs::remove_file(&staged);
        })?;
        listener.published(shown.file());
        // If the acceptor has already ended, this removes the file at once.
        let _ = show.send(shown);
        Ok(listener)
    }

    fn prepare(&self) -> io::Result<()> {
        match restore(&self.directory, OWNER, DIRECTORY_MODE) {
            Ok(false) => {}
            Ok(true) => {
                warn!(path = %self.directory.display(), "restored access to the directory of sockets");
            }
            // The next line creates it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.leftovers.remove(&*self.staging()?);
        self.watch.renew();
        Ok(())
    }

    async fn examine(
        &self,
        name: &PluginName,
        own: Option<FileIdentity>,
    ) -> Result<(), LostSocket> {
        let hidden = |error: io::Error| LostSocket::Hidden(error.to_string());
        let path = self.path(name).map_err(hidden)?;
        if own.is_none() || FileIdentity::of(&path).ok() != own {
            return Err(examine(&path).await);
        }
        // Any process with our UID can change the mode.
        let about = fs::symlink_metadata(&path).map_err(hidden)?;
        if about.mode() & SOCKET_MODE != SOCKET_MODE {
            warn!(path = %path.display(), "restored access to a plugin's socket");
            fs::set_permissions(&path, Permissions::from_mode(SOCKET_MODE)).map_err(hidden)?;
        }
        Ok(())
    }

    async fn changed(&self) {
        self.watch.changed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_for_a_directory_fits_its_error() {
        let remedy = |kind| directory_remedy(&io::Error::from(kind));
        assert!(remedy(io::ErrorKind::NotFound).starts_with("create the directory or mount "));
        let denied = remedy(io::ErrorKind::PermissionDenied);
        assert!(denied.starts_with("make the directory writable"), "{denied}");
        assert!(denied.ends_with(", or choose another with --socket-dir"), "{denied}");
    }
}
