//! A source of an Argo CD Application, and the files in a repository that override parts of it.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error as _},
};
use serde_json::Value;

use super::{
    LocalError,
    application::{NoApplication, text, without_nulls},
    parameters::ParameterValue,
};

/// Fields of a source that a plugin sees.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Source {
    #[serde(rename = "repoURL")]
    pub(super) repo_url: Option<String>,
    pub(super) target_revision: Option<String>,
    /// Directory of the application in its repository.
    pub(super) path: Option<PathBuf>,
    pub(super) plugin: Option<PluginSource>,
    pub(super) helm: Option<Value>,
    pub(super) kustomize: Option<Value>,
    pub(super) directory: Option<Value>,
}

/// The value of `spec.source.plugin`.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PluginSource {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default, deserialize_with = "named")]
    pub(super) env: Vec<Variable>,
    #[serde(default, deserialize_with = "named")]
    pub(super) parameters: Vec<ParameterValue>,
}

/// An item of `spec.source.plugin.env`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Variable {
    pub(super) name: String,
    #[serde(default)]
    pub(super) value: String,
}

impl From<(String, String)> for Variable {
    fn from((name, value): (String, String)) -> Self {
        Self { name, value }
    }
}

impl Source {
    /// Merges the overrides of the application `name` over the plugin's part: those for all
    /// applications of the directory, then its own.
    pub(super) fn merge(&mut self, directory: &Path, name: &str) -> Result<(), LocalError> {
        let own = format!(".argocd-source-{name}.yaml");
        for file in [".argocd-source.yaml", &own] {
            let path = directory.join(file);
            let merged = self.merge_file(&path);
            merged.map_err(|error| LocalError::Application { path, error })?;
        }
        Ok(())
    }

    fn merge_file(&mut self, path: &Path) -> Result<(), NoApplication> {
        if !exists(path)? {
            return Ok(());
        }
        let overrides = NoApplication::Overrides;
        let json = cmp_yaml::to_json(&text(path)?);
        let json = json.map_err(|error| overrides(error.to_string()))?;
        let given = serde_json::from_slice(&json).map_err(|error| overrides(error.to_string()))?;
        let Value::Object(_) = given else {
            return Err(overrides("it is not a mapping: write plugin: {env: [...]}".to_owned()));
        };
        let merged = serde_json::to_value(&*self).and_then(|mut merged| {
            merge(&mut merged, without_nulls(given));
            serde_json::from_value::<Self>(merged)
        });
        let Self { plugin, helm, kustomize, directory, .. } =
            merged.map_err(|error| overrides(with_remedy(&error)))?;
        // Argo CD ignores all other fields of the file.
        (self.plugin, self.helm, self.kustomize, self.directory) =
            (plugin, helm, kustomize, directory);
        self.check()
    }

    /// The name of the plugin, if the source has one.
    pub(super) fn plugin_name(&self) -> Option<&str> {
        let name = self.plugin.as_ref().map(|plugin| plugin.name.as_str());
        name.filter(|name| !name.is_empty())
    }

    /// Fails if the source has a plugin and the settings of another tool.
    pub(super) fn check(&self) -> Result<(), NoApplication> {
        let others =
            [("kustomize", &self.kustomize), ("helm", &self.helm), ("directory", &self.directory)];
        match others.into_iter().find(|(_, settings)| settings.is_some()) {
            Some((other, _)) if self.plugin.is_some() => Err(NoApplication::Types(other)),
            Some(_) | None => Ok(()),
        }
    }
}

/// True for a regular file. Argo CD skips directories, and git has no other files.
fn exists(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(found) => Ok(found.is_file()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Merges `patch` over `known` as Argo CD does. It decodes the result of the JSON merge patch over
/// the old source, so that items of lists are merged by their positions.
fn merge(known: &mut Value, patch: Value) {
    match (known, patch) {
        (Value::Object(known), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(known.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(known), Value::Array(patch)) => {
            known.resize(patch.len(), Value::Null);
            known.iter_mut().zip(patch).for_each(|(known, value)| merge(known, value));
        }
        (_, Value::Null) => {}
        (known, patch) => *known = patch,
    }
}

/// The error, with a remedy if a string needs quotes.
pub(super) fn with_remedy(error: &serde_json::Error) -> String {
    let error = error.to_string();
    let needs_quotes = error.ends_with("expected a string") || error.ends_with("path string");
    let remedy = ": put quotes around strings such as \"yes\", \"1.0\" and \"0644\"";
    error + if needs_quotes { remedy } else { "" }
}

/// Reads items one by one, so that an error names its item.
fn named<'de, D: Deserializer<'de>, T: DeserializeOwned>(items: D) -> Result<Vec<T>, D::Error> {
    let read = |item: Value| {
        let name = item.get("name").cloned().unwrap_or_default();
        serde_json::from_value(item).map_err(|error| D::Error::custom(format!("{name}: {error}")))
    };
    Vec::<Value>::deserialize(items)?.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const SOURCE: &str = r#"{
        "path": "app",
        "plugin": {
            "name": "p",
            "env": [{"name": "TAG", "value": "1"}, {"name": "B", "value": "2"}],
            "parameters": [{"name": "image", "string": "old"}, {"name": "m", "map": {"a": "1"}}]
        }
    }"#;

    /// The plugin's part of a source after the overrides in files of these names and texts.
    fn merged(source: &str, files: &[(&str, &str)]) -> Result<String, String> {
        let place = TempDir::new().unwrap();
        for (name, text) in files {
            fs::write(place.path().join(name), text).unwrap();
        }
        let mut source: Source = serde_json::from_str(source).unwrap();
        source.merge(place.path(), "web").map_err(|error| error.to_string())?;
        assert_eq!(source.repo_url, None);
        Ok(serde_json::to_string(&source.plugin).unwrap())
    }

    fn of_all(text: &str) -> Result<String, String> {
        merged(SOURCE, &[(".argocd-source.yaml", text)])
    }

    // All expectations are what Argo CD 3.5.7 did with the same files.
    #[test]
    fn overrides_are_merged_as_argo_cd_merges_them() {
        let json = |name: &str, env: &str, parameters: &str| {
            format!(r#"{{"name":"{name}","env":[{env}],"parameters":[{parameters}]}}"#)
        };
        let env = r#"{"name":"TAG","value":"1"},{"name":"B","value":"2"}"#;
        let (image, map) =
            (r#"{"name":"image","string":"old"}"#, r#"{"map":{"a":"1"},"name":"m"}"#);
        let parameters = format!("{image},{map}");
        for (text, expected) in [
            ("{}", json("p", env, &parameters)),
            ("plugin: {name: q, other: 1}\nfoo: bar", json("q", env, &parameters)),
            ("repoURL: other\npath: other", json("p", env, &parameters)),
            ("plugin: {name: a}\n---\nplugin: {name: b}", json("a", env, &parameters)),
            // Items are merged by position.
            ("plugin: {env: [{name: X}]}", json("p", r#"{"name":"X","value":"1"}"#, &parameters)),
            ("plugin: {parameters: [{}]}", json("p", env, image)),
            (
                "plugin: {parameters: [{array: [a]}, {map: {b: '2'}}]}",
                json(
                    "p",
                    env,
                    r#"{"array":["a"],"name":"image","string":"old"},{"map":{"a":"1","b":"2"},"name":"m"}"#,
                ),
            ),
            // Null removes nothing.
            ("plugin: null", json("p", env, &parameters)),
            ("plugin: {name: null, env: null, parameters: [null]}", json("p", env, image)),
            ("plugin: {env: []}", json("p", "", &parameters)),
        ] {
            assert_eq!(of_all(text).as_ref(), Ok(&expected), "{text}");
        }
    }

    #[test]
    fn the_file_of_the_application_comes_last() {
        let all = (".argocd-source.yaml", "plugin: {env: [{name: A, value: all}], name: q}");
        let own = (".argocd-source-web.yaml", "plugin: {env: [{value: own}]}");
        let other = (".argocd-source-api.yaml", "plugin: {name: other}");
        let expected = r#"{"name":"q","env":[{"name":"A","value":"own"}],"parameters":[]}"#;
        assert_eq!(merged("{}", &[own, all, other]).as_deref(), Ok(expected));
    }

    #[test]
    fn a_file_that_argo_cd_refuses_is_named_with_the_reason() {
        for (text, reason) in [
            ("", "it is not a mapping"),
            ("[plugin]", "it is not a mapping"),
            ("plugin: {name: a", "did not find expected ',' or '}'"),
            ("plugin: text", "invalid type: string"),
            ("path: 1", "invalid type: integer `1`"),
            ("plugin: {env: [{name: A, value: yes}]}", "\"A\": invalid type: boolean `true`"),
            ("plugin: {env: [{name: A, value: yes}]}", "put quotes around"),
            ("helm: {values: x}", "the source has both plugin and helm"),
        ] {
            let error = of_all(text).unwrap_err();
            assert!(error.contains("/.argocd-source.yaml: ") && error.contains(reason), "{error}");
        }
    }

    #[test]
    fn directories_are_no_overrides() {
        let place = TempDir::new().unwrap();
        fs::create_dir(place.path().join(".argocd-source.yaml")).unwrap();
        let mut source = Source::default();
        source.merge(place.path(), "web").unwrap();
        assert_eq!(source, Source::default());
    }
}
