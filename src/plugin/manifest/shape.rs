//! Types of the values in plugin.yaml, and a reader that follows Go's decoder.
//!
//! Argo CD converts the YAML to JSON and decodes it with `encoding/json`: keys
//! match in any case, keys that differ only in case are merged, unknown keys are
//! skipped, and scalars must have exactly the type of their field.

#[cfg(test)]
mod tests;

use cmp_go::time;
use serde_json::{Map, Value};

use crate::{plugin::suggestion::nearest, settings::Amount};

/// The type of a value in plugin.yaml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::plugin) enum Shape {
    String,
    Bool,
    Integer,
    /// A time in RFC 3339.
    Time,
    List(&'static Shape),
    /// A map from names to values of one shape.
    Map(&'static Shape),
    Struct(&'static Struct),
    /// Any value.
    Any,
    /// The string `ConfigManagementPlugin`.
    Kind,
    /// The name of an isolation level.
    Isolation,
    /// An amount in `spec.limits`: a string or a number.
    Amount(Amount),
    /// `none`, `any` or a list of ports.
    Network,
}

/// A key of a [`Struct`].
#[derive(Debug, PartialEq, Eq)]
pub(in crate::plugin) struct Field {
    pub(in crate::plugin) name: &'static str,
    pub(super) shape: Shape,
    /// Description of the key, without a final full stop.
    pub(super) about: &'static str,
}

impl Field {
    /// The keys inside it, if its value is a struct.
    pub(super) fn inside(&self) -> Option<&'static Struct> {
        if let Shape::Struct(inside) = self.shape { Some(inside) } else { None }
    }
}

/// A map with known keys.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::plugin) struct Struct {
    /// Go's name of the type, used in Go's error texts.
    pub(super) name: &'static str,
    pub(in crate::plugin) fields: &'static [Field],
    pub(super) unknown: Unknown,
}

/// Go's package of the types of Argo CD's API.
const API: &str = "apiclient";

impl Struct {
    /// Go's package of the type.
    fn package(&self) -> &'static str {
        match self.name {
            "ObjectMeta" | "OwnerReference" | "ManagedFieldsEntry" => "v1",
            "ParameterAnnouncement" => API,
            _ => "plugin",
        }
    }

    /// True if an unknown key is an error here: a key in a section of cmp-supervisor, or the
    /// misspelt name of one, because somebody asked for a limit or for isolation. Keys that begin
    /// with `x-` are made for YAML's anchors.
    pub(super) fn refuses(&self, key: &str) -> bool {
        let is_ours = |field: &&Field| {
            field.inside().is_some_and(|inside| inside.unknown == Unknown::Refused)
        };
        let ours = || self.fields.iter().filter(is_ours).map(|field| field.name);
        let meant = || nearest(key, self.fields.iter().map(|field| field.name));
        let is_meant = || !key.starts_with("x-") && ours().any(|name| meant() == Some(name));
        self.unknown == Unknown::Refused || is_meant()
    }
}

/// Treatment of a key that a [`Struct`] does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// Skipped with a warning. Argo CD skips it too.
    Skipped,
    /// An error, in cmp-supervisor's own sections.
    Refused,
}

/// A problem found while reading a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::plugin) struct Finding {
    /// Keys and indices from the root, as written.
    pub(in crate::plugin) path: Vec<Step>,
    pub(in crate::plugin) kind: FindingKind,
}

/// A step from a value to one inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The value of a key.
    Key(String),
    /// An element of a list, counted from 0.
    Index(usize),
}

/// The kinds of [`Finding`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::plugin) enum FindingKind {
    /// The value has the wrong type; the message is Go's.
    Type { message: String, wanted: String, found: &'static str },
    /// The key is unknown, and skipped.
    Unknown { among: &'static Struct },
    /// The key is unknown, and an error.
    Refused { among: &'static Struct },
    /// The key is in the wrong case, and is read anyway.
    Case { canonical: &'static str },
}

/// Reads `value` as `shape`. Returns the value with canonical keys and without
/// skipped ones, and the findings in document order.
pub(super) fn read(value: &Value, shape: &Shape) -> (Value, Vec<Finding>) {
    let mut reader = Decoder::default();
    let mut result = shape.zero();
    reader.decode(value, shape, &mut result);
    (result, reader.findings)
}

impl Shape {
    /// The value that Go leaves in a field that is absent or `null`.
    fn zero(&self) -> Value {
        match self {
            Self::String | Self::Kind | Self::Time | Self::Isolation => {
                Value::String(String::new())
            }
            Self::Bool => Value::Bool(false),
            Self::Integer => Value::from(0),
            Self::List(_) => Value::Array(Vec::new()),
            Self::Map(_) | Self::Struct(_) => Value::Object(Map::new()),
            Self::Any | Self::Amount(_) | Self::Network => Value::Null,
        }
    }

    /// The type as Go prints it.
    fn go_type(&self) -> String {
        match self {
            // Go decodes a time as a string first.
            Self::String | Self::Kind | Self::Time | Self::Isolation => "string".into(),
            Self::Bool => "bool".into(),
            Self::Integer => "int64".into(),
            Self::List(element @ Self::Struct(known)) if known.package() == API => {
                format!("[]*{}", element.go_type())
            }
            Self::List(element) => format!("[]{}", element.go_type()),
            Self::Map(element) => format!("map[string]{}", element.go_type()),
            Self::Struct(known) => format!("{}.{}", known.package(), known.name),
            Self::Any | Self::Amount(_) | Self::Network => "interface {}".into(),
        }
    }

    /// The type in plain English, for messages.
    fn wanted(&self) -> String {
        match self {
            Self::String | Self::Kind | Self::Isolation => "a string".into(),
            Self::Bool => "a boolean".into(),
            Self::Integer => "a whole number".into(),
            Self::Time => "a time like \"2026-01-31T12:00:00Z\"".into(),
            Self::List(Self::String) => "a list of strings".into(),
            Self::List(_) => "a list".into(),
            Self::Map(Self::String) => "a map of strings".into(),
            Self::Map(_) | Self::Struct(_) => "a map".into(),
            Self::Any | Self::Amount(_) | Self::Network => "anything".into(),
        }
    }
}

#[derive(Default)]
struct Decoder {
    path: Vec<Step>,
    /// The fields on the path, with Go's names.
    fields: Vec<&'static str>,
    /// Name of the innermost struct.
    owner: &'static str,
    findings: Vec<Finding>,
    /// Number of findings that are errors.
    refused: usize,
}

/// Most errors that are kept, and most warnings.
const MAX_FINDINGS: usize = 100;

impl Decoder {
    fn decode(&mut self, value: &Value, shape: &Shape, into: &mut Value) {
        match (shape, value) {
            // Go sets these to nil, whatever a key in another case has set. All else stays.
            (Shape::List(_) | Shape::Map(_), Value::Null) => *into = shape.zero(),
            (_, Value::Null) => {}
            (Shape::Any | Shape::Amount(_) | Shape::Network, _)
            | (Shape::String | Shape::Kind | Shape::Isolation, Value::String(_))
            | (Shape::Bool, Value::Bool(_)) => *into = value.clone(),
            (Shape::Integer, Value::Number(number)) if number.is_i64() => *into = value.clone(),
            (Shape::Time, Value::String(text)) => match time::check(text) {
                Ok(()) => *into = value.clone(),
                Err(message) => self.refuse(message, shape, "text"),
            },
            (Shape::List(element), Value::Array(items)) => self.list(items, element, into),
            (Shape::Map(element), Value::Object(members)) => self.map(members, element, into),
            (Shape::Struct(known), Value::Object(members)) => self.members(members, known, into),
            _ => self.mismatch(value, shape),
        }
    }

    fn list(&mut self, items: &[Value], element: &Shape, into: &mut Value) {
        let Value::Array(target) = into else { return };
        target.resize_with(items.len(), || element.zero());
        for (index, (item, into)) in items.iter().zip(target).enumerate() {
            self.path.push(Step::Index(index));
            // Go decodes a `null` element to a nil pointer if elements are structs. A scalar
            // stays what a key in another case has set, or zero.
            match (element, &item, &into) {
                (Shape::Struct(_), Value::Null, _) => *into = Value::Null,
                (_, _, Value::Null) => *into = element.zero(),
                _ => {}
            }
            self.decode(item, element, into);
            self.path.pop();
        }
    }

    fn map(&mut self, members: &Map<String, Value>, element: &Shape, into: &mut Value) {
        let Value::Object(target) = into else { return };
        for (key, value) in members {
            self.path.push(Step::Key(key.clone()));
            let mut read = element.zero();
            self.decode(value, element, &mut read);
            target.insert(key.clone(), read);
            self.path.pop();
        }
    }

    fn members(&mut self, members: &Map<String, Value>, known: &'static Struct, into: &mut Value) {
        let Value::Object(target) = into else { return };
        let outer = std::mem::replace(&mut self.owner, known.name);
        // Keys are sorted by bytes, as in the JSON that Go reads. Of two keys that
        // differ only in case, the later one wins, field by field.
        for (key, value) in members {
            self.path.push(Step::Key(key.clone()));
            match known.fields.iter().find(|field| folds_to(key, field.name)) {
                None if known.refuses(key) => self.find(FindingKind::Refused { among: known }),
                None => self.find(FindingKind::Unknown { among: known }),
                Some(Field { name, shape, .. }) => {
                    self.case(key, name);
                    let field = target.entry(*name).or_insert_with(|| shape.zero());
                    self.fields.push(name);
                    self.decode(value, shape, field);
                    self.fields.pop();
                }
            }
            self.path.pop();
        }
        self.owner = outer;
    }

    fn case(&mut self, key: &str, canonical: &'static str) {
        if key != canonical {
            self.find(FindingKind::Case { canonical });
        }
    }

    fn mismatch(&mut self, value: &Value, shape: &Shape) {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let target = if self.fields.is_empty() {
            "Go value".to_owned()
        } else {
            format!("Go struct field {}.{}", self.owner, self.fields.join("."))
        };
        let go_type = shape.go_type();
        let message = format!("json: cannot unmarshal {found} into {target} of type {go_type}");
        self.refuse(message, shape, found);
    }

    fn refuse(&mut self, message: String, shape: &Shape, found: &'static str) {
        self.find(FindingKind::Type { message, wanted: shape.wanted(), found });
    }

    fn find(&mut self, kind: FindingKind) {
        let is_refused = match &kind {
            FindingKind::Type { .. } | FindingKind::Refused { .. } => true,
            FindingKind::Unknown { .. } | FindingKind::Case { .. } => false,
        };
        let others = self.findings.len() - self.refused;
        if is_refused && self.refused < MAX_FINDINGS {
            self.refused += 1;
        } else if is_refused || others >= MAX_FINDINGS {
            return;
        }
        self.findings.push(Finding { path: self.path.clone(), kind });
    }
}

impl Step {
    /// The steps of keys with dots between them, such as `spec.generate.command`.
    pub(in crate::plugin) fn path(keys: &str) -> Vec<Self> {
        keys.split('.').map(|key| Self::Key(key.to_owned())).collect()
    }

    /// The steps to an element of the list at such a path.
    pub(in crate::plugin) fn item(keys: &str, index: usize) -> Vec<Self> {
        [Self::path(keys), vec![Self::Index(index)]].concat()
    }

    /// The key, unless this is an index.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Key(key) => Some(key),
            Self::Index(_) => None,
        }
    }
}

/// A path as text: `spec.caches[0].name`.
pub(in crate::plugin) fn at(path: &[Step]) -> String {
    path.iter().fold(String::new(), |text, step| match step {
        Step::Key(key) if text.is_empty() => key.clone(),
        Step::Key(key) => format!("{text}.{key}"),
        Step::Index(index) => format!("{text}[{index}]"),
    })
}

/// Compares keys as Go does: without case. Two letters outside ASCII fold to `s`
/// and `k`.
pub(crate) fn folds_to(key: &str, name: &str) -> bool {
    let folded = key.chars().map(|c| match c {
        'ſ' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    });
    folded.eq(name.chars().map(|c| c.to_ascii_lowercase()))
}
