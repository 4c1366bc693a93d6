//! Compares results and errors with recordings of Argo CD's decoder.

use std::{fs, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;

use crate::output::manifests;

const MAX_BYTES: usize = 100 << 20;

/// Number of differences that are printed.
const MAX_SHOWN: usize = 20;

/// Prefix that Argo CD adds to every error.
const PREFIX: &str = "failed to unmarshal manifest: ";

/// One row of test data.
struct Row {
    name: String,
    /// A command's output.
    stdout: Vec<u8>,
    manifests: Vec<Vec<u8>>,
    error: Option<String>,
}

impl Row {
    fn parse(line: &str) -> Option<Self> {
        let row: Value = serde_json::from_str(line).expect("a row is JSON");
        if row.get("nondeterministic").and_then(Value::as_bool) == Some(true) {
            return None;
        }
        let text = |key: &str| row.get(key).and_then(Value::as_str);
        let bytes = |key: &str| text(key).map(|text| text.as_bytes().to_vec());
        let decoded =
            |key: &str| text(key).map(|text| BASE64_STANDARD.decode(text).expect("base64"));
        // All of an input counts; a command's output loses its last line break.
        let input = bytes("input").or_else(|| decoded("input_b64"));
        let stdout = bytes("stdout").or_else(|| input.map(|input| [&input, &b"\n"[..]].concat()));
        let list = |key: &str| row.get(key).and_then(Value::as_array);
        let strings = |items: &Vec<Value>| -> Vec<String> {
            items.iter().map(|item| item.as_str().expect("a string").to_owned()).collect()
        };
        let manifests = if let Some(items) = list("docs_b64") {
            let decode = |item: &String| BASE64_STANDARD.decode(item).expect("base64");
            strings(items).iter().map(decode).collect()
        } else {
            let items = list("manifests").or_else(|| list("docs")).expect("results");
            strings(items).into_iter().map(String::into_bytes).collect()
        };
        Some(Self {
            name: text("name").or_else(|| text("id")).unwrap_or_default().to_owned(),
            stdout: stdout.expect("an output"),
            manifests,
            error: text("error").or_else(|| text("err")).map(str::to_owned),
        })
    }

    fn run(&self) -> Result<Vec<Vec<u8>>, String> {
        manifests(&self.stdout, MAX_BYTES).map_err(|error| format!("{PREFIX}{error}"))
    }
}

#[derive(Debug, Default)]
struct Counts {
    rows: usize,
    byte_equal: usize,
    json_equal: usize,
    same_error: usize,
    different: Vec<String>,
}

impl Counts {
    fn add(&mut self, row: &Row) {
        self.rows += 1;
        let ours = row.run();
        match (&ours, &row.error) {
            (Ok(manifests), None) if *manifests == row.manifests => self.byte_equal += 1,
            (Ok(manifests), None) if json(manifests) == json(&row.manifests) => {
                self.json_equal += 1;
                self.different.push(format!("{}: other bytes of the same JSON", row.name));
            }
            (Err(error), Some(wanted)) if error == wanted => self.same_error += 1,
            _ => {
                let wanted: Vec<_> =
                    row.manifests.iter().map(|json| String::from_utf8_lossy(json)).collect();
                let text = format!("{}: {ours:?}, not {wanted:?} {:?}", row.name, row.error);
                self.different.push(text.chars().take(600).collect());
            }
        }
    }
}

fn json<T: AsRef<[u8]>>(manifests: &[T]) -> Option<Vec<Value>> {
    manifests.iter().map(|json| serde_json::from_slice(json.as_ref()).ok()).collect()
}

fn check(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/yaml").join(file);
    let Ok(text) = fs::read_to_string(&path) else {
        println!("skipped: needs {file} in ../shared/data/yaml");
        return;
    };
    let mut counts = Counts::default();
    for row in text.lines().filter_map(Row::parse) {
        counts.add(&row);
    }
    println!(
        "{file}: {} rows, {} equal in bytes, {} in JSON only, {} equal errors, {} different",
        counts.rows,
        counts.byte_equal,
        counts.json_equal,
        counts.same_error,
        counts.different.len(),
    );
    for difference in counts.different.iter().take(MAX_SHOWN) {
        println!("  {difference}");
    }
    assert!(counts.different.is_empty(), "{} rows differ", counts.different.len());
}

#[test]
fn documents_convert_as_in_argo_cd() {
    check("documents.jsonl");
}

#[test]
fn outputs_convert_as_in_argo_cd() {
    check("output.jsonl");
}
