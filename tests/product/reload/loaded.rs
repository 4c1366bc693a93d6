//! A loader and the plugins that it reads from a directory.

use std::{fs, path::PathBuf, time::Duration};

use cmp_sandbox::Tier;
use cmp_supervisor::{
    loader::{Loader, NoSnapshot, Places},
    metrics::Metrics,
    plugin::{Catalog, Problem},
    state::State,
};
use tempfile::TempDir;
use tokio::sync::watch::Sender;

use crate::reload::kubelet::{Age, FakeKubelet};

/// A loader with its own directory.
pub(crate) struct Loaded {
    pub(crate) loader: Loader,
    pub(crate) state: Sender<State>,
    pub(crate) metrics: Metrics,
    pub(crate) root: TempDir,
}

/// A valid definition.
pub(crate) fn definition(name: &str, command: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\n\
         metadata: {{name: {name}}}\nspec: {{generate: {{command: [\"{command}\"]}}}}\n"
    )
}

impl Loaded {
    pub(crate) fn new() -> Self {
        Self::with_grace(Duration::from_mins(2))
    }

    pub(crate) fn with_grace(grace: Duration) -> Self {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("plugins.d");
        fs::create_dir(&directory).unwrap();
        let (places, metrics) =
            (Places { directory: Some(directory), single: None }, Metrics::new());
        let (loader, state) = Loader::new(places, Tier::Uid, grace, metrics.clone());
        Self { loader, state, metrics, root }
    }

    /// The directory of definitions.
    pub(crate) fn directory(&self) -> PathBuf {
        self.root.path().join("plugins.d")
    }

    pub(crate) fn kubelet(&self) -> FakeKubelet {
        FakeKubelet::new(&self.directory(), Age::New)
    }

    /// Writes a file as an editor does.
    pub(crate) fn write(&self, file: &str, text: impl AsRef<[u8]>) {
        fs::write(self.directory().join(file), text).unwrap();
    }

    pub(crate) fn load(&mut self) -> Result<State, NoSnapshot> {
        self.loader.load().map(|()| self.state.borrow().clone())
    }

    /// The plugins that should be served.
    pub(crate) fn desired(&self) -> Catalog {
        self.state.borrow().desired.clone()
    }

    /// Loads, and returns each plugin as `name:command`.
    pub(crate) fn plugins(&mut self) -> Vec<String> {
        self.load().unwrap();
        self.served()
    }

    /// Returns each plugin without loading first.
    pub(crate) fn served(&self) -> Vec<String> {
        served(&self.state.borrow())
    }

    /// Loads, and returns the problem of a file.
    pub(crate) fn trouble(&mut self, file: &str) -> String {
        let state = self.load().unwrap();
        let of_file = state.problems.iter().find(|problem| problem.file == file);
        of_file.map(Problem::text).unwrap_or_default()
    }
}

/// Each plugin that should be served, as `name:command`.
pub(crate) fn served(state: &State) -> Vec<String> {
    state
        .desired
        .iter()
        .map(|plugin| format!("{}:{}", plugin.name, plugin.generate.program()))
        .collect()
}
