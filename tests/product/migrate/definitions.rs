//! Definitions that are written in an unusual way.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;

use super::{
    result::{migrated, refused},
    strange::{TWO, told},
};

#[test]
fn keys_in_another_case_are_refused() {
    let error = refused(&TWO.replacen("generate", "Generate", 1), &[]);
    let expected = "error: container `a`: its definition cannot be changed: `Generate` is read as \
                    `generate`: write the keys as Argo CD documents them";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_comment_after_spec_stays() {
    let text = "kind: ConfigManagementPlugin\n    metadata: {name: a}\n    \
                spec: # of team a\n      # Prints a file.\n      generate: {command: [cat, a.yaml]}\n";
    let (_, rest) = TWO.split_once("  b.yaml: |\n").unwrap();
    let (before, _) = TWO.split_once("  a.yaml: |\n").unwrap();
    let text = format!("{before}  a.yaml: |\n    {text}  b.yaml: |\n{rest}");
    let text = text.replace("#a-mounts", "- {name: keys, mountPath: /keys}");
    let text = text.replace("#volumes", "- {name: keys, secret: {secretName: k}}");
    let result = migrated(&[], &text);
    let definition = &result.definitions()["a.yaml"];
    assert!(definition.contains("spec: # of team a\n  sandbox:\n"), "{definition}");
    assert!(definition.contains("  # Prints a file.\n"), "{definition}");
}

#[test]
fn definitions_in_binary_data_are_found() {
    let (head, texts) = TWO.split_once("data:\n").unwrap();
    let (_, b) = texts.split_once("  b.yaml: |\n").unwrap();
    let encoded = BASE64_STANDARD.encode(b.replace("\n    ", "\n").trim_start());
    let a = texts.strip_suffix(&format!("  b.yaml: |\n{b}")).unwrap();
    let result = migrated(&[], &format!("{head}binaryData: {{b.yaml: {encoded}}}\ndata:\n{a}"));
    assert_eq!(result.definition("b.yaml")["metadata"]["name"], "b");
}

#[test]
fn a_quoted_flag_in_a_script_counts() {
    let start = "args: [sh, -c, 'exec argocd-cmp-server --loglevel \"debug\"']";
    let result = told(&[("a", start)], &[]);
    assert_eq!(result.sidecar()["args"], json!(["serve", "--log-level=debug", "--isolation=uid"]));
}
