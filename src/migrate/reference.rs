//! References of variables to others: `$(NAME)` in a value.

use serde_json::Value;

use super::field::text;

/// The form in which Kubernetes replaces a variable in the value of another one.
pub(super) fn reference(name: &str) -> String {
    format!("$({name})")
}

/// A part of a value, as Kubernetes reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'v> {
    Text(&'v str),
    /// A doubled dollar sign, which becomes a plain one.
    Dollar,
    /// A reference to the variable of this name.
    Reference(&'v str),
}

impl<'v> Part<'v> {
    fn all(mut rest: &'v str) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let (part, length) = Self::first(rest)?;
            rest = rest.get(length..)?;
            Some(part)
        })
    }

    /// The first part of a value, and its length in bytes.
    fn first(value: &'v str) -> Option<(Self, usize)> {
        if value.starts_with("$$") {
            return Some((Self::Dollar, 2));
        }
        let named = value.strip_prefix("$(").and_then(|rest| rest.split_once(')'));
        if let Some((name, _)) = named {
            return Some((Self::Reference(name), "$()".len() + name.len()));
        }
        let first = value.chars().next()?.len_utf8();
        let end = value.get(first..)?.find('$').map_or(value.len(), |at| first + at);
        Some((Self::Text(value.get(..end)?), end))
    }
}

/// The names of the variables that a value refers to.
pub(super) fn names(value: &str) -> impl Iterator<Item = &str> {
    Part::all(value).filter_map(|part| match part {
        Part::Reference(name) => Some(name),
        Part::Text(_) | Part::Dollar => None,
    })
}

/// True if Kubernetes changes a value in a container with these variables. It leaves
/// references to others as they are.
pub(super) fn is_expanded(value: &str, has: impl Fn(&str) -> bool) -> bool {
    Part::all(value).any(|part| match part {
        Part::Text(_) => false,
        Part::Dollar => true,
        Part::Reference(name) => has(name),
    })
}

/// True if a value refers to a variable.
pub(super) fn refers(value: &str, name: &str) -> bool {
    names(value).any(|found| found == name)
}

/// The value with the references to a variable under its new name.
pub(super) fn renamed(value: &str, old: &str, new: &str) -> String {
    replaced(value, old, &reference(new))
}

/// The value with a text in place of the references to a variable.
pub(super) fn replaced(value: &str, name: &str, text: &str) -> String {
    let written = Part::all(value).map(|part| match part {
        Part::Text(text) => text.to_owned(),
        Part::Dollar => "$$".to_owned(),
        Part::Reference(found) if found == name => text.to_owned(),
        Part::Reference(other) => reference(other),
    });
    written.collect()
}

/// Names and values of the variables that have a value in the manifest, with references
/// to earlier ones replaced, as Kubernetes does.
pub(super) fn literal(variables: &[Value]) -> Vec<(String, String)> {
    let mut known: Vec<(String, String)> = Vec::new();
    for variable in variables {
        let Some(value) = variable.get("value").and_then(Value::as_str) else { continue };
        let value = expanded(value, &known);
        known.push((text(variable, "name").to_owned(), value));
    }
    known
}

/// A value with references replaced once. Those to unknown variables stay.
fn expanded(value: &str, known: &[(String, String)]) -> String {
    let found = |name: &str| known.iter().rev().find(|(other, _)| other == name);
    let written = Part::all(value).map(|part| match part {
        Part::Text(text) => text.to_owned(),
        Part::Dollar => "$".to_owned(),
        Part::Reference(name) => {
            found(name).map_or_else(|| reference(name), |(_, new)| new.clone())
        }
    });
    written.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_doubled_dollar_sign_is_no_reference() {
        assert!(refers("a$(B)", "B") && refers("$$$(B)", "B") && refers("$$(B)$(B)", "B"));
        assert!(!refers("$$(B)", "B") && !refers("$(BB)", "B") && !refers("$$$$$(C)", "B"));
    }

    #[test]
    fn values_refer_to_earlier_variables() {
        let variables = [
            json!({"name": "A", "value": "a$(B)"}),
            json!({"name": "B", "value": "b"}),
            json!({"name": "C", "value": "$(A) $(B)"}),
            json!({"name": "D", "value": "$$(B) $$$(B) $B $( $"}),
        ];
        let values: Vec<_> = literal(&variables).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["a$(B)", "b", "a$(B) b", "$(B) $b $B $( $"]);
    }

    #[test]
    fn only_known_variables_are_replaced() {
        let expands = |value| is_expanded(value, |name| name == "A");
        assert!(expands("$(A)") && expands("a$$b"));
        assert!(!expands("KEY=$(cat /key); $A ${A} $(B)"));
    }

    #[test]
    fn only_references_are_renamed() {
        assert_eq!(
            renamed("$(A) $$(A) $$$(A) $(AB) $A $(", "A", "X"),
            "$(X) $$(A) $$$(X) $(AB) $A $("
        );
    }
}
