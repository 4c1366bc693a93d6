//! The mounts of all sidecars, in one container.

use std::{ffi::OsStr, path::Path};

use serde_json::{Value, json};

use super::{
    config_map::ConfigMaps,
    container::{PLUGINS_DIR, PROGRAM_DIR},
    expression::agrees,
    field::{is_within, label, list, replace_path, set, text, trimmed},
    lists::Lists,
    own::{HOMES, TEMPORARY, is_own},
    plugin::Plugin,
    relocation::{MOVED, follow},
    report::Report,
    sidecar::{Sidecar, is_at},
    token_directory, tools,
    volume::{VolumeKind, is_private, named},
};
use crate::plugin::{TOKENS, may_name_cache};

/// Directories of the new container's own mounts.
const OWN: [&str; 4] = [TEMPORARY, PLUGINS_DIR, PROGRAM_DIR, tools::DIRECTORY];

/// Directories that no plugin may read, nor anything below or above them.
const CLOSED: [&str; 4] = [PLUGINS_DIR, "/proc", "/sys", "/dev"];

/// Directory into which Argo CD copies its program.
const ARGOCD: &str = "/var/run/argocd";

/// Directory that ssh finds by the account of its UID, not by HOME.
const SSH: &str = "/.ssh";

/// Variable of the directory in which gpg keeps keys, and its usual place in HOME.
const GPG: (&str, &str) = ("GNUPGHOME", "/.gnupg");

/// Extensions of files that variables name.
const FILES: [&str; 10] =
    ["conf", "config", "crt", "env", "ini", "json", "key", "pem", "toml", "yaml"];

/// The mounts of the new container.
#[derive(Debug)]
pub(super) struct Mounts<'i> {
    lists: &'i Lists,
    config_maps: &'i ConfigMaps,
    sidecars: Vec<Sidecar>,
    /// The repo-server's mounts that are in no list.
    own: Vec<Value>,
    gathered: Vec<Value>,
}

impl<'i> Mounts<'i> {
    pub(super) fn new(lists: &'i Lists, config_maps: &'i ConfigMaps, own: Vec<Value>) -> Self {
        Self { lists, config_maps, sidecars: lists.sidecars(), own, gathered: Vec::new() }
    }

    /// The mounts of all plugins, in the order of the sidecars.
    pub(super) fn merge(mut self, plugins: &mut [Plugin], report: &mut Report) -> Vec<Value> {
        for plugin in plugins {
            self.add(plugin, report);
        }
        self.gathered
    }

    fn add(&mut self, plugin: &mut Plugin, report: &mut Report) {
        let all = plugin.sidecar.mounts().to_vec();
        let mut kept: Vec<_> = all.iter().filter(|mount| self.is_kept(mount, plugin)).collect();
        // One that is mounted elsewhere takes those below it with it.
        kept.sort_by_key(|mount| all.iter().filter(|other| is_below(mount, other)).count());
        for mount in kept {
            self.mount(mount.clone(), plugin, report);
        }
    }

    fn is_kept(&self, mount: &Value, plugin: &Plugin) -> bool {
        !is_replaced(mount, plugin) && !self.is_only_definition(mount, plugin)
    }

    /// True if nothing but the definition is mounted.
    fn is_only_definition(&self, mount: &Value, plugin: &Plugin) -> bool {
        let map = plugin.config_map.as_deref();
        let keys = map.and_then(|map| self.config_maps.keys(map)).map_or(0, Iterator::count);
        let volume = named(&self.lists.volumes, text(mount, "name"));
        let Some(source) = volume.and_then(|volume| volume.get("configMap")) else { return false };
        let items = list(source, "items").len();
        let config = plugin.sidecar.config_dir();
        is_at(mount, config) && (items == 1 || (items == 0 && keys <= 1))
    }

    fn mount(&mut self, mut mount: Value, plugin: &mut Plugin, report: &mut Report) {
        let (name, path) = (text(&mount, "name").to_owned(), trimmed(text(&mount, "mountPath")));
        let (plugin_name, path) = (plugin.name.clone(), path.to_owned());
        let volume = named(&self.lists.volumes, &name);
        let kind = VolumeKind::of(volume, self.lists, &self.own);
        match kind {
            VolumeKind::Scratch => return scratch(&path, plugin, report),
            // The runtime makes directories in it for the mounts below it.
            VolumeKind::Filled if self.has_below(&mount, plugin) => {}
            // Commands can read files of a mount that nobody can write to.
            VolumeKind::Filled | VolumeKind::Public => set(&mut mount, &["readOnly"], json!(true)),
            VolumeKind::Lasting if !is_read_only(&mount) => {
                report.check(format!(
                    "plugin `{plugin_name}`: its commands can read {path} (volume `{name}`), and \
                     can no longer write there, because each request has a UID of its own"
                ));
            }
            VolumeKind::Hidden | VolumeKind::Lasting | VolumeKind::Unknown => {}
        }
        self.warn_of_programs(&path, &plugin_name, report);
        self.warn_of_homes(&path, plugin, report);
        let is_home = plugin.sidecar.variable(GPG.0).is_some_and(|home| is_within(home, &path));
        let path = self.place(mount, plugin, report);
        let in_memory = volume.is_some_and(|volume| {
            volume.get("emptyDir").is_some_and(|source| text(source, "medium") == "Memory")
        });
        let is_open = matches!(kind, VolumeKind::Filled | VolumeKind::Public)
            && self.gathered.iter().any(|mount| is_at(mount, &path) && is_read_only(mount));
        if in_memory || !is_open {
            allow(&path, &name, plugin, report);
        }
        if !in_memory && self.is_shown_to_others(&name) {
            warn_of_readers(kind, &name, &path, report);
        }
        if volume.is_some_and(is_private) {
            report.check(format!(
                "volume `{name}`: its defaultMode lets only the owner or the group read: set \
                 defaultMode 0444, or 0440 if the Pod has an fsGroup, because each request has a UID \
                 of its own"
            ));
        }
        if kind == VolumeKind::Filled && (is_home || path.ends_with(GPG.1)) {
            report.check(format!(
                "plugin `{plugin_name}`: gpg writes to {path} and must own it: give the plugin the \
                 Secret with the key, and let `init` import it into a directory in $HOME (not with \
                 the profile restricted)"
            ));
        }
        if kind == VolumeKind::Hidden && path.ends_with(SSH) {
            report.check(format!(
                "plugin `{plugin_name}`: ssh does not look for {path} in a request: name the key \
                 in GIT_SSH_COMMAND, and see docs/image.md for accounts and host keys"
            ));
        }
    }

    /// True if the new container has another mount of the sidecar below this one.
    fn has_below(&self, mount: &Value, plugin: &Plugin) -> bool {
        let mut others = plugin.sidecar.mounts().iter();
        others.any(|other| {
            let stays = self.is_kept(other, plugin) || is_at(other, plugin.sidecar.socket_dir());
            is_below(other, mount) && stays
        })
    }

    /// Tells if a program is now in the place of one that other plugins had.
    fn warn_of_programs(&self, path: &str, plugin: &str, report: &mut Report) {
        let is_searched = tools::SEARCHED.iter().any(|at| is_within(path, &format!("/{at}")));
        let has = |sidecar: &Sidecar| sidecar.mounts().iter().any(|mount| is_at(mount, path));
        if is_searched && !self.sidecars.iter().all(has) {
            report.check(format!(
                "plugin `{plugin}`: its volume at {path} is now in the place of the image's files for \
                 all plugins: check that the others need no other version of these programs"
            ));
        }
    }

    /// Tells if requests do not find files in their HOME or the like, because the container has the
    /// directory of another sidecar in its place.
    fn warn_of_homes(&self, path: &str, plugin: &Plugin, report: &mut Report) {
        for name in HOMES {
            let home = |sidecar: &Sidecar| {
                let home = sidecar.variable(name).filter(|home| !is_within(home, TEMPORARY));
                home.map(|home| trimmed(home).to_owned())
            };
            let first = self.sidecars.iter().find_map(home).unwrap_or_default();
            if home(&plugin.sidecar).is_some_and(|own| own != first && is_within(path, &own)) {
                report.check(format!(
                    "plugin `{}`: requests do not find the volume at {path} in ${name}, because \
                     {name} is {first} for all plugins: mount it there, or name its path in the \
                     plugin's commands",
                    plugin.name
                ));
            }
        }
    }

    /// True if plugins whose sidecars did not have a volume can read it now, unless it is in
    /// memory: what is mounted read-only.
    fn is_shown_to_others(&self, name: &str) -> bool {
        let is_mounted = |mount: &Value| text(mount, "name") == name && is_read_only(mount);
        let is_everywhere = self.sidecars.iter().all(|s| {
            let mut mounts = s.mounts().iter();
            mounts.any(|mount| text(mount, "name") == name)
        });
        !is_everywhere && self.gathered.iter().any(is_mounted)
    }

    /// Mounts it at its path, or elsewhere if the path is taken. Returns the path.
    fn place(&mut self, mut mount: Value, plugin: &mut Plugin, report: &mut Report) -> String {
        let path = trimmed(text(&mount, "mountPath")).to_owned();
        let follows = plugin.edit.moved.keys().any(|outer| is_within(&path, outer));
        let obstacle = self.obstacle(&mount, plugin).filter(|_| !follows);
        if !follows && obstacle.is_none() {
            if !self.gathered.iter().any(|other| is_at(other, &path)) {
                self.gathered.push(mount);
            }
            return path;
        }
        let new = format!("{MOVED}/{}{path}", label(&plugin.name, usize::MAX));
        set(&mut mount, &["mountPath"], json!(new));
        self.gathered.push(mount);
        if let Some(obstacle) = obstacle {
            let changes = follow(plugin, &path, &new);
            report.check(format!(
                "plugin `{}`: {path} {obstacle} in the new container, so its files are at {new}: \
                 {changes}check scripts that its commands call",
                plugin.name
            ));
        }
        plugin.edit.moved.insert(path, new.clone());
        new
    }

    /// The reason why a mount cannot be at its path.
    fn obstacle(&self, mount: &Value, plugin: &Plugin) -> Option<String> {
        let path = text(mount, "mountPath");
        let taken = || "is taken".to_owned();
        if OWN.iter().any(|own| is_within(path, own)) {
            return Some(taken());
        }
        let other = self.gathered.iter().find(|other| self.meets(mount, other, plugin))?;
        let overlaps = || format!("overlaps {}", trimmed(text(other, "mountPath")));
        Some(if is_at(other, path) { taken() } else { overlaps() })
    }

    /// True if a plugin would read something through a mount that its sidecar did not have.
    /// A read-only mount may also have no directory for one of another sidecar below it.
    fn meets(&self, mount: &Value, other: &Value, plugin: &Plugin) -> bool {
        if is_below(mount, other) {
            let mut readers = self.sidecars.iter().filter(|sidecar| self.has(sidecar, other));
            !readers.all(|sidecar| self.has(sidecar, mount))
        } else {
            is_within(text(other, "mountPath"), text(mount, "mountPath"))
                && !self.has(&plugin.sidecar, other)
        }
    }

    /// True if a sidecar has the same mount.
    fn has(&self, sidecar: &Sidecar, mount: &Value) -> bool {
        let is_same = |other: &Value| {
            let is_equal = |key: &str| text(other, key) == text(mount, key);
            is_at(other, text(mount, "mountPath"))
                && ["name", "subPath", "subPathExpr"].into_iter().all(is_equal)
        };
        sidecar.mounts().iter().any(is_same) && agrees(mount, &self.sidecars)
    }
}

/// True if a mount is below another one.
fn is_below(mount: &Value, other: &Value) -> bool {
    let (path, outer) = (text(mount, "mountPath"), text(other, "mountPath"));
    is_within(path, outer) && !is_at(mount, outer)
}

fn is_read_only(mount: &Value) -> bool {
    mount.get("readOnly") == Some(&json!(true))
}

/// Lets a plugin read a mount, unless the sandbox refuses its path.
fn allow(path: &str, volume: &str, plugin: &mut Plugin, report: &mut Report) {
    let name = &plugin.name;
    let Some(closed) = closed(path, plugin) else {
        report.change(format!("plugin `{name}`: spec.sandbox.read lets it read {path}"));
        plugin.edit.read.insert(path.to_owned());
        return;
    };
    if closed == path && TOKENS.contains(&closed) {
        return token_directory::allow(path, volume, plugin, report);
    }
    report.check(format!(
        "plugin `{name}`: it cannot read {path} (volume `{volume}`), because no plugin may read \
         {closed}: mount the volume at another path, and name that path in spec.sandbox.read and in \
         the plugin's commands and variables"
    ));
}

/// The directory because of which the sandbox refuses to let a plugin read a path.
fn closed<'c>(path: &str, plugin: &'c Plugin) -> Option<&'c str> {
    let mut closed = CLOSED.into_iter().chain([plugin.sidecar.socket_dir()]);
    let meets = |other: &&str| is_within(path, other) || is_within(other, path);
    closed.find(meets).or_else(|| TOKENS.into_iter().find(|tokens| is_within(tokens, path)))
}

fn warn_of_readers(kind: VolumeKind, name: &str, path: &str, report: &mut Report) {
    let told =
        format!("volume `{name}` was not in all sidecars, and all plugins can read {path} now");
    match kind {
        VolumeKind::Public => report.change(told),
        VolumeKind::Filled => {
            report.check(format!("{told}: if it has credentials, set emptyDir.medium: Memory"));
        }
        VolumeKind::Lasting => {
            report.check(format!("{told}: if it has credentials, move them to a Secret"));
        }
        VolumeKind::Hidden | VolumeKind::Scratch | VolumeKind::Unknown => {}
    }
}

/// True if the new container has its own mount in place of this one.
fn is_replaced(mount: &Value, plugin: &Plugin) -> bool {
    let path = trimmed(text(mount, "mountPath"));
    is_at(mount, plugin.sidecar.socket_dir())
        || is_at(mount, TEMPORARY)
        || is_at(mount, ARGOCD)
        || path == plugin.sidecar.definition()
}

/// A directory to which a sidecar wrote: a cache, if the value of a variable is a directory there.
fn scratch(path: &str, plugin: &mut Plugin, report: &mut Report) {
    let is_there = |v: &&Value| replace_path(text(v, "value"), path, "") != text(v, "value");
    let found = plugin.sidecar.variables().iter().filter(is_there);
    // Each request has a HOME and TMPDIR of its own.
    let is_kept = |name: &str| name != "HOME" && !is_own(name);
    let found: Vec<_> = found.filter(|variable| is_kept(text(variable, "name"))).collect();
    let plugin_name = &plugin.name;
    if found.is_empty() {
        return report.check(format!(
            "plugin `{plugin_name}`: the writable volume at {path} was removed, because each \
             request has a HOME and TMPDIR of its own: if a tool keeps files there, add \
             spec.sandbox.caches with the tool's variable"
        ));
    }
    let (caches, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|v| is_cache(v));
    if !others.is_empty() {
        let names: Vec<_> = others.iter().map(|variable| text(variable, "name")).collect();
        report.check(format!(
            "plugin `{plugin_name}`: the writable volume at {path} was removed, and these variables \
             name files or programs there: {}: let the commands set them to paths in $HOME, and \
             put programs into the image",
            names.join(", ")
        ));
    }
    for variable in caches {
        let name = text(variable, "name");
        let cache = label(name, usize::MAX);
        report.change(format!(
            "plugin `{plugin_name}`: the volume at {path} became the cache `{cache}` in ${name}"
        ));
        plugin.edit.caches.insert(cache, name.to_owned());
    }
}

/// True if a cache can take the place of a variable's value, which is one directory.
fn is_cache(variable: &Value) -> bool {
    let (name, value) = (text(variable, "name"), text(variable, "value"));
    let is_list = value.contains(|c: char| c == ':' || c.is_whitespace());
    let extension = Path::new(value).extension().and_then(OsStr::to_str).unwrap_or_default();
    let is_file = name == "KUBECONFIG" || name.ends_with("_FILE") || FILES.contains(&extension);
    value.starts_with('/') && !is_list && !is_file && may_name_cache(name)
}
