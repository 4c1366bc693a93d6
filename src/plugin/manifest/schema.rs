//! The JSON Schema of plugin.yaml, generated from the reader's table of fields.

use cmp_sandbox::Tier;
use serde_json::{Map, Value, json};

use super::{
    KIND,
    fields::PLUGIN,
    shape::{Shape, Struct, Unknown},
};
use crate::settings::{Amount, Unit};

/// The draft that most editors support.
const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// Texts that are absolute paths.
const ABSOLUTE: &str = "^/";

/// Paths that lead to a parent directory.
const TO_PARENT: &str = r"(^|/)\.\.(/|$)";

/// Times that are zero.
const NO_TIME: &str = "^[0.hms]*$";

/// The schema's title.
const TITLE: &str = "ConfigManagementPlugin of Argo CD, with the keys of cmp-supervisor";

/// The JSON Schema of a definition. It also refuses unknown keys and keys in the
/// wrong case, for which the reader only warns.
#[must_use]
pub fn schema() -> Value {
    let mut schema = object(&PLUGIN);
    let required = json!({
        "$schema": DRAFT,
        "title": TITLE,
        "required": ["kind", "metadata", "spec"],
        // Places for anchors.
        "patternProperties": {"^x-": {}},
    });
    merge(&mut schema, required);
    require(&mut schema, "/properties/metadata", json!({"required": ["name"]}));
    require(&mut schema, "/properties/metadata/properties/name", json!({"minLength": 1}));
    require(&mut schema, "/properties/spec", json!({"required": ["generate"]}));
    let generate = "/properties/spec/properties/generate";
    require(&mut schema, generate, json!({"required": ["command"]}));
    require(&mut schema, &format!("{generate}/properties/command"), json!({"minItems": 1}));
    require_of_ours(&mut schema);
    schema
}

/// Adds what the values of our keys must be, as far as a pattern can say it.
fn require_of_ours(schema: &mut Value) {
    let spec = "/properties/spec/properties";
    let cache = format!("{spec}/sandbox/properties/caches/items");
    require(schema, &cache, json!({"required": ["name", "env"]}));
    for key in ["name", "env"] {
        require(schema, &format!("{cache}/properties/{key}"), json!({"minLength": 1}));
    }
    let path = format!("{spec}/sandbox/properties/read/items");
    require(schema, &path, json!({"pattern": ABSOLUTE, "not": {"pattern": TO_PARENT}}));
    let include = format!("{spec}/workspace/properties/include/items");
    require(schema, &include, json!({"minLength": 1, "not": {"pattern": TO_PARENT}}));
}

fn object(known: &Struct) -> Value {
    let properties: Map<String, Value> = known
        .fields
        .iter()
        .map(|field| {
            let mut schema = value(&field.shape);
            merge(&mut schema, json!({"description": field.about}));
            (field.name.to_owned(), schema)
        })
        .collect();
    // Later versions of Kubernetes can have more keys in ObjectMeta.
    let is_closed = known.unknown == Unknown::Refused || known.name != "ObjectMeta";
    json!({"type": "object", "properties": properties, "additionalProperties": !is_closed})
}

fn value(shape: &Shape) -> Value {
    match shape {
        Shape::String => json!({"type": "string"}),
        Shape::Kind => json!({"const": KIND}),
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Integer => json!({"type": "integer"}),
        Shape::Time => json!({"type": ["string", "null"]}),
        Shape::List(element) => json!({"type": "array", "items": value(element)}),
        Shape::Map(element) => json!({"type": "object", "additionalProperties": value(element)}),
        Shape::Struct(known) => object(known),
        Shape::Any => json!({}),
        Shape::Isolation => {
            let words = Tier::ALL.iter().rev().map(|tier| tier.as_str());
            json!({"enum": words.collect::<Vec<_>>()})
        }
        Shape::Amount(amount) => amounts(*amount),
        Shape::Network => json!({
            "anyOf": [
                {"enum": ["none", "any"]},
                {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": u16::MAX}},
            ],
        }),
    }
}

/// Numbers and texts that are amounts. Times need a unit, but for 0.
fn amounts(amount: Amount) -> Value {
    let Amount { unit, least, may_be_unlimited, .. } = amount;
    let (pattern, examples) = match unit {
        Unit::Bytes => ("[0-9]+(k|M|G|T|Ki|Mi|Gi|Ti)?", json!(["512Mi"])),
        Unit::Count => ("[0-9]+", json!([64])),
        Unit::Time | Unit::ProcessorTime => ("0|([0-9.]+(h|m|s|ms))+", json!(["90s", "1m30s"])),
    };
    let word = if may_be_unlimited { "|unlimited" } else { "" };
    let text = json!({"type": "string", "pattern": format!("^({pattern}{word})$")});
    let number = match unit {
        Unit::Bytes | Unit::Count => {
            json!({"type": "integer", "minimum": if may_be_unlimited { 0 } else { least }})
        }
        Unit::Time | Unit::ProcessorTime if may_be_unlimited || least == 0 => json!({"const": 0}),
        Unit::Time | Unit::ProcessorTime => {
            return merged(text, json!({"examples": examples, "not": {"pattern": NO_TIME}}));
        }
    };
    json!({"anyOf": [number, text], "examples": examples})
}

fn merged(mut schema: Value, more: Value) -> Value {
    merge(&mut schema, more);
    schema
}

fn merge(schema: &mut Value, more: Value) {
    if let (Value::Object(members), Value::Object(more)) = (schema, more) {
        members.extend(more);
    }
}

fn require(schema: &mut Value, pointer: &str, required: Value) {
    if let Some(inner) = schema.pointer_mut(pointer) {
        merge(inner, required);
    }
}
