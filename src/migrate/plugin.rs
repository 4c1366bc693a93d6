//! A plugin with the sidecar that runs it, and the source of its definition.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::PathBuf,
};

use serde_json::Value;

use super::{
    config_map::{ConfigMaps, MapSource},
    edit::{Edit, missed_key},
    error::MigrateError,
    field::{list, text, trimmed},
    lists::Lists,
    report::Report,
    sidecar::{Sidecar, is_at},
    volume::{named, source_kind},
};
use crate::plugin::{documents, read_first};

/// A plugin that is moved.
#[derive(Debug)]
pub(super) struct Plugin {
    /// The name that Applications use.
    pub(super) name: String,
    pub(super) sidecar: Sidecar,
    /// The definition as it is now.
    pub(super) text: String,
    /// True if Helm has expanded the text as a template so far.
    pub(super) is_template: bool,
    /// Name of the ConfigMap that the definition comes from.
    pub(super) config_map: Option<String>,
    /// Everything that its definition must say from now on.
    pub(super) edit: Edit,
}

/// Definitions: where they are mounted from, and those given on the command line.
#[derive(Debug)]
pub(super) struct Sources<'i> {
    pub(super) volumes: &'i [Value],
    pub(super) config_maps: &'i ConfigMaps,
    pub(super) files: &'i [(String, PathBuf)],
}

/// A key of a ConfigMap.
struct Origin<'i> {
    config_map: &'i str,
    key: String,
}

impl Plugin {
    /// The plugins of all sidecars, or everything that is wrong with their definitions.
    pub(super) fn all(
        sidecars: Vec<Sidecar>,
        sources: &Sources<'_>,
        report: &mut Report,
    ) -> Result<Vec<Self>, MigrateError> {
        sources.refuse_unknown(&sidecars)?;
        let (mut plugins, mut faults) = (BTreeMap::<String, Self>::new(), Vec::new());
        let mut order = Vec::new();
        for sidecar in sidecars {
            let container = sidecar.name().to_owned();
            match sources.plugin(sidecar) {
                Err(fault) => faults.push(format!("container `{container}`: {fault}")),
                Ok(plugin) => match plugins.get(&plugin.name) {
                    None => {
                        order.push(plugin.name.clone());
                        plugins.insert(plugin.name.clone(), plugin);
                    }
                    Some(first) => {
                        let (name, other) = (&plugin.name, first.sidecar.name());
                        if first.text != plugin.text {
                            faults.push(format!(
                                "container `{container}`: plugin `{name}` is defined differently in \
                                 container `{other}`: rename one of them, because both use one socket"
                            ));
                        }
                        report.check(format!(
                            "containers `{other}` and `{container}` define the same plugin \
                             `{name}`: only `{other}` was migrated"
                        ));
                    }
                },
            }
        }
        if !faults.is_empty() {
            return Err(MigrateError::Definitions(faults));
        }
        Ok(order.iter().filter_map(|name| plugins.remove(name)).collect())
    }

    /// `ConfigMap`s of definitions that no container and no volume of the result uses.
    pub(super) fn unused_config_maps(all: &[Self], new: &Lists) -> BTreeSet<String> {
        let names = all.iter().filter_map(|plugin| plugin.config_map.clone());
        names.filter(|name| !new.uses_config_map(name)).collect()
    }
}

impl Sources<'_> {
    fn refuse_unknown(&self, sidecars: &[Sidecar]) -> Result<(), MigrateError> {
        let is_known = |name: &str| sidecars.iter().any(|sidecar| sidecar.name() == name);
        match self.files.iter().find(|(name, _)| !is_known(name)) {
            None => Ok(()),
            Some((name, _)) => Err(MigrateError::UnknownContainer {
                name: name.clone(),
                known: sidecars.iter().map(|sidecar| sidecar.name().to_owned()).collect(),
            }),
        }
    }

    fn plugin(&self, sidecar: Sidecar) -> Result<Plugin, String> {
        let (text, is_template, config_map) = self.definition(&sidecar)?;
        // argocd-cmp-server reads no other document.
        let first = documents(text.as_bytes()).into_iter().next().unwrap_or_default();
        let text = text.get(first).unwrap_or_default().to_owned();
        let reading = read_first(text.as_bytes());
        let Some(definition) = reading.definition else {
            let reason = reading.diagnostics.first().map(|found| found.message.clone());
            let reason = reason.unwrap_or_default();
            return Err(format!("its definition is not valid: {reason}"));
        };
        // Changes would miss such a key, and add a second one beside it.
        if let Some(key) = missed_key(&text) {
            return Err(format!(
                "its definition cannot be changed: `{key}` is in another case than in Argo CD's \
                 documentation: write the keys as they are there"
            ));
        }
        let name = definition.name.as_str().to_owned();
        Ok(Plugin { name, sidecar, text, is_template, config_map, edit: Edit::default() })
    }

    fn definition(&self, sidecar: &Sidecar) -> Result<(String, bool, Option<String>), String> {
        if let Some((_, file)) = self.files.iter().find(|(name, _)| name == sidecar.name()) {
            let read = fs::read_to_string(file);
            let failed = |error: io::Error| format!("--definition {}: {error}", file.display());
            return read.map(|text| (text, false, None)).map_err(failed);
        }
        let Some(Origin { config_map, key }) = self.origin(sidecar) else {
            return Err(self.advice(sidecar));
        };
        if let Some(entry) = self.config_maps.entry(config_map, &key) {
            if entry.source == MapSource::PluginsOfSet && entry.text.contains("{{") {
                return Err(format!(
                    "configs.cmp of an ApplicationSet has the definition, with braces that the \
                     ApplicationSet can replace: give the definition as the container has it, with \
                     --definition {}=FILE",
                    sidecar.name()
                ));
            }
            let is_template = entry.source == MapSource::ExtraObjects;
            return Ok((entry.text.to_owned(), is_template, Some(config_map.to_owned())));
        }
        Err(if self.config_maps.contains(config_map) {
            format!("ConfigMap `{config_map}` has no key `{key}`: the container could not start")
        } else {
            format!(
                "ConfigMap `{config_map}` is not in the input: add the output of \
                 `kubectl get configmap {config_map} -o yaml`, or give the file with \
                 --definition {}=FILE",
                sidecar.name()
            )
        })
    }

    /// The reason why a definition that is no key of a ConfigMap cannot be found.
    fn advice(&self, sidecar: &Sidecar) -> String {
        let (file, name) = (sidecar.definition(), sidecar.name());
        let remedy = format!("give it with --definition {name}=FILE");
        let Some(mount) = mount(sidecar) else {
            return format!(
                "nothing is mounted at {file}: copy the file out of the image, and {remedy}"
            );
        };
        let volume = text(mount, "name");
        match named(self.volumes, volume) {
            None => format!(
                "{file} comes from the volume `{volume}`, which is not in the input: add the \
                 manifest that defines it, or {remedy}"
            ),
            Some(source) => {
                let kind = source_kind(source);
                format!(
                    "{file} comes from the volume `{volume}` ({kind}), and no ConfigMap has it: \
                     copy the file out of the container, and {remedy}"
                )
            }
        }
    }

    /// The ConfigMap that is mounted as the definition of a sidecar.
    fn origin(&self, sidecar: &Sidecar) -> Option<Origin<'_>> {
        self.origin_of(mount(sidecar)?, &sidecar.definition())
    }

    /// The text of a file of a sidecar, if a ConfigMap of the input has it.
    pub(super) fn file(&self, sidecar: &Sidecar, file: &str) -> Option<&str> {
        let Origin { config_map, key } = self.origin_of(sidecar.mount_of(file)?, file)?;
        Some(self.config_maps.entry(config_map, &key)?.text)
    }

    /// The ConfigMap that a mount has as a file.
    fn origin_of(&self, mount: &Value, file: &str) -> Option<Origin<'_>> {
        if mount.get("subPathExpr").is_some() {
            return None;
        }
        let volume = named(self.volumes, text(mount, "name"))?;
        let below = file.strip_prefix(trimmed(text(mount, "mountPath")))?.trim_start_matches('/');
        // A mount of the file names it by subPath, and a mount of a directory need not.
        let path = [trimmed(text(mount, "subPath")), below].join("/");
        let projected = volume.get("projected").map_or(&[][..], |volume| list(volume, "sources"));
        let sources = std::iter::once(volume).chain(projected);
        let maps = sources.filter_map(|source| source.get("configMap"));
        let origins: Vec<_> = maps.filter_map(|map| origin(map, path.trim_matches('/'))).collect();
        // The last source with a path wins.
        let has =
            |origin: &&Origin<'_>| self.config_maps.entry(origin.config_map, &origin.key).is_some();
        let found = origins.iter().rposition(|origin| has(&origin)).unwrap_or_default();
        origins.into_iter().nth(found)
    }
}

/// The mount with the definition of a sidecar.
fn mount(sidecar: &Sidecar) -> Option<&Value> {
    let file = sidecar.definition();
    let whole = sidecar.mounts().iter().find(|mount| is_at(mount, &file));
    whole.or_else(|| sidecar.mount_of(sidecar.config_dir()))
}

/// The key that appears at a path of a volume.
fn origin<'v>(map: &'v Value, path: &str) -> Option<Origin<'v>> {
    let config_map = text(map, "name");
    let items = list(map, "items");
    if items.is_empty() {
        return Some(Origin { config_map, key: path.to_owned() });
    }
    let item = items.iter().find(|item| text(item, "path") == path)?;
    Some(Origin { config_map, key: text(item, "key").to_owned() })
}
