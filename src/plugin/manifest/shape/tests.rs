//! Values that Go's decoder accepts and refuses.

use serde_json::json;

use super::*;

static INNER: Struct = Struct {
    name: "Command",
    fields: &[
        Field { name: "command", shape: Shape::List(&Shape::String), about: "" },
        Field { name: "args", shape: Shape::List(&Shape::String), about: "" },
    ],
    unknown: Unknown::Skipped,
};
static OUTER: Struct = Struct {
    name: "Spec",
    fields: &[
        Field { name: "generate", shape: Shape::Struct(&INNER), about: "" },
        Field { name: "version", shape: Shape::String, about: "" },
    ],
    unknown: Unknown::Skipped,
};

fn outer(value: &Value) -> (Value, Vec<Finding>) {
    read(value, &Shape::Struct(&OUTER))
}

fn go_text(findings: &[Finding]) -> &str {
    match &findings[0].kind {
        FindingKind::Type { message, .. } => message,
        FindingKind::Unknown { .. } | FindingKind::Refused { .. } | FindingKind::Case { .. } => "",
    }
}

#[test]
fn keys_that_differ_in_case_are_merged_field_by_field() {
    let value = json!({"Generate": {"command": ["U"]}, "generate": {"args": ["a"]}});
    let (read, findings) = outer(&value);
    assert_eq!(read, json!({"generate": {"command": ["U"], "args": ["a"]}}));
    assert_eq!(findings.len(), 1);
}

#[test]
fn lists_whose_keys_differ_in_case_are_merged_element_by_element() {
    for (first, second, merged) in [
        (json!(["U", "V"]), json!(["a", null]), json!(["a", "V"])),
        (json!(["U", "V"]), json!([null]), json!(["U"])),
        (json!(["U"]), json!([null, "b"]), json!(["U", "b"])),
        (json!(["U"]), json!(null), json!([])),
        (json!(["U"]), json!([]), json!([])),
    ] {
        let (read, _) = outer(&json!({"generate": {"Command": first, "command": second}}));
        assert_eq!(read, json!({"generate": {"command": merged}}));
    }
}

#[test]
fn letters_that_fold_to_ascii_count_as_ascii() {
    let (read, _) = outer(&json!({"verſion": "1"}));
    assert_eq!(read, json!({"version": "1"}));
}

#[test]
fn a_number_is_refused_as_a_string() {
    let (_, findings) = outer(&json!({"version": 1}));
    let message = "json: cannot unmarshal number into Go struct field Spec.version of type string";
    assert_eq!(go_text(&findings), message);
}

#[test]
fn the_innermost_struct_is_named_in_an_error() {
    let (_, findings) = outer(&json!({"generate": {"command": "sh"}}));
    let message = "json: cannot unmarshal string into Go struct field Command.generate.command of type []string";
    assert_eq!(go_text(&findings), message);
}

#[test]
fn null_does_not_change_a_field_and_empties_an_element() {
    let (read, findings) = outer(&json!({"version": null, "generate": {"command": ["a", null]}}));
    assert_eq!(read, json!({"version": "", "generate": {"command": ["a", ""]}}));
    assert_eq!(findings, []);
}

#[test]
fn a_list_in_place_of_a_definition_has_gos_error() {
    let (_, findings) = outer(&json!([]));
    let message = "json: cannot unmarshal array into Go value of type plugin.Spec";
    assert_eq!(go_text(&findings), message);
}

#[test]
fn an_unknown_key_is_reported_with_its_path() {
    let (_, findings) = outer(&json!({"generate": {"comand": []}}));
    let path = vec![Step::Key("generate".into()), Step::Key("comand".into())];
    assert_eq!(findings[0].path, path);
}
