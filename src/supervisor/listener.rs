//! The handle of a served plugin.

use std::{io, sync::Arc};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{FileIdentity, LostSocket};
use crate::plugin::{PluginDefinition, PluginName};

/// Creates a plugin's socket and serves it.
pub trait Bind {
    /// Returns once the socket is visible to clients and answers. Dropping the future
    /// closes the socket.
    fn bind(&self, definition: Arc<PluginDefinition>)
    -> impl Future<Output = io::Result<Listener>>;

    /// Makes the directory of sockets usable. Called before each pass.
    fn prepare(&self) -> io::Result<()>;

    /// Checks that clients reach a plugin's socket, which is the file `own`.
    fn examine(
        &self,
        name: &PluginName,
        own: Option<FileIdentity>,
    ) -> impl Future<Output = Result<(), LostSocket>>;

    /// Waits until the directory of sockets may have changed.
    fn changed(&self) -> impl Future<Output = ()>;
}

/// The handle of a served plugin. Dropping it retires the plugin.
#[derive(Debug)]
pub struct Listener {
    definition: watch::Sender<Arc<PluginDefinition>>,
    file: Option<FileIdentity>,
    retired: CancellationToken,
}

impl Listener {
    /// Returns the handle, and for the accept loop: the definition for new
    /// connections, and a token that is cancelled when the plugin is retired.
    #[must_use]
    pub fn new(
        definition: Arc<PluginDefinition>,
    ) -> (Self, watch::Receiver<Arc<PluginDefinition>>, CancellationToken) {
        let (definition, receiver) = watch::channel(definition);
        let retired = CancellationToken::new();
        (Self { definition, file: None, retired: retired.clone() }, receiver, retired)
    }

    /// Sets the socket's file.
    pub fn published(&mut self, file: FileIdentity) {
        self.file = Some(file);
    }

    /// The socket's file.
    #[must_use]
    pub fn file(&self) -> Option<FileIdentity> {
        self.file
    }

    /// The definition for new connections.
    #[must_use]
    pub fn definition(&self) -> Arc<PluginDefinition> {
        Arc::clone(&self.definition.borrow())
    }

    /// Sets the definition for new connections; open ones keep theirs.
    pub fn update(&self, definition: Arc<PluginDefinition>) {
        self.definition.send_replace(definition);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.retired.cancel();
    }
}
