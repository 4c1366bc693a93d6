//! plugin.yaml, field for field, and what Argo CD demands of it.

mod extension;
mod fields;
mod shape;

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use thiserror::Error;

use self::{
    extension::{LimitsManifest, Meaningless, SandboxManifest},
    shape::{Finding, FindingKind, Shape, Unknown},
};
use super::{Announcement, CommandLine, Discovery, InvalidName, PluginDefinition, PluginName};
use crate::{
    discovery::{FileNamePattern, GlobPattern, InvalidPattern},
    yaml,
};

pub use self::shape::Step;

/// Reads the first document of a plugin.yaml the way Argo CD does.
pub fn read(text: &[u8]) -> Result<PluginDefinition, InvalidManifest> {
    let json = yaml::to_json(text).map_err(InvalidManifest::Yaml)?;
    let value = serde_json::from_slice(&json).map_err(InvalidManifest::Json)?;
    let (value, findings) = shape::read(&value, &Shape::Struct(&fields::PLUGIN));
    findings.into_iter().try_for_each(refuse)?;
    PluginManifest::deserialize(value).map_err(InvalidManifest::Json)?.try_into()
}

/// Reads announcements that a command printed, as `encoding/json` reads them.
pub fn read_announcements(json: &[u8]) -> Result<Vec<Option<Announcement>>, InvalidManifest> {
    let value: Value = serde_json::from_slice(json).map_err(InvalidManifest::Json)?;
    let (value, findings) = shape::read(&value, &fields::ANNOUNCEMENTS);
    findings.into_iter().try_for_each(refuse)?;
    let items = Vec::<Option<AnnouncementManifest>>::deserialize(value);
    Ok(items.map_err(InvalidManifest::Json)?.into_iter().map(|item| item.map(Into::into)).collect())
}

/// What was noticed may be as good as an error.
fn refuse(Finding { path, kind }: Finding) -> Result<(), InvalidManifest> {
    match kind {
        FindingKind::Type { message } => Err(InvalidManifest::Type { path, message }),
        FindingKind::Unknown { among } if among.unknown == Unknown::Refused => {
            let known = among.fields.iter().map(|(name, _)| *name).collect();
            Err(InvalidManifest::Unknown { path, known })
        }
        FindingKind::Unknown { .. } | FindingKind::Case { .. } => Ok(()),
    }
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
    /// A key of ours that does not exist.
    #[error("{} is not known; there are: {}", at(path), known.join(", "))]
    Unknown {
        /// Where it stands.
        path: Vec<Step>,
        /// The keys that exist there.
        known: Vec<&'static str>,
    },
    /// A value of ours that means nothing.
    #[error("{}: {wanted} is wanted", at(path))]
    Value {
        /// Where it stands.
        path: Vec<Step>,
        /// What would mean something.
        wanted: &'static str,
    },
    /// The name cannot be that of a socket.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The pattern of discovery matches nothing, ever.
    #[error(transparent)]
    Pattern(#[from] InvalidPattern),
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
    sandbox: SandboxManifest,
    limits: LimitsManifest,
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
            discovery: spec.discover.first()?,
            announcements: announcements(spec.parameters.r#static),
            dynamic: spec.parameters.dynamic.line(),
            preserve_file_mode: spec.preserve_file_mode,
            provide_git_credentials: spec.provide_git_creds,
            sandbox: spec.sandbox.try_into()?,
            limits: spec.limits.try_into()?,
        })
    }
}

impl From<Meaningless> for InvalidManifest {
    fn from(value: Meaningless) -> Self {
        Self::Value { path: value.path, wanted: value.wanted }
    }
}

/// A path as people write it: `spec.caches[0].name`.
fn at(path: &[Step]) -> String {
    path.iter().fold(String::new(), |text, step| match step {
        Step::Key(key) if text.is_empty() => key.clone(),
        Step::Key(key) => format!("{text}.{key}"),
        Step::Index(index) => format!("{text}[{index}]"),
    })
}

impl Command {
    fn line(self) -> Option<CommandLine> {
        CommandLine::new(self.command, self.args)
    }
}

impl Discover {
    /// Argo CD asks the first way that is there and no other.
    fn first(self) -> Result<Option<Discovery>, InvalidPattern> {
        if !self.file_name.is_empty() {
            return FileNamePattern::new(&self.file_name).map(Discovery::FileName).map(Some);
        }
        if !self.find.glob.is_empty() {
            return GlobPattern::new(&self.find.glob).map(Discovery::Glob).map(Some);
        }
        Ok(CommandLine::new(self.find.command, self.find.args).map(Discovery::Command))
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
    use std::time::Duration;

    use super::*;
    use crate::plugin::{Isolation, Network};

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
        let spec = "  generate: {command: [a]}\n  discover: {fileName: x, find: {glob: z}}";
        let read = definition(spec).unwrap();
        let pattern = FileNamePattern::new("x").unwrap();
        assert_eq!(read.discovery, Some(Discovery::FileName(pattern)));
    }

    #[test]
    fn a_pattern_that_never_matches_is_found_when_it_is_read() {
        for discover in ["fileName: 'a[]'", "find: {glob: '**/[z-a]'}"] {
            let spec = format!("  generate: {{command: [a]}}\n  discover: {{{discover}}}");
            let error = definition(&spec).unwrap_err().to_string();
            assert!(error.starts_with("error finding "), "{error}");
        }
    }

    #[test]
    fn args_without_a_command_discover_nothing() {
        let read =
            definition("  generate: {command: [a]}\n  discover: {find: {args: [z]}}").unwrap();
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
    fn what_is_ours_is_read_strictly() {
        let spec = "  generate: {command: [a]}\n  sandbox: {network: [443], env: [HOME], read: [/opt/tools],\n    \
                    caches: [{name: helm, env: HELM_CACHE_HOME}], minimumIsolation: uid}\n  \
                    limits: {timeout: 1m30s, memory: 512Mi, processes: 20, minimumManifests: 1}";
        let read = definition(spec).unwrap();
        assert_eq!(read.sandbox.network, Some(Network::Ports(vec![443])));
        assert_eq!(read.sandbox.minimum_isolation, Some(Isolation::Uid));
        assert_eq!(read.sandbox.caches[0].variable, "HELM_CACHE_HOME");
        assert_eq!(read.limits.timeout, Some(Duration::from_secs(90)));
        assert_eq!((read.limits.memory, read.limits.minimum_manifests), (Some(512 << 20), 1));
    }

    #[test]
    fn what_is_ours_and_wrong_names_its_place() {
        for (ours, text) in [
            ("sandbox: {netwrok: none}", "spec.sandbox.netwrok is not known; there are: "),
            ("limits: {timeout: 5}", "cannot unmarshal number"),
            ("limits: {timeout: soon}", "spec.limits.timeout: a duration"),
            ("limits: {memory: lots}", "spec.limits.memory: bytes"),
            ("limits: {requests: -1}", "spec.limits.requests: a whole number"),
            ("sandbox: {network: [99999]}", "spec.sandbox.network: none, any or"),
            ("sandbox: {minimumIsolation: strong}", "spec.sandbox.minimumIsolation: one of"),
            ("sandbox: {read: [../x]}", "spec.sandbox.read: absolute paths"),
            ("sandbox: {caches: [{name: a/b, env: X}]}", "spec.sandbox.caches: items"),
            ("sandbox: {caches: [{nam: a}]}", "spec.sandbox.caches[0].nam is not known"),
        ] {
            let error = definition(&format!("  generate: {{command: [a]}}\n  {ours}")).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn parameters_are_read_in_any_case() {
        let spec =
            "  generate: {command: [a]}\n  Parameters: {Static: [{name: p, required: true}, null]}";
        let read = definition(spec).unwrap();
        let first = read.announcements[0].as_ref().unwrap();
        assert!(first.required && first.name == "p");
        assert_eq!(read.announcements[1], None);
    }
}
