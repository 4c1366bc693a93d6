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
use crate::plugin::{Catalog, PluginName};

/// Time before a plugin whose socket could not be made is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// Serves the plugins of the newest catalog.
#[derive(Debug)]
pub struct Supervisor<B> {
    binder: B,
    listeners: BTreeMap<PluginName, Listener>,
    standing: watch::Sender<Standing>,
}

/// How far the supervisor has come. Cheap to clone unless something failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// What should be served, as of the last pass.
    pub desired: Catalog,
    /// What is served.
    pub served: Catalog,
    /// Plugins without a socket, and why.
    pub failed: BTreeMap<PluginName, String>,
    /// Counts passes; the first is 1.
    pub passes: u64,
}

impl Standing {
    /// Whether there was a pass since this is what should be served.
    #[must_use]
    pub fn has_seen(&self, desired: &Catalog) -> bool {
        self.passes > 0 && self.desired == *desired
    }

    /// Whether requests are worth sending: everything was tried, and if there
    /// is anything to serve, some of it is. One plugin whose socket cannot be
    /// made must not take the others out of service.
    #[must_use]
    pub fn is_useful(&self) -> bool {
        self.passes > 0 && (self.desired.is_empty() || !self.served.is_empty())
    }
}

impl<B: Bind> Supervisor<B> {
    /// A supervisor that serves nothing yet. What it serves is published.
    pub fn new(binder: B) -> (Self, watch::Receiver<Standing>) {
        let (standing, receiver) = watch::channel(Standing::default());
        (Self { binder, listeners: BTreeMap::new(), standing }, receiver)
    }

    /// Follows `catalogs` until `stop`, then retires every plugin.
    ///
    /// Level-triggered: each pass compares what is served with the newest
    /// catalog, so that ten changes at once or a failed one come to the same.
    pub async fn run(mut self, mut catalogs: watch::Receiver<Catalog>, stop: CancellationToken) {
        loop {
            let desired = catalogs.borrow_and_update().clone();
            let failed = self.converge(&desired).await;
            let complete = failed.is_empty();
            let (served, passes) = (self.serves(), self.standing.borrow().passes + 1);
            self.standing.send_replace(Standing { desired, served, failed, passes });
            tokio::select! {
                () = stop.cancelled() => return,
                changed = catalogs.changed() => if changed.is_err() { return },
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
                            // Once is enough: it is tried again and again.
                            if self.standing.borrow().failed.get(&name) != Some(&reason) {
                                error!(plugin = %name, %error, "cannot serve a plugin");
                            }
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

    async fn serves(standing: &mut watch::Receiver<Standing>, wanted: &Catalog) {
        standing.wait_for(|standing| standing.served == *wanted).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_catalog_is_served_whatever_came_between() {
        let (supervisor, mut served) = Supervisor::new(Arc::new(Scripted::default()));
        let (catalogs, receiver) = watch::channel(catalog(&["a"]));
        let stop = CancellationToken::new();
        let run = supervisor.run(receiver, stop.clone());
        let check = async {
            serves(&mut served, &catalog(&["a"])).await;
            catalogs.send_replace(catalog(&["b"]));
            catalogs.send_replace(catalog(&["b", "c"]));
            serves(&mut served, &catalog(&["b", "c"])).await;
            stop.cancel();
        };
        tokio::join!(run, check);
    }

    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_served_is_tried_again() {
        let binder = Arc::new(Scripted { failures: Mutex::new(2), ..Scripted::default() });
        let (supervisor, mut served) = Supervisor::new(Arc::clone(&binder));
        let (_catalogs, receiver) = watch::channel(catalog(&["a"]));
        let stop = CancellationToken::new();
        let check = async {
            let failed = |standing: &Standing| !standing.failed.is_empty();
            assert_eq!(served.wait_for(failed).await.unwrap().desired, catalog(&["a"]));
            serves(&mut served, &catalog(&["a"])).await;
            assert!(served.borrow().failed.is_empty());
            stop.cancel();
        };
        tokio::join!(supervisor.run(receiver, stop.clone()), check);
        assert_eq!(*binder.bound.lock().unwrap(), ["a"]);
    }
}
