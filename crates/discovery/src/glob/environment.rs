//! Components of a glob that are environment variables.

use std::borrow::Cow;

use super::{Fault, PatternFault};

/// Looks up an environment variable.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The components with variables replaced. Each has its byte offset in the
/// pattern. A value may have several components, or none.
pub(super) fn expand<'a>(
    components: &[(&'a str, usize)],
    lookup: Option<Lookup<'_>>,
) -> Result<Vec<(Cow<'a, str>, usize)>, Fault> {
    let expand_one = |&(component, offset): &(&'a str, usize)| {
        let Some(name) = variable(component) else {
            return Ok((Cow::Borrowed(component), offset));
        };
        let lookup = lookup.ok_or(Fault { offset, fault: PatternFault::Variable })?;
        let value = lookup(name).unwrap_or_default();
        let bare = value.trim_matches(['(', ')']).trim_matches('"');
        Ok((Cow::Owned(bare.to_owned()), offset))
    };
    components.iter().map(expand_one).collect()
}

/// The variable that a component names: `$NAME`, or `$(NAME)` with its
/// parentheses. A name needs at least two letters.
fn variable(component: &str) -> Option<&str> {
    let asked = component.strip_prefix('$')?;
    let bare = asked.strip_prefix('(').map_or(Some(asked), |rest| rest.strip_suffix(')'))?;
    let is_name = bare.len() > 1
        && bare.starts_with(|first: char| first.is_ascii_alphabetic())
        && bare.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
    is_name.then_some(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_component_is_a_variable() {
        assert_eq!(variable("$HOME"), Some("HOME"));
        assert_eq!(variable("$(HOME)"), Some("(HOME)"));
        for literal in ["HOME", "$H", "$1A", "$_A", "$HOME.d", "x$HOME", "$(HOME", "$", "$HÖ"] {
            assert_eq!(variable(literal), None, "{literal}");
        }
    }

    #[test]
    fn a_value_loses_its_parentheses_and_then_its_quotes() {
        let lookup: Lookup<'_> = &|_| Some("(\"a b\")".to_owned());
        let Ok(expanded) = expand(&[("$VALUE", 3)], Some(lookup)) else { panic!("a variable") };
        assert_eq!(expanded, [(Cow::Borrowed("a b"), 3)]);
    }
}
