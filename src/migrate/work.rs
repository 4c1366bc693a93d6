//! The work volume: in memory, or like the largest disk that a sidecar had for its work.

use serde_json::{Value, json};

use super::{
    field::text,
    lists::Lists,
    own::{TEMPORARY, WORK_DIRS},
    plugin::Plugin,
    quantity::{bytes, mebibytes, quantity},
    report::Report,
    volume::{VolumeKind, named, source_kind},
};
use crate::budget;

/// Kinds of volumes that a work volume can be like, each with the place of its size, and in words.
const KINDS: [(&str, &str, &str); 2] = [
    ("emptyDir", "/sizeLimit", "on the node's disk"),
    ("ephemeral", "/volumeClaimTemplate/spec/resources/requests/storage", "an ephemeral claim"),
];

/// Source of a volume: its kind, and the fields of this kind.
pub(super) type Source = (&'static str, Value);

/// A disk that a sidecar had for repositories or temporary files.
struct Disk<'i> {
    plugin: &'i str,
    path: &'i str,
    volume: &'i Value,
    /// The same for the new container, if that can have it.
    same: Option<Same>,
}

/// A source that a work volume can have.
struct Same {
    /// In bytes.
    size: u64,
    words: &'static str,
    source: Source,
}

/// A work volume of `memory` bytes, or one like the largest disk if that is larger.
pub(super) fn work(plugins: &[Plugin], lists: &Lists, memory: u64, report: &mut Report) -> Source {
    let disks: Vec<_> = plugins.iter().flat_map(|plugin| disks(plugin, lists)).collect();
    let same = disks.iter().filter_map(|disk| Some((disk.path, disk.same.as_ref()?)));
    let largest = same.max_by_key(|(_, same)| same.size).filter(|(_, same)| same.size > memory);
    let (size, source) = if let Some((path, Same { size, words, source })) = largest {
        report.change(format!(
            "the work volume is {words}, because a sidecar's {path} was larger than the memory"
        ));
        (*size, source.clone())
    } else {
        report.change(format!("the work volume is in memory, with {}", budget::show(memory)));
        let source = json!({"medium": "Memory", "sizeLimit": mebibytes(memory)});
        (memory, ("emptyDir", source))
    };
    for Disk { plugin, path, volume, .. } in disks.iter().filter(|disk| disk.same.is_none()) {
        report.check(format!(
            "plugin `{plugin}`: its {path} was on the volume `{}` ({}), and the work volume has {} \
             elsewhere: if repositories and temporary files need more, give the new container a larger \
             work volume",
            text(volume, "name"),
            source_kind(volume),
            budget::show(size)
        ));
    }
    source
}

/// The disks of a sidecar. A volume in memory is none, and an emptyDir without a limit has no
/// known size.
fn disks<'i>(plugin: &'i Plugin, lists: &'i Lists) -> Vec<Disk<'i>> {
    let sidecar = &plugin.sidecar;
    let work = WORK_DIRS.iter().filter_map(|name| sidecar.variable(name));
    let mut disks = Vec::<Disk<'i>>::new();
    for path in work.chain([TEMPORARY]) {
        let volume = sidecar.mount_of(path).and_then(|m| named(&lists.volumes, text(m, "name")));
        let Some(volume) = volume else { continue };
        let same = KINDS.into_iter().find_map(|(kind, place, words)| {
            let source = volume.get(kind).filter(|source| source.get("medium").is_none())?;
            let size = bytes(quantity(source.pointer(place)?)?);
            Some(Same { size, words, source: (kind, source.clone()) })
        });
        let is_kept =
            same.is_some() || VolumeKind::of(Some(volume), lists, &[]) == VolumeKind::Lasting;
        if is_kept && !disks.iter().any(|disk| disk.volume == volume) {
            disks.push(Disk { plugin: &plugin.name, path, volume, same });
        }
    }
    disks
}
