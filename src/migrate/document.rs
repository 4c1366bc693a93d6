//! The documents of all inputs.

use std::path::PathBuf;

use serde_json::Value;

use super::{error::MigrateError, field::list, json_patch};
use crate::{plugin::documents, validate, yaml};

/// Reads every document. The items of lists count as documents, but a JSON patch is
/// one document.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Value>, MigrateError> {
    let mut found = Vec::new();
    for (file, text) in validate::texts(paths) {
        let text =
            text.map_err(|problem| MigrateError::Unreadable { file: file.clone(), problem })?;
        for (index, range) in documents(&text).into_iter().enumerate() {
            let text = text.get(range).unwrap_or_default();
            let value = yaml::read(text).map_err(|reason| MigrateError::Yaml {
                file: file.clone(),
                number: index + 1,
                reason,
            })?;
            flatten(value, &mut found);
        }
    }
    Ok(found)
}

fn flatten(value: Value, found: &mut Vec<Value>) {
    match value {
        Value::Array(items) if json_patch::is_patch(&items) => found.push(Value::Array(items)),
        Value::Array(items) => items.into_iter().for_each(|item| flatten(item, found)),
        Value::Object(_) if value.get("items").is_some_and(Value::is_array) => {
            for item in list(&value, "items") {
                flatten(item.clone(), found);
            }
        }
        Value::Null => {}
        Value::Object(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            found.push(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn other_files_of_a_directory_are_left_out() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("README.md"), "# Not YAML: [").unwrap();
        let empty = read(&[directory.path().to_owned()]).unwrap_err().to_string();
        assert!(empty.contains("no .yaml, .yml or .json file in this directory"), "{empty}");
        fs::write(directory.path().join("a.yaml"), "kind: A\n---\nkind: B\n").unwrap();
        assert_eq!(read(&[directory.path().to_owned()]).unwrap().len(), 2);
    }

    #[test]
    fn a_directory_inside_a_directory_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a.yaml"), "kind: A\n").unwrap();
        fs::create_dir(directory.path().join("overlays")).unwrap();
        let refused = read(&[directory.path().to_owned()]).unwrap_err().to_string();
        let expected = "overlays: CMP0404: not read: directories are read only in ConfigMap \
                        volumes: name the files instead of their directory";
        assert!(refused.ends_with(expected), "{refused}");
    }
}
