//! Deletions in a patch: `kubectl patch` leaves alone what a patch does not name. In kustomize, they
//! have no effect on what the base does not have.

use serde_json::{Value, json};

use super::{field::text, lists::Lists};

/// The new lists, and a deletion of each sidecar that they lack. Two servers would use one socket.
///
/// A volume is deleted only if it shows a ConfigMap: the Pod does not start without the ConfigMap,
/// and containers that the patch does not name may use other volumes.
pub(super) fn with(old: &Lists, new: Lists) -> Lists {
    let shows_map = |volume: &&Value| volume.get("configMap").is_some();
    let volumes: Vec<_> = old.volumes.iter().filter(shows_map).cloned().collect();
    Lists {
        containers: deleted(&old.containers, new.containers),
        init_containers: deleted(&old.init_containers, new.init_containers),
        volumes: deleted(&volumes, new.volumes),
    }
}

/// The items, behind a deletion of each old one that is none of them.
fn deleted(old: &[Value], new: Vec<Value>) -> Vec<Value> {
    let names = old.iter().map(|item| text(item, "name"));
    let is_gone = |name: &&str| new.iter().all(|item| text(item, "name") != *name);
    let deletions = names.filter(is_gone).map(|name| json!({"name": name, "$patch": "delete"}));
    let deletions: Vec<_> = deletions.collect();
    deletions.into_iter().chain(new).collect()
}
