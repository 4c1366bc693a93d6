//! A source of an Argo CD Application.

use std::path::PathBuf;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error as _},
};
use serde_json::Value;

use super::parameters::ParameterValue;

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
    /// The name of the plugin, if the source has one.
    pub(super) fn plugin_name(&self) -> Option<&str> {
        let name = self.plugin.as_ref().map(|plugin| plugin.name.as_str());
        name.filter(|name| !name.is_empty())
    }

    /// The key of another tool that the source has besides a plugin. Argo CD refuses it.
    pub(super) fn other_tool(&self) -> Option<&'static str> {
        self.plugin.as_ref()?;
        let others =
            [("kustomize", &self.kustomize), ("helm", &self.helm), ("directory", &self.directory)];
        others.into_iter().find_map(|(key, settings)| settings.as_ref().map(|_| key))
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
