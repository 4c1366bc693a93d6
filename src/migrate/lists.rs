//! The lists of a Pod that a migration changes.

use serde_json::Value;

use super::{field::text, sidecar::Sidecar};

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

    /// True if a container or a volume uses a ConfigMap.
    pub(super) fn uses_config_map(&self, name: &str) -> bool {
        self.all_containers().chain(&self.volumes).any(|part| refers_to_config_map(part, name))
    }
}

fn refers_to_config_map(part: &Value, name: &str) -> bool {
    const KEYS: [&str; 3] = ["configMap", "configMapKeyRef", "configMapRef"];
    match part {
        Value::Object(members) => members.iter().any(|(key, value)| {
            KEYS.contains(&key.as_str()) && text(value, "name") == name
                || refers_to_config_map(value, name)
        }),
        Value::Array(items) => items.iter().any(|item| refers_to_config_map(item, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
