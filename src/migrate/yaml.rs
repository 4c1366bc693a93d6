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

/// Stands for a character with which the emitter writes a script as one quoted line.
const STAND_IN: char = '\u{e000}';

/// A text that reads as `value`.
///
/// Rules for plain words differ between versions of YAML. JSON reads the same in
/// all of them, and is the answer if the usual form does not.
pub(super) fn write(value: &Value) -> Result<String, MigrateError> {
    let mut replaced = Vec::new();
    let in_blocks = emit(&with_stand_ins(value, &mut replaced))?;
    // Values are written in the order in which they are read here.
    let mut replaced = replaced.into_iter();
    let original = |c| if c == STAND_IN { replaced.next().unwrap_or(c) } else { c };
    let in_blocks = in_blocks.chars().map(original).collect();
    let is_same = |text: &String| read(text.as_bytes()).is_ok_and(|found| found == *value);
    let texts = [in_blocks, emit(value)?];
    Ok(texts.into_iter().find(is_same).unwrap_or_else(|| format!("{value:#}\n")))
}

fn emit(value: &Value) -> Result<String, MigrateError> {
    serde_yaml::to_string(value).map_err(MigrateError::Write)
}

/// The value with stand-ins in its scripts: for tabs, for blanks at the end of a line, and for
/// characters beyond U+FFFF.
fn with_stand_ins(value: &Value, replaced: &mut Vec<char>) -> Value {
    match value {
        Value::String(text) => {
            let is_script = text.contains('\n');
            let mut next = text.chars().skip(1);
            let stand_in = |c| {
                let ends_line = matches!(next.next(), None | Some('\n'));
                let is_quoted = matches!(c, '\t' | '\u{10000}'..) || (c == ' ' && ends_line);
                if c == STAND_IN || (is_script && is_quoted) {
                    replaced.push(c);
                    return STAND_IN;
                }
                c
            };
            text.chars().map(stand_in).collect::<String>().into()
        }
        Value::Array(items) => items.iter().map(|item| with_stand_ins(item, replaced)).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| (key.clone(), with_stand_ins(value, replaced)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
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
        for script in [
            "set -e\nhelm template .\n",
            "a \nb  \n \nc ",
            "if a; then\n\tb\t\nfi \n",
            "echo 🚀\ncat \u{e000} \n",
            "  a \n\n",
        ] {
            let value = json!({ "args": [script, "\u{e000} \t", script] });
            let text = write(&value).unwrap();
            assert_eq!(text.matches("- |").count(), 2, "{text}");
            assert_eq!(read(text.as_bytes()).unwrap(), value, "{text}");
        }
    }

    #[test]
    fn a_text_that_no_block_can_have_is_quoted() {
        for text in ["a \r\nb", " \na", "\u{7}\t\n\n"] {
            let value = json!({ "args": text, "b": "c \n" });
            let written = write(&value).unwrap();
            assert!(written.starts_with("args: \""), "{written}");
            assert_eq!(read(written.as_bytes()).unwrap(), value, "{written}");
        }
    }
}
