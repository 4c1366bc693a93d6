//! A set of plugin definitions.

use std::{collections::BTreeMap, sync::Arc};

use super::{PluginDefinition, PluginName};

/// An immutable snapshot of plugin definitions, ordered by name. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog(Arc<BTreeMap<PluginName, Arc<PluginDefinition>>>);

impl Catalog {
    /// The definition called `name`.
    #[must_use]
    pub fn get(&self, name: &PluginName) -> Option<&Arc<PluginDefinition>> {
        self.0.get(name)
    }

    /// All definitions, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<PluginDefinition>> {
        self.0.values()
    }

    /// Number of definitions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no definitions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Arc<PluginDefinition>> for Catalog {
    fn from_iter<I: IntoIterator<Item = Arc<PluginDefinition>>>(definitions: I) -> Self {
        let named = definitions.into_iter().map(|definition| (definition.name.clone(), definition));
        Self(Arc::new(named.collect()))
    }
}

/// A catalog of plugins with these names, for tests.
#[cfg(test)]
pub(crate) fn catalog_of(names: &[&str]) -> Catalog {
    names.iter().map(|name| Arc::new(definition_of(name, ""))).collect()
}

/// A definition with further keys of `spec`, in flow style, for tests.
#[cfg(test)]
pub(crate) fn definition_of(name: &str, spec: &str) -> PluginDefinition {
    let text = format!(
        "kind: ConfigManagementPlugin\nmetadata: {{name: {name}}}\n\
         spec: {{generate: {{command: [x]}}, {spec}}}"
    );
    super::read_first(text.as_bytes()).definition.unwrap()
}
