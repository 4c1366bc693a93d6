//! A plugin that is being served.

use std::{io, sync::Arc};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::plugin::PluginDefinition;

/// Makes a plugin answer on a socket of its own.
pub trait Bind {
    /// Returns once the socket is where clients look, and answers.
    fn bind(&self, definition: Arc<PluginDefinition>)
    -> impl Future<Output = io::Result<Listener>>;
}

/// The handle of a served plugin. Dropping it retires the plugin.
#[derive(Debug)]
pub struct Listener {
    definition: watch::Sender<Arc<PluginDefinition>>,
    retired: CancellationToken,
}

impl Listener {
    /// A handle, and what the accept loop gets of it: the definition for new
    /// connections, and word of the plugin's retirement.
    #[must_use]
    pub fn new(
        definition: Arc<PluginDefinition>,
    ) -> (Self, watch::Receiver<Arc<PluginDefinition>>, CancellationToken) {
        let (definition, receiver) = watch::channel(definition);
        let retired = CancellationToken::new();
        (Self { definition, retired: retired.clone() }, receiver, retired)
    }

    /// What new connections are served by.
    #[must_use]
    pub fn definition(&self) -> Arc<PluginDefinition> {
        Arc::clone(&self.definition.borrow())
    }

    /// New connections are served by `definition`; those there are keep theirs.
    pub fn update(&self, definition: Arc<PluginDefinition>) {
        self.definition.send_replace(definition);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.retired.cancel();
    }
}
