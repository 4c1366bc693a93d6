//! What the supervisor knows, for whoever asks.

use std::time::Duration;

use tokio::{
    sync::watch::Receiver,
    time::{error::Elapsed, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    loader::{Findings, Prompt, Published},
    metrics::{Metrics, PluginState},
    overview::{Overview, States, orphans, plugins, states},
    supervisor::Standing,
};

/// How long a look at the definitions and what follows from it may take.
const RELOAD_PATIENCE: Duration = Duration::from_secs(30);

/// Sees all parts of a running supervisor. Cheap to clone.
#[derive(Clone, Debug)]
pub struct View {
    /// Whether requests are welcome.
    pub ready: Receiver<bool>,
    /// What should be served.
    pub published: Published,
    /// What is served.
    pub standing: Receiver<Standing>,
    /// Has the loader look.
    pub prompt: Prompt,
    /// Mounts that never change, and what to do about them.
    pub static_mounts: Vec<String>,
}

impl View {
    /// How everything is at this moment.
    #[must_use]
    pub fn overview(&self) -> Overview {
        self.with(&self.published.findings.borrow().clone())
    }

    /// Whether requests are welcome.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Has the definitions looked at, and waits until what they say is served;
    /// `None` if the supervisor is stopping.
    pub async fn reload(&self) -> Result<Option<(Findings, Overview)>, Elapsed> {
        timeout(RELOAD_PATIENCE, async {
            let findings = self.prompt.look().await?;
            let desired = self.published.catalogs.clone();
            let mut standing = self.standing.clone();
            // Whatever else was changed meanwhile is waited for as well.
            let caught_up = |standing: &Standing| standing.has_seen(&desired.borrow());
            standing.wait_for(caught_up).await.ok()?;
            let overview = self.with(&findings);
            Some((findings, overview))
        })
        .await
    }

    /// Keeps the metrics of plugins' states until `stop`.
    pub async fn observe(mut self, metrics: Metrics, stop: CancellationToken) {
        let mut known = States::new();
        loop {
            known = self.measure(&metrics, &known);
            tokio::select! {
                () = stop.cancelled() => return,
                Ok(()) = self.published.findings.changed() => {}
                Ok(()) = self.standing.changed() => {}
                Ok(()) = self.ready.changed() => {}
                else => return,
            }
        }
    }

    fn measure(&mut self, metrics: &Metrics, known: &States) -> States {
        let findings = self.published.findings.borrow_and_update().clone();
        let desired = self.published.catalogs.borrow().clone();
        let states = states(&desired, &findings, &self.standing.borrow_and_update());
        for name in known.keys().filter(|name| !states.contains_key(name)) {
            metrics.plugin_gone(name.as_str());
        }
        for (name, state) in &states {
            metrics.plugin_state(name.as_str(), Some(*state));
        }
        for state in PluginState::ALL {
            let named = states.values().filter(|each| **each == state).count();
            let is_invalid = state == PluginState::Invalid;
            let unnamed = if is_invalid { orphans(&desired, &findings).len() } else { 0 };
            metrics.plugins(state, named + unnamed);
        }
        metrics.ready(*self.ready.borrow_and_update());
        states
    }

    fn with(&self, findings: &Findings) -> Overview {
        let desired = self.published.catalogs.borrow().clone();
        let plugins = plugins(&desired, findings, &self.standing.borrow());
        Overview::new(self.is_ready(), findings, plugins, self.static_mounts.clone())
    }
}
