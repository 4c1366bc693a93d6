//! Creates and removes sockets until the served plugins are the desired ones.

mod listener;
mod plan;
mod socket;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

pub use self::{
    listener::{Bind, Listener},
    plan::{Action, plan},
    socket::{FileIdentity, LostSocket, Peer},
};
use crate::{
    event::{self, Event, TOLD},
    plugin::{Catalog, PluginDefinition, PluginName},
    state::{Component, Condition, State, report},
};

/// Pause between two examinations of all sockets, and before the next attempt to create one.
/// The kernel usually reports a change before that.
const EXAMINE: Duration = Duration::from_secs(2);

/// Pause after the kernel reported a change. A server that replaces a socket
/// removes the old file first; it should find the path free.
const SETTLE: Duration = Duration::from_millis(100);

/// Serves the desired plugins.
#[derive(Debug)]
pub struct Supervisor<B> {
    binder: B,
    listeners: BTreeMap<PluginName, Listener>,
    /// Plugins whose socket another process serves.
    taken: BTreeSet<PluginName>,
    state: watch::Sender<State>,
}

impl<B: Bind> Supervisor<B> {
    /// Creates a supervisor that serves nothing yet and writes to `state`.
    pub fn new(binder: B, state: watch::Sender<State>) -> Self {
        Self { binder, listeners: BTreeMap::new(), taken: BTreeSet::new(), state }
    }

    /// Serves the desired plugins until `stop`, then retires every plugin. A pass is
    /// abandoned at `stop`: creating a socket may take seconds.
    ///
    /// Each pass compares the served plugins with the desired ones. So it does not
    /// matter how many changes came at once, or whether one failed before.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut states = self.state.subscribe();
        loop {
            self.prepare();
            let pass = async {
                self.retire_lost().await;
                let desired = self.state.borrow().desired.clone();
                let failed = self.converge(&desired).await;
                (desired, failed)
            };
            let Some((desired, failed)) = stop.run_until_cancelled(pass).await else { break };
            let served = self.serves();
            self.state.send_modify(|state| {
                state.tried = Some(desired);
                state.served = served;
                state.failed = failed;
            });
            tokio::select! {
                () = stop.cancelled() => break,
                changed = states.wait_for(|state| !state.is_settled()) => {
                    if changed.is_err() { break }
                }
                () = self.settled() => {}
                () = sleep(EXAMINE) => {}
            }
        }
        self.state.send_modify(|state| state.served = Catalog::default());
    }

    /// Waits for a change of the directory of sockets, and then for its end.
    async fn settled(&self) {
        self.binder.changed().await;
        sleep(SETTLE).await;
    }

    /// Makes the directory of sockets usable, or reports why it is not.
    fn prepare(&self) {
        let condition = match self.binder.prepare() {
            Ok(()) => Condition::Good(String::new()),
            Err(error) => Condition::Bad(error.to_string()),
        };
        report(&self.state, Component::Sockets, condition);
    }

    /// Retires plugins whose socket clients no longer reach. The next pass serves
    /// them again.
    async fn retire_lost(&mut self) {
        let own = self.listeners.iter().map(|(name, listener)| (name, listener.file()));
        let lost = self.examine(own).await;
        if lost.is_empty() {
            return;
        }
        for (name, loss) in &lost {
            warn!(plugin = %name, reason = %loss, "a plugin has lost its socket");
            self.listeners.remove(name);
            if matches!(loss, LostSocket::Taken(_)) {
                self.taken.insert(name.clone());
            }
        }
        let served = self.serves();
        self.state.send_modify(|state| {
            state.served = served;
            let reasons = lost.into_iter().map(|(name, loss)| (name, loss.to_string()));
            state.failed.extend(reasons);
        });
    }

    /// Examines sockets, each with the file that it should be. All at once: a socket without
    /// a server takes a second, and another server may leave many.
    async fn examine(
        &self,
        sockets: impl Iterator<Item = (&PluginName, Option<FileIdentity>)>,
    ) -> BTreeMap<PluginName, LostSocket> {
        let examine = async |(name, own): (&PluginName, _)| {
            let loss = self.binder.examine(name, own).await.err()?;
            Some((name.clone(), loss))
        };
        join_all(sockets.map(examine)).await.into_iter().flatten().collect()
    }

    /// Forgets the plugins whose sockets no other process serves any more. Returns the others
    /// with reasons: such a socket is left to the process that serves it.
    async fn examine_taken(&mut self) -> BTreeMap<PluginName, String> {
        let mut found = self.examine(self.taken.iter().map(|name| (name, None))).await;
        found.retain(|_, loss| matches!(loss, LostSocket::Taken(_)));
        self.taken.retain(|name| found.contains_key(name));
        let reasons: BTreeMap<_, _> =
            found.into_iter().map(|(name, loss)| (name, loss.to_string())).collect();
        for (name, reason) in &reasons {
            self.report(name, reason);
        }
        reasons
    }

    /// Makes one pass. Returns the plugins that could not be served, with reasons.
    async fn converge(&mut self, desired: &Catalog) -> BTreeMap<PluginName, String> {
        self.taken.retain(|name| desired.get(name).is_some());
        let mut failed = self.examine_taken().await;
        for action in plan(&self.serves(), desired) {
            match action {
                Action::Start(definition) if self.taken.contains(&definition.name) => {}
                Action::Start(definition) => {
                    let name = definition.name.clone();
                    if let Err(reason) = self.serve(definition).await {
                        self.report(&name, &reason);
                        failed.insert(name, reason);
                    }
                }
                Action::Update(definition) => {
                    if let Some(listener) = self.listeners.get(&definition.name) {
                        info!(plugin = %definition.name, "serving a changed definition");
                        listener.update(definition);
                    }
                }
                Action::Stop(name) => {
                    info!(plugin = %name, "no longer served");
                    self.listeners.remove(&name);
                }
            }
        }
        failed
    }

    /// Creates a plugin's socket.
    async fn serve(&mut self, definition: Arc<PluginDefinition>) -> Result<(), String> {
        let name = definition.name.clone();
        let listener = self.binder.bind(definition).await.map_err(|error| error.to_string())?;
        info!(plugin = %name, "serving; its name goes into spec.source.plugin.name");
        self.listeners.insert(name, listener);
        Ok(())
    }

    /// Reports a plugin that is not served, but does not repeat this at each retry.
    fn report(&self, name: &PluginName, reason: &str) {
        if self.state.borrow().failed.get(name).is_some_and(|known| known == reason) {
            return;
        }
        error!(target: TOLD, plugin = %name, error = reason, "cannot serve a plugin");
        event::tell(|| Event::NotServed {
            plugin: Some(name.to_string()),
            file: None,
            line: None,
            reason: reason.into(),
        });
    }

    /// The served plugins, according to their listeners.
    fn serves(&self) -> Catalog {
        self.listeners.values().map(Listener::definition).collect()
    }
}

#[cfg(test)]
mod tests;
