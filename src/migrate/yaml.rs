//! Reads and writes YAML as Argo CD reads it.

use serde_json::Value;

use super::error::MigrateError;

/// Most bytes of JSON that one document can become: more than kubectl prints of a namespace.
const MAX_JSON_BYTES: usize = 256 << 20;

/// The first document of a text.
pub(super) fn read(text: &[u8]) -> Result<Value, String> {
    let mut json = Vec::new();
    let converted = cmp_yaml::Converter::new(MAX_JSON_BYTES).convert(text, &mut json);
    converted.map_err(|error| error.to_string())?;
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}

/// A text that reads as `value`.
///
/// Rules for plain words differ between versions of YAML. JSON reads the same in
/// all of them, and is the answer if the usual form does not.
pub(super) fn write(value: &Value) -> Result<String, MigrateError> {
    let text = serde_yaml::to_string(value).map_err(MigrateError::Write)?;
    let is_same = read(text.as_bytes()).is_ok_and(|found| found == *value);
    Ok(if is_same { text } else { format!("{value:#}\n") })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_that_look_like_other_types_stay_strings() {
        for word in ["yes", "on", "n", "1e3", "0o7", "012", "1_000", "0x1f", "~", "=", "<<", "1:30"]
        {
            let value = json!({ "command": [word] });
            assert_eq!(read(write(&value).unwrap().as_bytes()).unwrap(), value, "{word}");
        }
    }

    #[test]
    fn scripts_keep_their_lines() {
        let value = json!({ "args": ["set -e\nhelm template .\n"] });
        assert!(write(&value).unwrap().contains("- |\n"));
    }
}
