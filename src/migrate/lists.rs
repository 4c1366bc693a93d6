//! The lists of a Pod that a migration changes.

use serde_json::Value;

use super::sidecar::Sidecar;

/// Containers, init containers and volumes, whatever the keys of their host are.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    pub(super) containers: Vec<Value>,
    pub(super) init_containers: Vec<Value>,
    pub(super) volumes: Vec<Value>,
}

impl Lists {
    /// All sidecars, in the order in which Kubernetes starts them.
    pub(super) fn sidecars(&self) -> Vec<Sidecar> {
        let native = self.init_containers.iter().filter_map(Sidecar::native);
        native.chain(self.containers.iter().filter_map(Sidecar::new)).collect()
    }

    /// Every container.
    pub(super) fn all_containers(&self) -> impl Iterator<Item = &Value> {
        self.containers.iter().chain(&self.init_containers)
    }
}
