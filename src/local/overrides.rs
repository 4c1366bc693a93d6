//! Files in a repository that override parts of a source.

use std::{
    fs,
    io::{self, ErrorKind},
    path::Path,
};

use serde_json::Value;

use super::{
    LocalError,
    application::{NoApplication, one_tool, text, without_nulls},
    source::{Source, with_remedy},
};

/// Merges the overrides of the application `name` over its source: those for all applications
/// of the directory, then its own.
pub(super) fn merge_overrides(
    source: &mut Source,
    directory: &Path,
    name: &str,
) -> Result<(), LocalError> {
    let own = format!(".argocd-source-{name}.yaml");
    for file in [".argocd-source.yaml", &own] {
        let path = directory.join(file);
        let merged = merge_file(source, &path);
        merged.map_err(|error| LocalError::Application { path, error })?;
    }
    Ok(())
}

fn merge_file(source: &mut Source, path: &Path) -> Result<(), NoApplication> {
    if !exists(path)? {
        return Ok(());
    }
    let invalid = NoApplication::Overrides;
    let json = cmp_yaml::to_json(&text(path)?).map_err(|error| invalid(error.to_string()))?;
    let given = serde_json::from_slice(&json).map_err(|error| invalid(error.to_string()))?;
    let Value::Object(_) = given else {
        return Err(invalid("it is not a mapping: write plugin: {env: [...]}".to_owned()));
    };
    let merged = serde_json::to_value(&*source).and_then(|mut merged| {
        merge(&mut merged, without_nulls(given));
        serde_json::from_value::<Source>(merged)
    });
    let merged = merged.map_err(|error| invalid(with_remedy(&error)))?;
    // Argo CD ignores these fields of the file.
    let Source { repo_url, target_revision, path, .. } = std::mem::take(source);
    *source = one_tool(Source { repo_url, target_revision, path, ..merged })?;
    Ok(())
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
        merge_overrides(&mut source, place.path(), "web").map_err(|error| error.to_string())?;
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
        merge_overrides(&mut source, place.path(), "web").unwrap();
        assert_eq!(source, Source::default());
    }
}
