//! `--env` and `--param`, as a user types them.

use thiserror::Error;

/// A `spec.source.plugin.parameters` item, as it is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name of the parameter.
    pub name: String,
    /// Part of the parameter that the value is for.
    pub place: Place,
    /// The value.
    pub value: String,
}

/// Part of a parameter that a value is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The parameter is this text.
    Whole,
    /// The next element of the parameter's list.
    Element,
    /// The entry of the parameter's map with this key.
    Key(String),
}

/// The argument is not `NAME=VALUE`.
#[derive(Debug, Error)]
#[error("expected NAME=VALUE")]
pub struct NoPair;

/// The argument is not a parameter.
#[derive(Debug, Error)]
#[error("expected NAME=VALUE; for lists NAME[]=VALUE, for maps NAME[KEY]=VALUE")]
pub struct NoParameter;

/// Splits `NAME=VALUE`.
pub fn pair(text: &str) -> Result<(String, String), NoPair> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or(NoPair)?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Reads a parameter: a text, an element of a list, or an entry of a map.
pub fn parameter(text: &str) -> Result<Parameter, NoParameter> {
    let (name, value) = pair(text).map_err(|NoPair| NoParameter)?;
    let Some(inner) = name.strip_suffix(']') else {
        let is_plain = !name.contains(['[', ']']);
        return is_plain
            .then_some(Parameter { name, place: Place::Whole, value })
            .ok_or(NoParameter);
    };
    let is_name = |name: &str| !name.is_empty() && !name.contains(']');
    let (name, key) = inner.split_once('[').filter(|(name, _)| is_name(name)).ok_or(NoParameter)?;
    let place = if key.is_empty() { Place::Element } else { Place::Key(key.to_owned()) };
    Ok(Parameter { name: name.to_owned(), place, value })
}

/// The first parameter that is given as two kinds, or twice with a value.
#[must_use]
pub fn conflict(parameters: &[Parameter]) -> Option<&str> {
    let clash = |one: &Parameter, other: &Parameter| match (&one.place, &other.place) {
        (Place::Element, Place::Element) => false,
        (Place::Key(one), Place::Key(other)) => one == other,
        (Place::Whole | Place::Element | Place::Key(_), _) => true,
    };
    let has_clash = |(index, other): &(usize, &Parameter)| {
        let mut earlier = parameters.iter().take(*index).filter(|one| one.name == other.name);
        earlier.any(|one| clash(one, other))
    };
    parameters.iter().enumerate().find(has_clash).map(|(_, parameter)| parameter.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_arguments_are_refused() {
        for text in ["x", "=x", "[]=x", "a]=x", "a[=x", "a[b=x", "a][]=x"] {
            assert!(parameter(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_parameter_has_one_kind_and_each_value_once() {
        for (typed, expected) in [
            (&["a=1", "b=2"][..], None),
            (&["a[]=1", "a[]=1"], None),
            (&["a[x]=1", "a[y]=1"], None),
            (&["a=1", "a=2"], Some("a")),
            (&["b=0", "a[x]=1", "a[x]=2"], Some("a")),
            (&["a=1", "a[]=2"], Some("a")),
            (&["a[]=1", "a[x]=2"], Some("a")),
        ] {
            let parameters: Vec<_> = typed.iter().map(|text| parameter(text).unwrap()).collect();
            assert_eq!(conflict(&parameters), expected, "{typed:?}");
        }
    }
}
