//! An Argo CD Application in a file.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::source::{Source, with_remedy};
use crate::{budget::show, config, plugin::documents};

/// Longest file in bytes. The API server takes no object above 1.5 MiB; a file
/// may hold more than one.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Namespace of Argo CD, unless a flag names another one.
const CONTROL_PLANE: &str = "argocd";

/// API group of Argo CD. Others have a kind Application, too.
const GROUP: &str = "argoproj.io/";

/// Fields of an Application that a plugin sees. All are empty without a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ApplicationObject {
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) project: Option<String>,
    pub(super) source: Source,
}

/// Reasons why a file has no Application to render.
#[derive(Debug, Error)]
pub enum NoApplication {
    /// The file cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// The file is too large.
    #[error("it is larger than {}", show(MAX_FILE))]
    Large,
    /// A document is not YAML, or a field has another type.
    #[error("document {number}: {reason}")]
    Invalid {
        /// Its number.
        number: usize,
        /// The error.
        reason: String,
    },
    /// There is no Application of Argo CD.
    #[error("it has no object of kind Application in {GROUP}v1alpha1")]
    Absent,
    /// There are several, and none has the requested name.
    #[error("it has several Applications: choose one with --name: {}", .0.join(", "))]
    Several(Vec<String>),
    /// Its source is a chart, or there is none.
    #[error("the source of the Application has no path: add the directory as APP_DIR")]
    NoPath,
    /// A file with overrides cannot be merged over the source.
    #[error("Argo CD cannot merge it over the source of the Application: {0}")]
    Overrides(String),
    /// Argo CD cannot tell if the plugin or another tool renders the source.
    #[error("the source has both plugin and {0}, and Argo CD accepts only one: remove one")]
    Types(&'static str),
    /// Several sources have a plugin, or there is none at the given position.
    #[error("the Application has {count} sources: choose one with --source-position 1 to {count}")]
    Sources {
        /// Number of sources.
        count: usize,
    },
}

#[derive(Debug, Deserialize)]
struct Document {
    metadata: Metadata,
    spec: Specification,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    namespace: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Specification {
    project: Option<String>,
    destination: Option<Destination>,
    source: Option<Source>,
    #[serde(default)]
    sources: Vec<Source>,
    source_hydrator: Option<SourceHydrator>,
}

#[derive(Debug, Deserialize)]
struct Destination {
    namespace: Option<String>,
}

/// Only its dry source has manifests to render.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SourceHydrator {
    dry_source: Source,
}

impl ApplicationObject {
    /// Reads the Application in a file, as flags choose it; `-` stands for standard input.
    pub(super) fn read(path: &Path, flags: &config::Fields) -> Result<Self, NoApplication> {
        Self::parse(&text(path)?, flags)
    }

    fn parse(text: &[u8], flags: &config::Fields) -> Result<Self, NoApplication> {
        let Document { metadata, mut spec } = choose(applications(text)?, flags.name.as_deref())?;
        let source = one_tool(spec.take_source(flags.source_position)?)?;
        let home = flags.argocd_namespace.as_deref().unwrap_or(CONTROL_PLANE);
        Ok(Self {
            name: Some(metadata.instance(home)).filter(|name| !name.is_empty()),
            namespace: spec.destination.and_then(|destination| destination.namespace),
            project: spec.project,
            source,
        })
    }
}

impl Metadata {
    /// The name of the Application for an Argo CD in the namespace `home`: in another one, it has
    /// that namespace in front.
    fn instance(&self, home: &str) -> String {
        match self.namespace.as_deref().filter(|namespace| !["", home].contains(namespace)) {
            None => self.name.clone(),
            Some(namespace) => format!("{namespace}_{}", self.name),
        }
    }
}

impl Specification {
    /// The source at a position, or else the only one that has a plugin.
    fn take_source(&mut self, position: Option<usize>) -> Result<Source, NoApplication> {
        let sources = std::mem::take(&mut self.sources);
        // Argo CD ignores `source` if there are `sources`, and both if there is a hydrator.
        let dry = self.source_hydrator.take().map(|hydrator| hydrator.dry_source);
        let mut sources = match dry {
            None if !sources.is_empty() => sources,
            dry => dry.or_else(|| self.source.take()).into_iter().collect(),
        };
        let count = sources.len();
        let index = match position {
            Some(position) => position.checked_sub(1).filter(|index| *index < count),
            None => only(sources.iter().map(|source| source.plugin.is_some()))
                .or_else(|| only(sources.iter().map(|source| source.path.is_some()))),
        };
        match index {
            Some(index) => Ok(sources.swap_remove(index)),
            None if position.is_none() && sources.iter().all(|source| source.path.is_none()) => {
                Ok(sources.pop().unwrap_or_default())
            }
            None => Err(NoApplication::Sources { count }),
        }
    }
}

/// The source, if Argo CD can tell which tool renders it.
pub(super) fn one_tool(source: Source) -> Result<Source, NoApplication> {
    match source.other_tool() {
        None => Ok(source),
        Some(other) => Err(NoApplication::Types(other)),
    }
}

/// The index of the only `true`.
fn only(mut all: impl Iterator<Item = bool>) -> Option<usize> {
    let index = all.position(|is_it| is_it)?;
    (!all.any(|is_it| is_it)).then_some(index)
}

pub(super) fn text(path: &Path) -> Result<Vec<u8>, NoApplication> {
    let mut text = Vec::new();
    let read = match path.as_os_str().as_encoded_bytes() {
        b"-" => io::stdin().take(MAX_FILE + 1).read_to_end(&mut text)?,
        _ => fs::File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut text)?,
    };
    if read as u64 > MAX_FILE { Err(NoApplication::Large) } else { Ok(text) }
}

/// All objects of kind Application, also of a list, read as kubectl and Argo CD read them.
fn applications(text: &[u8]) -> Result<Vec<Document>, NoApplication> {
    let mut all = Vec::new();
    for (number, range) in (1..).zip(documents(text)) {
        let invalid = |reason| NoApplication::Invalid { number, reason };
        let json = cmp_yaml::to_json(text.get(range).unwrap_or_default());
        let json = json.map_err(|error| invalid(error.to_string()))?;
        let mut document: Value =
            serde_json::from_slice(&json).map_err(|error| invalid(error.to_string()))?;
        let items = document.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take);
        for object in items.unwrap_or_else(|| vec![document]) {
            if is_application(&object) {
                let object = serde_json::from_value(without_nulls(object));
                all.push(object.map_err(|error| invalid(with_remedy(&error)))?);
            }
        }
    }
    Ok(all)
}

/// True for Argo CD's kind. People leave `apiVersion` out.
fn is_application(object: &Value) -> bool {
    let version = &object["apiVersion"];
    let is_ours = version.as_str().is_some_and(|version| version.starts_with(GROUP));
    object["kind"] == "Application" && (is_ours || version.is_null())
}

/// The value without members that are null: for Kubernetes, they are absent.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let set = members.into_iter().filter(|(_, value)| !value.is_null());
            set.map(|(key, value)| (key, without_nulls(value))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn choose(mut all: Vec<Document>, name: Option<&str>) -> Result<Document, NoApplication> {
    if all.len() > 1 {
        let names = all.iter().map(|document| document.metadata.name.clone()).collect();
        let index = only(all.iter().map(|document| Some(document.metadata.name.as_str()) == name));
        return index.map(|index| all.swap_remove(index)).ok_or(NoApplication::Several(names));
    }
    all.pop().ok_or(NoApplication::Absent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::source::Variable;

    const TWO_SOURCES: &str = "\
kind: ConfigMap
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: web, namespace: team}
spec:
  project: shop
  destination: {namespace: prod}
  sources:
    - {repoURL: https://charts.example, chart: x, targetRevision: 1.2.3}
    - repoURL: https://git.example/a.git
      targetRevision: main
      path: apps/web
      plugin:
        name: helm-v1
        env: [{name: A, value: b}, {name: E}]
        parameters: [{name: list, array: []}, {name: text, string: x}]
";

    fn parse(text: &str) -> Result<ApplicationObject, NoApplication> {
        ApplicationObject::parse(text.as_bytes(), &config::Fields::default())
    }

    #[test]
    fn the_source_with_a_plugin_is_taken() {
        let application = parse(TWO_SOURCES).unwrap();
        assert_eq!(application.name.as_deref(), Some("team_web"));
        assert_eq!(application.source.path.as_deref(), Some(Path::new("apps/web")));
        assert_eq!(application.source.plugin_name(), Some("helm-v1"));
        assert_eq!(application.namespace.as_deref(), Some("prod"));
        let plugin = application.source.plugin.unwrap();
        assert_eq!(plugin.env.len(), 2);
        let json = serde_json::to_string(&plugin.parameters).unwrap();
        assert_eq!(json, r#"[{"array":[],"name":"list"},{"name":"text","string":"x"}]"#);
    }

    #[test]
    fn the_key_for_merges_adds_fields() {
        let merged = "plugin:\n        <<: {name: other, env: [{name: M}]}\n        name: helm-v1";
        let text = TWO_SOURCES.replace("plugin:\n        name: helm-v1", merged);
        let text = text.replace("        env: [{name: A, value: b}, {name: E}]\n", "");
        let application = parse(&text).unwrap();
        assert_eq!(application.source.plugin_name(), Some("helm-v1"));
        let environment = application.source.plugin.unwrap().env;
        assert_eq!(environment, [Variable::from(("M".to_owned(), String::new()))]);
    }

    #[test]
    fn words_have_the_types_that_they_have_for_kubectl() {
        for (key, value, shown) in [
            ("value: b", "value: on", "\"A\": invalid type: boolean `true`"),
            ("value: b", "value: 0644", "\"A\": invalid type: integer `420`"),
            ("path: apps/web", "path: y", "invalid type: boolean `true`"),
            ("targetRevision: main", "targetRevision: 1.10", "invalid type: floating point `1.1`"),
        ] {
            let error = parse(&TWO_SOURCES.replace(key, value)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("document 2: {shown}, expected ")), "{error}");
            assert!(error.contains(" string: put quotes around "), "{error}");
        }
        let text = TWO_SOURCES.replace("env: [{name: A, value: b}, {name: E}]", "env:");
        let application = parse(&text.replace("value: b", "value: 'on'")).unwrap();
        assert!(application.source.plugin.unwrap().env.is_empty());
    }

    #[test]
    fn an_ambiguous_source_is_refused() {
        let two = TWO_SOURCES.replace("chart: x", "path: x, plugin: {}");
        assert!(matches!(parse(&two), Err(NoApplication::Sources { count: 2 })));
        let chosen = |position| {
            let flags = config::Fields { source_position: Some(position), ..Default::default() };
            ApplicationObject::parse(two.as_bytes(), &flags)
        };
        assert_eq!(chosen(1).unwrap().source.plugin.unwrap().parameters, []);
        assert!(chosen(2).is_ok());
        assert!([0, 3].into_iter().all(|position| chosen(position).is_err()));
    }

    #[test]
    fn the_dry_source_of_a_hydrator_is_rendered() {
        let hydrator = TWO_SOURCES.replace(
            "  sources:\n",
            "  source: {path: never}
  sourceHydrator:
    syncSource: {targetBranch: env, path: hydrated}
    drySource:
      path: apps/dry
      targetRevision: dry
      plugin: {name: p}
  sources:
",
        );
        let Source { path, target_revision, plugin, .. } = parse(&hydrator).unwrap().source;
        assert_eq!(path.as_deref(), Some(Path::new("apps/dry")));
        assert_eq!(target_revision.as_deref(), Some("dry"));
        assert_eq!(plugin.unwrap().name, "p");
    }

    #[test]
    fn a_source_of_two_tools_is_refused_as_by_argo_cd() {
        let two = TWO_SOURCES.replace("path: apps/web", "directory: {recurse: true}");
        let error = parse(&two).unwrap_err().to_string();
        assert!(error.starts_with("the source has both plugin and directory, "), "{error}");
    }

    #[test]
    fn one_of_several_applications_is_chosen_by_name() {
        let other = TWO_SOURCES.replace("name: web", "name: api");
        let both = format!("{TWO_SOURCES}---\n{other}");
        assert!(matches!(parse(&both), Err(NoApplication::Several(names)) if names.len() == 2));
        let flags = config::Fields { name: Some("api".to_owned()), ..Default::default() };
        let api = ApplicationObject::parse(both.as_bytes(), &flags).unwrap();
        assert_eq!(api.name.as_deref(), Some("team_api"));
    }

    #[test]
    fn a_name_has_its_namespace_in_front_unless_it_is_argo_cds() {
        for (home, name) in [(None, "team_web"), (Some("team"), "web"), (Some("x"), "team_web")] {
            let argocd_namespace = home.map(str::to_owned);
            let flags = config::Fields { argocd_namespace, ..Default::default() };
            let application = ApplicationObject::parse(TWO_SOURCES.as_bytes(), &flags).unwrap();
            assert_eq!(application.name.as_deref(), Some(name), "{home:?}");
        }
    }

    #[test]
    fn an_application_of_another_group_is_none_of_argo_cd() {
        let other = TWO_SOURCES.replace("argoproj.io/v1alpha1", "app.k8s.io/v1beta1");
        assert!(matches!(parse(&other), Err(NoApplication::Absent)));
        assert!(parse(&format!("{other}---\n{TWO_SOURCES}")).is_ok());
        assert!(parse(&TWO_SOURCES.replace("apiVersion: argoproj.io/v1alpha1\n", "")).is_ok());
    }

    #[test]
    fn a_list_that_kubectl_printed_has_applications() {
        let (_, application) = TWO_SOURCES.split_once("---\n").unwrap();
        let item = application.replace('\n', "\n  ");
        let application = parse(&format!("kind: List\nitems:\n- kind: Pod\n- {item}")).unwrap();
        assert_eq!(application.name.as_deref(), Some("team_web"));
    }

    #[test]
    fn files_without_an_application_are_refused() {
        assert!(matches!(parse("kind: Pod\n"), Err(NoApplication::Absent)));
        assert!(matches!(parse("a: [\n"), Err(NoApplication::Invalid { number: 1, .. })));
        let chart = "kind: Application\nmetadata: {}\nspec: {source: {chart: x}}\n";
        assert_eq!(parse(chart).unwrap(), ApplicationObject::default());
    }
}
