//! The actions that turn the served plugins into the desired ones.

use std::sync::Arc;

use crate::plugin::{Catalog, PluginDefinition, PluginName};

/// One action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Serve a plugin that is not served.
    Start(Arc<PluginDefinition>),
    /// Change the definition of a served plugin; its socket stays.
    Update(Arc<PluginDefinition>),
    /// Stop serving a plugin.
    Stop(PluginName),
}

/// Compares the served plugins with the desired ones. Stops come last, so a
/// renamed plugin is available under its new name before the old one is removed.
#[must_use]
pub fn plan(served: &Catalog, desired: &Catalog) -> Vec<Action> {
    let wanted = desired.iter().filter_map(|definition| match served.get(&definition.name) {
        None => Some(Action::Start(Arc::clone(definition))),
        Some(current) if current != definition => Some(Action::Update(Arc::clone(definition))),
        Some(_) => None,
    });
    let unwanted = served
        .iter()
        .filter(|definition| desired.get(&definition.name).is_none())
        .map(|definition| Action::Stop(definition.name.clone()));
    wanted.chain(unwanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::definition_of;

    fn definition(name: &str, init: &str) -> Arc<PluginDefinition> {
        Arc::new(definition_of(name, &format!("init: {{command: [{init}]}}")))
    }

    fn catalog(definitions: &[(&str, &str)]) -> Catalog {
        definitions.iter().map(|(name, init)| definition(name, init)).collect()
    }

    #[test]
    fn equal_catalogs_need_no_action() {
        let same = catalog(&[("a", "x"), ("b", "x")]);
        assert_eq!(plan(&same, &same.clone()), []);
    }

    #[test]
    fn each_difference_is_one_action_and_stops_come_last() {
        let served = catalog(&[("gone", "x"), ("kept", "x"), ("changed", "x")]);
        let desired = catalog(&[("kept", "x"), ("changed", "z"), ("new", "x")]);
        let gone = served.iter().find(|d| d.name.as_str() == "gone").unwrap().name.clone();
        let expected = [
            Action::Update(definition("changed", "z")),
            Action::Start(definition("new", "x")),
            Action::Stop(gone),
        ];
        assert_eq!(plan(&served, &desired), expected);
    }
}
