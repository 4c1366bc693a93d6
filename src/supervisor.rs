//! Which plugins are served: makes what is so what should be so.

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

/// Time before a plugin whose socket could not be made is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// Serves the plugins that should be served.
#[derive(Debug)]
pub struct Supervisor<B> {
    binder: B,
    listeners: BTreeMap<PluginName, Listener>,
    state: watch::Sender<State>,
}

impl<B: Bind> Supervisor<B> {
    /// A supervisor that serves nothing yet, and writes what it serves.
    pub fn new(binder: B, state: watch::Sender<State>) -> Self {
        Self { binder, listeners: BTreeMap::new(), state }
    }

    /// Serves the desired plugins until `stop`, then retires every plugin.
    ///
    /// Level-triggered: each pass compares what is served with what should be,
    /// so that ten changes at once or a failed one come to the same.
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

    /// One pass; what could not be served, and why.
    async fn converge(&mut self, desired: &Catalog) -> BTreeMap<PluginName, String> {
        let mut failed = BTreeMap::new();
        for action in plan(&self.serves(), desired) {
            match action {
                Action::Start(definition) => {
                    let name = definition.name.clone();
                    match self.binder.bind(definition).await {
                        Ok(listener) => {
                            info!(plugin = %name, "serving; use it as spec.source.plugin.name");
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

    /// Reports a plugin that is not served once, and not at each retry.
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

    /// What is served, asked of those who do it.
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
    use crate::plugin::{PluginDefinition, read};

    /// Binds nothing; fails as often as it was told to.
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

    fn catalog(names: &[&str]) -> Catalog {
        let definition = |name: &&str| {
            let text = format!(
                "kind: ConfigManagementPlugin\nmetadata: {{name: {name}}}\n\
                 spec: {{generate: {{command: [x]}}}}"
            );
            Arc::new(read(text.as_bytes()).unwrap())
        };
        names.iter().map(definition).collect()
    }

    fn desire(state: &watch::Sender<State>, names: &[&str]) {
        state.send_modify(|state| state.desired = catalog(names));
    }

    async fn serves(states: &mut watch::Receiver<State>, wanted: &Catalog) {
        states.wait_for(|state| state.served == *wanted).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_catalog_is_served_whatever_came_between() {
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
    async fn what_could_not_be_served_is_tried_again() {
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
