//! Diagnostics as JSON and SARIF.

use std::path::Path;

use serde_json::{Value, json};

use super::{Validation, explain::section};
use crate::{
    plugin::{Code, Diagnostic, Problem, Region, Severity},
    terminal::printable_json,
};

/// Version of the JSON format; rises with each incompatible change.
const VERSION: u32 = 1;

/// The whole result as one JSON object.
pub(super) fn json(report: &Validation) -> String {
    let diagnostics: Vec<_> = report.problems.iter().map(diagnostic).collect();
    let mut value = json!({
        "version": VERSION,
        "files": report.files(),
        "plugins": report.catalog.iter().map(|plugin| plugin.name.as_str()).collect::<Vec<_>>(),
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "notes": report.count(Severity::Note),
        "diagnostics": diagnostics,
    });
    if let (Some(reload), Some(members)) = (&report.reload, value.as_object_mut()) {
        members.insert("reload".into(), reload.json());
    }
    printable_json(&format!("{value:#}"))
}

fn diagnostic(problem: &Problem) -> Value {
    let mut value = serde_json::to_value(&problem.problem).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.insert("file".into(), problem.file.as_str().into());
        members.insert("severity".into(), problem.problem.severity().to_string().into());
        let place = problem.place.to_string();
        if !place.is_empty() {
            members.insert("place".into(), place.into());
        }
    }
    value
}

/// The whole result as SARIF 2.1.0.
pub(super) fn sarif(report: &Validation) -> String {
    let rules: Vec<_> = Code::ALL.iter().map(rule).collect();
    let results: Vec<_> = report.problems.iter().map(|problem| result(report, problem)).collect();
    let driver = json!({
        "name": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "rules": rules,
    });
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    });
    printable_json(&format!("{log:#}"))
}

/// The description of a code, whose first paragraph is its summary.
fn rule((code, _, severity, title): &(Code, u16, Severity, &str)) -> Value {
    let help = section(*code).unwrap_or_default();
    let summary = help.split("\n\n").nth(1).unwrap_or(title);
    json!({
        "id": code,
        "shortDescription": {"text": title},
        "fullDescription": {"text": summary},
        "help": {"text": help, "markdown": help},
        "defaultConfiguration": {"level": severity},
    })
}

fn result(report: &Validation, problem: &Problem) -> Value {
    let Diagnostic { code, message, region, notes, help, related, .. } = &problem.problem;
    let texts = [message].into_iter().chain(notes).chain(help);
    let text: Vec<_> = texts.map(String::as_str).collect();
    let mut result = json!({
        "ruleId": code,
        "level": problem.problem.severity(),
        "message": {"text": text.join("\n")},
        "locations": [location(report, &problem.file, *region)],
    });
    if let (false, Some(members)) = (related.is_empty(), result.as_object_mut()) {
        let others = related.iter().map(|other| {
            let file = if other.file.is_empty() { &problem.file } else { &other.file };
            let mut location = location(report, file, other.region);
            location["message"] = json!({"text": other.label});
            location
        });
        members.insert("relatedLocations".into(), others.collect());
    }
    result
}

fn location(report: &Validation, file: &str, region: Option<Region>) -> Value {
    let mut place = json!({"artifactLocation": {"uri": uri(file)}});
    match region {
        Some(Region { line, column, end_column }) => {
            place["region"] =
                json!({"startLine": line, "startColumn": column, "endColumn": end_column});
        }
        None if report.is_directory(file) => {}
        // Code scanning shows no result without a line.
        None => place["region"] = json!({"startLine": 1}),
    }
    json!({"physicalLocation": place})
}

/// A path as a URI, which is relative if the path is. Code scanning compares it with the paths
/// of a repository, which do not begin with a dot.
fn uri(path: &str) -> String {
    let scheme = if path.starts_with('/') { "file://" } else { "" };
    let below = Path::new(path).strip_prefix(".").ok().and_then(Path::to_str);
    let path = below.filter(|below| !below.is_empty()).unwrap_or(path);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    path.bytes().fold(scheme.to_owned(), |uri, byte| match byte {
        plain if is_plain(plain) => uri + char::from(plain).encode_utf8(&mut [0; 4]),
        other => uri + &format!("%{other:02X}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_those_of_code_scanning() {
        for (path, expected) in [
            ("d/a b.yaml", "d/a%20b.yaml"),
            ("./d/a.yaml", "d/a.yaml"),
            ("././a.yaml", "a.yaml"),
            ("../a:b.yaml", "../a%3Ab.yaml"),
            (".d/a.yaml", ".d/a.yaml"),
            ("/d/ä.yaml", "file:///d/%C3%A4.yaml"),
            (".", "."),
        ] {
            assert_eq!(uri(path), expected);
        }
    }
}
