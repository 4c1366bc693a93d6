//! The environment variables that Argo CD would send for an application.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::config::{Parameter, Place};

/// Names and values, in Argo CD's order.
pub(super) fn compose(
    application: &str,
    directory: &Path,
    variables: &[(String, String)],
    parameters: &[Parameter],
) -> Vec<(String, String)> {
    let directory = directory.display().to_string();
    let mut all: Vec<_> = [
        ("ARGOCD_APP_NAME", application),
        ("ARGOCD_APP_NAMESPACE", "default"),
        ("ARGOCD_APP_PROJECT_NAME", "default"),
        ("ARGOCD_APP_REVISION", ""),
        ("ARGOCD_APP_REVISION_SHORT", ""),
        ("ARGOCD_APP_REVISION_SHORT_8", ""),
        ("ARGOCD_APP_SOURCE_REPO_URL", ""),
        ("ARGOCD_APP_SOURCE_PATH", &directory),
        ("ARGOCD_APP_SOURCE_TARGET_REVISION", ""),
        ("KUBE_VERSION", ""),
        ("KUBE_API_VERSIONS", ""),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    let prefixed = |(name, value): &(String, String)| (format!("ARGOCD_ENV_{name}"), value.clone());
    all.extend(variables.iter().map(prefixed));
    all.push(("ARGOCD_APP_PARAMETERS".to_owned(), announce(parameters)));
    all.extend(flat(parameters));
    all
}

/// All parameters as JSON, with one object for each name.
fn announce(parameters: &[Parameter]) -> String {
    if parameters.is_empty() {
        return "null".to_owned();
    }
    let mut objects: Vec<Map<String, Value>> = Vec::new();
    for Parameter { name, place, value } in parameters {
        let known = objects.iter().position(|object| object.get("name") == Some(&json!(name)));
        let index = known.unwrap_or_else(|| {
            objects.push(Map::from_iter([("name".to_owned(), json!(name))]));
            objects.len() - 1
        });
        let Some(object) = objects.get_mut(index) else { continue };
        match place {
            Place::Whole => drop(object.insert("string".to_owned(), json!(value))),
            Place::Element => {
                let list = object.entry("array").or_insert_with(|| json!([]));
                list.as_array_mut().into_iter().for_each(|list| list.push(json!(value)));
            }
            Place::Key(key) => {
                let map = object.entry("map").or_insert_with(|| json!({}));
                map.as_object_mut().into_iter().for_each(|map| {
                    map.insert(key.clone(), json!(value));
                });
            }
        }
    }
    json!(objects).to_string()
}

/// A variable `PARAM_…` for each value.
fn flat(parameters: &[Parameter]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for Parameter { name, place, value } in parameters {
        let name = format!("PARAM_{}", upper(name));
        let name = match place {
            Place::Whole => name,
            Place::Key(key) => format!("{name}_{}", upper(key)),
            Place::Element => {
                let taken = |index: usize| {
                    let candidate = format!("{name}_{index}");
                    all.iter().any(|(name, _)| *name == candidate)
                };
                let free = (0..=all.len()).find(|index| !taken(*index)).unwrap_or_default();
                format!("{name}_{free}")
            }
        };
        all.push((name, value.clone()));
    }
    all
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
    use crate::config::{pair, parameter};

    fn value<'a>(all: &'a [(String, String)], name: &str) -> &'a str {
        let found = all.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no {name}")).1
    }

    #[test]
    fn variables_get_argo_cds_prefix() {
        let all = compose("web", Path::new("apps/web"), &[pair("FOO=a=b").unwrap()], &[]);
        assert_eq!(value(&all, "ARGOCD_ENV_FOO"), "a=b");
        assert_eq!(value(&all, "ARGOCD_APP_SOURCE_PATH"), "apps/web");
        assert_eq!(value(&all, "ARGOCD_APP_PARAMETERS"), "null");
    }

    #[test]
    fn parameters_are_sent_as_json_and_as_variables() {
        let typed =
            ["values-files[]=a.yaml", "values-files[]=b.yaml", "set[image.tag]=1", "name=x"];
        let parameters: Vec<_> = typed.iter().map(|text| parameter(text).unwrap()).collect();
        let all = compose("web", Path::new("."), &[], &parameters);
        assert_eq!(value(&all, "PARAM_VALUES_FILES_1"), "b.yaml");
        assert_eq!(value(&all, "PARAM_SET_IMAGE_TAG"), "1");
        assert_eq!(value(&all, "PARAM_NAME"), "x");
        let json = r#"[{"array":["a.yaml","b.yaml"],"name":"values-files"},{"map":{"image.tag":"1"},"name":"set"},{"name":"name","string":"x"}]"#;
        assert_eq!(value(&all, "ARGOCD_APP_PARAMETERS"), json);
    }
}
