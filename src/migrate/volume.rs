//! Volumes, by who fills them and who may read them.

use serde_json::Value;

use super::{
    field::{list, text},
    lists::Lists,
    sidecar::Sidecar,
};

/// A volume, as requests see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VolumeKind {
    /// Another container fills it with programs or data.
    Filled,
    /// Commands can read it without being allowed to.
    Public,
    /// In memory: a definition must name it in `spec.sandbox.read`.
    Hidden,
    /// Empty at start, and the sidecar writes to it.
    Scratch,
    /// It outlives the Pod.
    Lasting,
    /// The manifest that defines it is not in the input.
    Unknown,
}

/// Keys of a volume's source that live in memory.
const HIDDEN: [&str; 4] = ["secret", "projected", "downwardAPI", "csi"];

/// Keys of a volume's source that are read-only files on a disk.
const PUBLIC: [&str; 2] = ["configMap", "image"];

/// Kind of a volume that names no source.
const EMPTY: &str = "emptyDir";

impl VolumeKind {
    /// `own` are the mounts that the chart, the operator or a JSON patch adds to the repo-server's
    /// container.
    pub(super) fn of(volume: Option<&Value>, lists: &Lists, own: &[Value]) -> Self {
        let Some(volume) = volume else { return Self::Unknown };
        let has = |key: &&str| volume.get(*key).is_some();
        if HIDDEN.iter().any(has) {
            Self::Hidden
        } else if PUBLIC.iter().any(has) {
            Self::Public
        } else if source_kind(volume) != EMPTY {
            Self::Lasting
        } else if others(lists).any(|container| mounts(container, text(volume, "name")))
            || own.iter().any(|mount| text(mount, "name") == text(volume, "name"))
        {
            Self::Filled
        } else {
            Self::Scratch
        }
    }
}

/// The containers that are no sidecars of plugins.
fn others(lists: &Lists) -> impl Iterator<Item = &Value> {
    let containers = lists.containers.iter().filter(|container| Sidecar::new(container).is_none());
    let init = lists.init_containers.iter();
    containers.chain(init.filter(|container| Sidecar::native(container).is_none()))
}

/// The volume of this name.
pub(super) fn named<'v>(volumes: &'v [Value], name: &str) -> Option<&'v Value> {
    volumes.iter().find(|volume| text(volume, "name") == name)
}

/// The kind of a volume's source, as its key has it.
pub(super) fn source_kind(volume: &Value) -> &str {
    let mut keys = volume.as_object().into_iter().flat_map(|fields| fields.keys());
    keys.find(|key| *key != "name").map_or(EMPTY, String::as_str)
}

/// True if a container mounts the volume.
pub(super) fn mounts(container: &Value, volume: &str) -> bool {
    list(container, "volumeMounts").iter().any(|mount| text(mount, "name") == volume)
}

/// True if files of a volume in memory are readable by no other UID than their owner's.
pub(super) fn is_private(volume: &Value) -> bool {
    const OTHERS_READ: u64 = 0o004;
    let modes =
        ["secret", "projected"].iter().filter_map(|key| volume.get(key)?.get("defaultMode"));
    modes.filter_map(Value::as_u64).any(|mode| mode & OTHERS_READ == 0)
}
