//! References of variables to others: `$(NAME)` in a value.

use serde_json::Value;

use super::field::text;

/// The form in which Kubernetes replaces a variable in the value of another one.
pub(super) fn reference(name: &str) -> String {
    format!("$({name})")
}

/// True if a value refers to a variable. A doubled dollar sign is a plain one.
pub(super) fn refers(value: &str, name: &str) -> bool {
    let is_plain = |at| {
        let before = value.get(..at).unwrap_or_default();
        (before.len() - before.trim_end_matches('$').len()).is_multiple_of(2)
    };
    value.match_indices(&reference(name)).any(|(at, _)| is_plain(at))
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
    let (mut result, mut rest) = (String::new(), value);
    while let Some((before, after)) = rest.split_once("$(") {
        result.push_str(before);
        let named = after.split_once(')').and_then(|(name, tail)| {
            let (_, new) = known.iter().rev().find(|(other, _)| other == name)?;
            Some((new.as_str(), tail))
        });
        let (new, tail) = named.unwrap_or(("$(", after));
        result.push_str(new);
        rest = tail;
    }
    result + rest
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
        ];
        let values: Vec<_> = literal(&variables).into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["a$(B)", "b", "a$(B) b"]);
    }
}
