//! The new definitions.

use super::{error::MigrateError, plugin::Plugin};
use crate::plugin::read_first;

/// The new definition of a plugin.
#[derive(Debug)]
pub(super) struct Definition<'p> {
    pub(super) plugin: &'p Plugin,
    pub(super) text: String,
}

impl<'p> Definition<'p> {
    /// The changed definitions, or every reason why one of them would not be served.
    pub(super) fn all(plugins: &'p [Plugin]) -> Result<Vec<Self>, MigrateError> {
        let (mut definitions, mut faults) = (Vec::new(), Vec::new());
        for plugin in plugins {
            let text = plugin.edit.apply(&plugin.text);
            let reading = read_first(text.as_bytes());
            let is_same = |name: &str| name == plugin.name;
            if reading.definition.is_some_and(|definition| is_same(definition.name.as_str())) {
                definitions.push(Self { plugin, text });
            } else {
                let reason = reading.diagnostics.first().map(|found| found.message.clone());
                let reason = reason.unwrap_or_default();
                faults.push(format!("plugin `{}` cannot be changed: {reason}", plugin.name));
            }
        }
        if faults.is_empty() { Ok(definitions) } else { Err(MigrateError::Definitions(faults)) }
    }
}
