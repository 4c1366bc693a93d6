//! plugin.yaml, field for field, and what Argo CD demands of it.

mod fields;
mod shape;

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use thiserror::Error;

use self::shape::{FindingKind, Shape};
use super::{Announcement, CommandLine, Discovery, InvalidName, PluginDefinition, PluginName};
use crate::yaml;

pub use self::shape::Step;

/// Reads the first document of a plugin.yaml the way Argo CD does.
pub fn read(text: &[u8]) -> Result<PluginDefinition, InvalidManifest> {
    let json = yaml::to_json(text).map_err(InvalidManifest::Yaml)?;
    let value = serde_json::from_slice(&json).map_err(InvalidManifest::Json)?;
    let (value, findings) = shape::read(&value, &Shape::Struct(&fields::PLUGIN));
    for finding in findings {
        if let FindingKind::Type { message } = finding.kind {
            return Err(InvalidManifest::Type { path: finding.path, message });
        }
    }
    PluginManifest::deserialize(value).map_err(InvalidManifest::Json)?.try_into()
}

/// Reads announcements that a command printed, as `encoding/json` reads them.
pub fn read_announcements(json: &[u8]) -> Result<Vec<Option<Announcement>>, InvalidManifest> {
    let value: Value = serde_json::from_slice(json).map_err(InvalidManifest::Json)?;
    let (value, findings) = shape::read(&value, &fields::ANNOUNCEMENTS);
    for finding in findings {
        if let FindingKind::Type { message } = finding.kind {
            return Err(InvalidManifest::Type { path: finding.path, message });
        }
    }
    let items = Vec::<Option<AnnouncementManifest>>::deserialize(value);
    Ok(items.map_err(InvalidManifest::Json)?.into_iter().map(|item| item.map(Into::into)).collect())
}

/// Why a text is not a plugin definition.
#[derive(Debug, Error)]
pub enum InvalidManifest {
    /// Not YAML.
    #[error(transparent)]
    Yaml(yaml::Error),
    /// Not what the decoder of the typed form takes.
    #[error(transparent)]
    Json(serde_json::Error),
    /// A value of the wrong type.
    #[error("{message}")]
    Type {
        /// Where it stands.
        path: Vec<Step>,
        /// Go's text.
        message: String,
    },
    /// `metadata.name` is empty.
    #[error("invalid plugin configuration file. metadata.name should be non-empty")]
    NoName,
    /// `kind` is another one.
    #[error(
        "invalid plugin configuration file. kind should be ConfigManagementPlugin, found {found}"
    )]
    Kind {
        /// What `kind` says.
        found: String,
    },
    /// Nothing to generate manifests with.
    #[error("invalid plugin configuration file. spec.generate command should be non-empty")]
    NoGenerate,
    /// The name cannot be that of a socket.
    #[error(transparent)]
    Name(#[from] InvalidName),
}

/// The only kind there is.
const KIND: &str = "ConfigManagementPlugin";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PluginManifest {
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    version: String,
    init: Command,
    generate: Command,
    discover: Discover,
    parameters: Parameters,
    preserve_file_mode: bool,
    provide_git_creds: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Command {
    command: Vec<String>,
    args: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Discover {
    find: Find,
    file_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Find {
    command: Vec<String>,
    args: Vec<String>,
    glob: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Parameters {
    r#static: Vec<Option<AnnouncementManifest>>,
    dynamic: Command,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AnnouncementManifest {
    name: String,
    title: String,
    tooltip: String,
    required: bool,
    item_type: String,
    collection_type: String,
    string: String,
    array: Vec<String>,
    map: BTreeMap<String, String>,
}

impl TryFrom<PluginManifest> for PluginDefinition {
    type Error = InvalidManifest;

    /// Argo CD's three demands, in its order; then what a socket's name needs.
    fn try_from(manifest: PluginManifest) -> Result<Self, InvalidManifest> {
        let PluginManifest { kind, metadata, spec } = manifest;
        if metadata.name.is_empty() {
            return Err(InvalidManifest::NoName);
        }
        if kind != KIND {
            return Err(InvalidManifest::Kind { found: kind });
        }
        let generate = spec.generate.line().ok_or(InvalidManifest::NoGenerate)?;
        Ok(Self {
            name: PluginName::new(&metadata.name, &spec.version)?,
            init: spec.init.line(),
            generate,
            discovery: spec.discover.first(),
            announcements: announcements(spec.parameters.r#static),
            dynamic: spec.parameters.dynamic.line(),
            preserve_file_mode: spec.preserve_file_mode,
            provide_git_credentials: spec.provide_git_creds,
        })
    }
}

impl Command {
    fn line(self) -> Option<CommandLine> {
        CommandLine::new(self.command, self.args)
    }
}

impl Discover {
    /// Argo CD asks the first way that is there and no other.
    fn first(self) -> Option<Discovery> {
        if !self.file_name.is_empty() {
            return Some(Discovery::FileName(self.file_name));
        }
        if !self.find.glob.is_empty() {
            return Some(Discovery::Glob(self.find.glob));
        }
        CommandLine::new(self.find.command, self.find.args).map(Discovery::Command)
    }
}

fn announcements(manifests: Vec<Option<AnnouncementManifest>>) -> Vec<Option<Announcement>> {
    manifests.into_iter().map(|manifest| manifest.map(Into::into)).collect()
}

impl From<AnnouncementManifest> for Announcement {
    fn from(manifest: AnnouncementManifest) -> Self {
        Self {
            name: manifest.name,
            title: manifest.title,
            tooltip: manifest.tooltip,
            required: manifest.required,
            item_type: manifest.item_type,
            collection_type: manifest.collection_type,
            string: manifest.string,
            array: manifest.array,
            map: manifest.map,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(spec: &str) -> Result<PluginDefinition, InvalidManifest> {
        let head = "kind: ConfigManagementPlugin\nmetadata: {name: p}\nspec:\n";
        read(format!("{head}{spec}").as_bytes())
    }

    #[test]
    fn argo_cds_demands_come_in_its_order() {
        for (text, message) in [
            ("", "metadata.name should be non-empty"),
            ("metadata: {name: a}\nkind: Pod", "kind should be ConfigManagementPlugin, found Pod"),
            ("metadata: {name: a}\nkind: ConfigManagementPlugin", "spec.generate command"),
        ] {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn the_first_way_of_discovery_is_the_only_one() {
        let spec = "  generate: {command: [a]}\n  discover: {fileName: x, find: {glob: y}}";
        let read = definition(spec).unwrap();
        assert_eq!(read.discovery, Some(Discovery::FileName("x".into())));
    }

    #[test]
    fn args_without_a_command_discover_nothing() {
        let read =
            definition("  generate: {command: [a]}\n  discover: {find: {args: [y]}}").unwrap();
        assert_eq!(read.discovery, None);
    }

    #[test]
    fn an_unquoted_version_is_a_number() {
        let error = definition("  version: 1.0\n  generate: {command: [a]}").unwrap_err();
        assert_eq!(
            error.to_string(),
            "json: cannot unmarshal number into Go struct field PluginConfigSpec.spec.version of type string"
        );
    }

    #[test]
    fn parameters_are_read_in_any_case() {
        let spec =
            "  generate: {command: [a]}\n  Parameters: {Static: [{name: n, required: true}, null]}";
        let read = definition(spec).unwrap();
        let first = read.announcements[0].as_ref().unwrap();
        assert!(first.required && first.name == "n");
        assert_eq!(read.announcements[1], None);
    }
}
