//! The new container in the place of the old sidecars.

use serde_json::{Value, json};

use super::{
    container::{Blueprint, NAME},
    field::{set, text},
    host::Host,
    lists::Lists,
    remark::messages,
    report::Report,
    sidecar::Sidecar,
    volume::mounts,
};
use crate::config::SidecarKind;

/// The lists without the old sidecars, and with the new one.
pub(super) fn assemble(
    blueprint: &Blueprint<'_>,
    host: &Host,
    old: &Lists,
    report: &mut Report,
) -> Lists {
    let mut new = old.clone();
    new.containers.retain(|container| Sidecar::new(container).is_none());
    new.init_containers.retain(|container| Sidecar::native(container).is_none());
    new.init_containers.extend(blueprint.init_containers());
    let container = blueprint.container();
    for plugin in blueprint.plugins {
        messages(plugin, &container, report);
    }
    match blueprint.shape.kind {
        SidecarKind::Native => new.init_containers.push(container),
        SidecarKind::Ordinary => new.containers.push(container),
    }
    let removed = unused_volumes(old, &new, &host.own_mounts());
    new.volumes.retain(|volume| !removed.iter().any(|name| name == text(volume, "name")));
    if !removed.is_empty() {
        report.change(format!("volumes without a user were removed: {}", removed.join(", ")));
    }
    let sidecars = old.sidecars();
    let names: Vec<_> = sidecars.iter().map(Sidecar::name).collect();
    for part in new.containers.iter_mut().chain(&mut new.init_containers).chain(&mut new.volumes) {
        follow(part, &names);
    }
    new.volumes.extend(blueprint.volumes());
    new
}

/// Makes references to the resources of old sidecars those of the new container.
fn follow(part: &mut Value, old: &[&str]) {
    match part {
        Value::Object(members) => {
            for (key, value) in members {
                if key == "resourceFieldRef" && old.contains(&text(value, "containerName")) {
                    set(value, &["containerName"], json!(NAME));
                }
                follow(value, old);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| follow(item, old)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Names of volumes that a container used and none needs any more. `own` are the mounts that
/// the chart or the operator adds.
fn unused_volumes(old: &Lists, new: &Lists, own: &[Value]) -> Vec<String> {
    let was_used = |name: &str| old.all_containers().any(|container| mounts(container, name));
    let is_used = |name: &str| {
        new.all_containers().any(|container| mounts(container, name))
            || own.iter().any(|mount| text(mount, "name") == name)
    };
    let names = old.volumes.iter().map(|volume| text(volume, "name"));
    names.filter(|name| was_used(name) && !is_used(name)).map(str::to_owned).collect()
}
