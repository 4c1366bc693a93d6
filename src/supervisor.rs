//! Creates and removes sockets until the served plugins are the desired ones.

mod listener;
mod plan;

use std::{collections::BTreeMap, time::Duration};

use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

pub use self::{
    listener::{Bind, Listener},
    plan::{Action, plan},
};
use crate::{
    event::{self, Event, TOLD},
    plugin::{Catalog, PluginName},
    state::State,
};

/// Pause before the next attempt to create a plugin's socket, after one failed.
const RETRY: Duration = Duration::from_secs(5);

/// Serves the desired plugins.
#[derive(Debug)]
pub struct Supervisor<B> {
    binder: B,
    listeners: BTreeMap<PluginName, Listener>,
    state: watch::Sender<State>,
}

impl<B: Bind> Supervisor<B> {
    /// Creates a supervisor that serves nothing yet and writes to `state`.
    pub fn new(binder: B, state: watch::Sender<State>) -> Self {
        Self { binder, listeners: BTreeMap::new(), state }
    }

    /// Serves the desired plugins until `stop`, then retires every plugin.
    ///
    /// Each pass compares the served plugins with the desired ones. So it does not
    /// matter how many changes came at once, or whether one failed before.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut states = self.state.subscribe();
        loop {
            let desired = self.state.borrow().desired.clone();
            let failed = self.converge(&desired).await;
            let (complete, served) = (failed.is_empty(), self.serves());
            self.state.send_modify(|state| {
                state.tried = Some(desired);
                state.served = served;
                state.failed = failed;
            });
            tokio::select! {
                () = stop.cancelled() => return,
                changed = states.wait_for(|state| !state.is_settled()) => {
                    if changed.is_err() { return }
                }
                () = sleep(RETRY), if !complete => {}
            }
        }
    }

    /// Makes one pass. Returns the plugins that could not be served, with reasons.
    async fn converge(&mut self, desired: &Catalog) -> BTreeMap<PluginName, String> {
        let mut failed = BTreeMap::new();
        for action in plan(&self.serves(), desired) {
            match action {
                Action::Start(definition) => {
                    let name = definition.name.clone();
                    match self.binder.bind(definition).await {
                        Ok(listener) => {
                            info!(plugin = %name, "serving; its name goes into spec.source.plugin.name");
                            self.listeners.insert(name, listener);
                        }
                        Err(error) => {
                            let reason = error.to_string();
                            self.report(&name, &reason);
                            failed.insert(name, reason);
                        }
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
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use super::*;
    use crate::plugin::{PluginDefinition, catalog_of as catalog};

    /// Creates no sockets, and fails a set number of times.
    #[derive(Default)]
    struct Scripted {
        failures: Mutex<usize>,
        bound: Mutex<Vec<String>>,
    }

    impl Bind for Arc<Scripted> {
        async fn bind(&self, definition: Arc<PluginDefinition>) -> io::Result<Listener> {
            let mut failures = self.failures.lock().unwrap();
            if *failures > 0 {
                *failures -= 1;
                return Err(io::Error::other("scripted"));
            }
            self.bound.lock().unwrap().push(definition.name.to_string());
            Ok(Listener::new(definition).0)
        }
    }

    fn desire(state: &watch::Sender<State>, names: &[&str]) {
        state.send_modify(|state| state.desired = catalog(names));
    }

    async fn serves(states: &mut watch::Receiver<State>, wanted: &Catalog) {
        states.wait_for(|state| state.served == *wanted).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_catalog_is_served_in_the_end() {
        let (state, mut states) = watch::channel(State::default());
        let supervisor = Supervisor::new(Arc::new(Scripted::default()), state.clone());
        desire(&state, &["a"]);
        let stop = CancellationToken::new();
        let run = supervisor.run(stop.clone());
        let check = async {
            serves(&mut states, &catalog(&["a"])).await;
            desire(&state, &["b"]);
            desire(&state, &["b", "c"]);
            serves(&mut states, &catalog(&["b", "c"])).await;
            stop.cancel();
        };
        tokio::join!(run, check);
    }

    #[tokio::test(start_paused = true)]
    async fn a_plugin_that_failed_is_tried_again() {
        let binder = Arc::new(Scripted { failures: Mutex::new(2), ..Scripted::default() });
        let (state, mut states) = watch::channel(State::default());
        let supervisor = Supervisor::new(Arc::clone(&binder), state.clone());
        desire(&state, &["a"]);
        let stop = CancellationToken::new();
        let check = async {
            let failed = |state: &State| !state.failed.is_empty();
            assert_eq!(states.wait_for(failed).await.unwrap().tried, Some(catalog(&["a"])));
            serves(&mut states, &catalog(&["a"])).await;
            assert!(states.borrow().failed.is_empty());
            stop.cancel();
        };
        tokio::join!(supervisor.run(stop.clone()), check);
        assert_eq!(*binder.bound.lock().unwrap(), ["a"]);
    }
}
