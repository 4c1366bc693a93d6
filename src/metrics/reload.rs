//! Metrics of definitions and of served plugins.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant, SystemTime},
};

use metrics::Label;

use super::{
    Dimension, Family, Kind, Metrics, PluginState, Reload, WatchError, family, family::SECONDS,
};

pub(super) static RELOADS: Family = family(
    ("argocd_cmp_config_reloads_total", Kind::Counter),
    &[Dimension::Reload],
    "Reloads of the definitions, by result.",
);
pub(super) static DURATION: Family = family(
    ("argocd_cmp_config_reload_duration_seconds", SECONDS),
    &[],
    "Time from the first sign of a change until the definitions were read.",
);
pub(super) static WATCH_ERRORS: Family = family(
    ("argocd_cmp_config_watch_errors_total", Kind::Counter),
    &[Dimension::WatchError],
    "Times when notices of changes may have been lost.",
);
pub(super) static SUCCESSFUL: Family = family(
    ("argocd_cmp_config_last_reload_successful", Kind::Gauge),
    &[],
    "1 if every definition was valid at the last reload.",
);
pub(super) static SUCCESS_TIME: Family = family(
    ("argocd_cmp_config_last_reload_success_timestamp_seconds", Kind::Gauge),
    &[],
    "Time of the last reload with only valid definitions.",
);
pub(super) static GENERATION: Family = family(
    ("argocd_cmp_config_generation", Kind::Gauge),
    &[],
    "Number of sets of definitions since the start.",
);
pub(super) static HASH: Family = family(
    ("argocd_cmp_config_hash", Kind::Gauge),
    &[],
    "Hash of all valid definitions; equal in all Pods that serve the same definitions.",
);
pub(super) static DIAGNOSTICS: Family = family(
    ("argocd_cmp_config_diagnostics", Kind::Gauge),
    &[],
    "Errors in the current definitions.",
);
pub(super) static KEPT: Family = family(
    ("argocd_cmp_config_emptied", Kind::Gauge),
    &[],
    "1 while no valid definition is left and the last good set is still served.",
);
pub(super) static WATCHING: Family = family(
    ("argocd_cmp_config_watching", Kind::Gauge),
    &[],
    "0 if inotify is not available and changes are found by polling.",
);
pub(super) static STATIC_MOUNT: Family = family(
    ("argocd_cmp_config_static_mount", Kind::Gauge),
    &[],
    "1 if definitions are mounted with subPath, which never shows a change.",
);
pub(super) static PLUGINS: Family = family(
    ("argocd_cmp_plugins", Kind::Gauge),
    &[Dimension::State],
    "Number of plugins in each state.",
);
pub(super) static PLUGIN_STATE: Family = family(
    ("argocd_cmp_plugin_state", Kind::Gauge),
    &[Dimension::Plugin, Dimension::State],
    "1 for the plugin's current state.",
);
pub(super) static READY: Family =
    family(("argocd_cmp_ready", Kind::Gauge), &[], "1 while /readyz returns 200.");

/// The state of all definitions together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Configured {
    /// Number of changed sets since the start.
    pub generation: u64,
    /// Hash of the set; at most 48 bits, which a gauge holds exactly.
    pub hash: u64,
    /// Number of invalid files.
    pub diagnostics: usize,
    /// Time of the last reload without errors.
    pub good_since: Option<SystemTime>,
    /// True while no valid definition is left and the last good set is still served.
    pub emptied: bool,
    /// True if the last reload had no errors.
    pub is_good: bool,
}

impl Metrics {
    /// Counts a reload and its duration since the first sign of a change.
    pub fn reloaded(&self, result: Reload, took: Duration) {
        self.counter(&RELOADS, &[Dimension::Reload.is(result.as_str())]).increment(1);
        self.histogram(&DURATION, &[]).record(took);
    }

    /// Sets the state of all definitions.
    pub fn configured(&self, configured: &Configured) {
        let Configured { generation, hash, diagnostics, good_since, emptied, is_good } = configured;
        self.amount(&GENERATION, &[], *generation);
        self.amount(&HASH, &[], *hash);
        self.amount(&DIAGNOSTICS, &[], *diagnostics as u64);
        self.flag(&KEPT, &[], *emptied);
        self.flag(&SUCCESSFUL, &[], *is_good);
        let since_epoch = good_since.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        if let Some(since_epoch) = since_epoch {
            self.gauge(&SUCCESS_TIME, &[]).set(since_epoch.as_secs_f64());
        }
    }

    /// Sets whether the kernel reports changes.
    pub fn watching(&self, watching: bool) {
        self.flag(&WATCHING, &[], watching);
    }

    /// Counts an error that may hide changes.
    pub fn watch_error(&self, error: WatchError) {
        self.counter(&WATCH_ERRORS, &[Dimension::WatchError.is(error.as_str())]).increment(1);
    }

    /// Sets whether some definitions can never change.
    pub fn static_mount(&self, found: bool) {
        self.flag(&STATIC_MOUNT, &[], found);
    }

    /// Sets whether `/readyz` reports ready.
    pub fn ready(&self, ready: bool) {
        self.flag(&READY, &[], ready);
    }

    /// Sets the number of plugins in a state.
    pub fn plugins(&self, state: PluginState, count: usize) {
        self.amount(&PLUGINS, &[Dimension::State.is(state.as_str())], count as u64);
    }

    /// Removes the series of a removed plugin after some minutes.
    pub fn plugin_gone(&self, plugin: &str) {
        self.plugin_state(plugin, None);
        self.defined.forget(plugin);
        self.plugins.end(plugin, Instant::now());
        // Last: a request that ends later finds the plugin gone.
        self.applications.forget(plugin);
        self.exemplars.forget(plugin);
    }

    /// The plugins that have series and are not gone.
    #[must_use]
    pub fn plugin_names(&self) -> BTreeSet<String> {
        self.plugins.names()
    }

    /// Sets the state of one plugin. Each state has a series; one of them is 1.
    pub fn plugin_state(&self, plugin: &str, state: Option<PluginState>) {
        let metrics = self.of(plugin);
        for each in PluginState::ALL {
            let plugin = Label::new("plugin", plugin.to_owned());
            let labels = [plugin, Dimension::State.is(each.as_str())];
            metrics.flag(&PLUGIN_STATE, &labels, state == Some(*each));
        }
    }

    pub(super) fn initialise_reload(&self) {
        for result in Reload::ALL {
            self.counter(&RELOADS, &[Dimension::Reload.is(result.as_str())]).absolute(0);
        }
        for error in WatchError::ALL {
            self.counter(&WATCH_ERRORS, &[Dimension::WatchError.is(error.as_str())]).absolute(0);
        }
        self.static_mount(false);
        self.ready(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_starts_at_zero() {
        let page = Metrics::new().render();
        for line in [
            r#"argocd_cmp_config_reloads_total{result="rejected"} 0"#,
            r#"argocd_cmp_config_watch_errors_total{reason="emfile"} 0"#,
            "argocd_cmp_config_static_mount 0",
        ] {
            assert!(page.contains(line), "{line} is not in {page}");
        }
    }

    #[test]
    fn a_hash_of_48_bits_is_exact() {
        let metrics = Metrics::new();
        let hash = (1 << 48) - 1;
        let configured = Configured {
            generation: 1,
            hash,
            diagnostics: 0,
            good_since: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1500)),
            emptied: false,
            is_good: true,
        };
        metrics.configured(&configured);
        let page = metrics.render();
        assert!(page.contains(&format!("argocd_cmp_config_hash {hash}")), "{page}");
        assert!(page.contains("success_timestamp_seconds 1.5"), "{page}");
    }

    #[test]
    fn a_plugin_is_in_one_state() {
        let metrics = Metrics::new();
        metrics.plugin_state("p", Some(PluginState::Serving));
        metrics.plugin_state("p", Some(PluginState::Stale));
        let page = metrics.render();
        assert!(page.contains(r#"plugin_state{plugin="p",state="stale"} 1"#), "{page}");
        assert!(page.contains(r#"plugin_state{plugin="p",state="serving"} 0"#), "{page}");
    }
}
