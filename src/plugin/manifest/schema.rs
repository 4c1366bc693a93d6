//! plugin.yaml as JSON Schema, from the table that the reader goes by.

use serde_json::{Map, Value, json};

use super::{
    KIND,
    fields::PLUGIN,
    shape::{Shape, Struct, Unknown},
};
use crate::plugin::Isolation;

/// The draft that editors understand best.
const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// What the schema calls itself.
const TITLE: &str = "ConfigManagementPlugin of Argo CD, with the keys of cmp-supervisor";

/// The JSON Schema of a definition. It is stricter than the reader where that
/// only warns: keys are spelt as they should be, and nobody's keys are refused.
#[must_use]
pub fn schema() -> Value {
    let mut schema = object(&PLUGIN);
    let required = json!({
        "$schema": DRAFT,
        "title": TITLE,
        "required": ["kind", "metadata", "spec"],
    });
    merge(&mut schema, required);
    demand(&mut schema, "/properties/metadata", json!({"required": ["name"]}));
    demand(&mut schema, "/properties/metadata/properties/name", json!({"minLength": 1}));
    demand(&mut schema, "/properties/spec", json!({"required": ["generate"]}));
    let generate = "/properties/spec/properties/generate";
    demand(&mut schema, generate, json!({"required": ["command"]}));
    demand(&mut schema, &format!("{generate}/properties/command"), json!({"minItems": 1}));
    schema
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
    // Kubernetes may add to its metadata what it likes.
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
            let words = Isolation::ALL.iter().map(|(_, word)| *word);
            json!({"enum": words.collect::<Vec<_>>()})
        }
        Shape::Duration => {
            json!({"type": "string", "pattern": r"^([0-9.]+(h|m|s|ms))+$", "examples": ["90s", "1m30s"]})
        }
        Shape::Bytes => json!({
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": "^[0-9]+(k|M|G|T|Ki|Mi|Gi|Ti)?$"},
            ],
            "examples": ["512Mi"],
        }),
        Shape::Count => json!({
            "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+$"}],
        }),
        Shape::Network => json!({
            "anyOf": [
                {"enum": ["none", "any"]},
                {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": u16::MAX}},
            ],
        }),
    }
}

fn merge(schema: &mut Value, more: Value) {
    if let (Value::Object(members), Value::Object(more)) = (schema, more) {
        members.extend(more);
    }
}

fn demand(schema: &mut Value, pointer: &str, demanded: Value) {
    if let Some(inner) = schema.pointer_mut(pointer) {
        merge(inner, demanded);
    }
}
