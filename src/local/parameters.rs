//! Parameters of an application, in the two forms that Argo CD sends them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::{Parameter, Place};

/// An item of `spec.source.plugin.parameters`. Fields are in the order in which
/// Argo CD writes them as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ParameterValue {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    array: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    map: Option<BTreeMap<String, String>>,
    /// Name of the parameter.
    #[serde(default)]
    pub(super) name: String,
    #[serde(default, rename = "string", skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl ParameterValue {
    /// Collects typed values, one parameter for each name.
    pub(super) fn gather(typed: &[Parameter]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for Parameter { name, place, value } in typed {
            let known = all.iter().position(|parameter| parameter.name == *name);
            let index = known.unwrap_or_else(|| {
                all.push(Self { name: name.clone(), ..Self::default() });
                all.len() - 1
            });
            if let Some(parameter) = all.get_mut(index) {
                parameter.set(place, value);
            }
        }
        all
    }

    fn set(&mut self, place: &Place, value: &str) {
        let value = value.to_owned();
        match place {
            Place::Whole => self.text = Some(value),
            Place::Element => self.array.get_or_insert_default().push(value),
            Place::Key(key) => drop(self.map.get_or_insert_default().insert(key.clone(), value)),
        }
    }

    /// A variable `PARAM_…` for each value.
    pub(super) fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let name = format!("PARAM_{}", upper(&self.name));
        let of = |part: &str, value: &String| (format!("{name}_{part}"), value.clone());
        let text = self.text.iter().map(|value| (name.clone(), value.clone()));
        let map = self.map.iter().flatten().map(|(key, value)| of(&upper(key), value));
        let array = self.array.iter().flatten().enumerate();
        let array = array.map(|(index, value)| of(&index.to_string(), value));
        text.chain(map).chain(array).collect::<Vec<_>>().into_iter()
    }
}

fn upper(name: &str) -> String {
    let letter = |c: char| {
        let c = c.to_ascii_uppercase();
        if c.is_ascii_uppercase() || c.is_ascii_digit() { c } else { '_' }
    };
    name.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parameter;

    #[test]
    fn typed_parameters_become_variables() {
        let typed =
            ["values-files[]=a.yaml", "values-files[]=b.yaml", "set[image.tag]=1", "name=x"];
        let typed: Vec<_> = typed.iter().map(|text| parameter(text).unwrap()).collect();
        let all = ParameterValue::gather(&typed);
        let variables: Vec<_> = all.iter().flat_map(ParameterValue::variables).collect();
        let expected = [
            ("PARAM_VALUES_FILES_0", "a.yaml"),
            ("PARAM_VALUES_FILES_1", "b.yaml"),
            ("PARAM_SET_IMAGE_TAG", "1"),
            ("PARAM_NAME", "x"),
        ];
        assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
