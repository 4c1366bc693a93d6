//! `os.Expand`.

/// Replaces `$NAME` and `${NAME}` by what `value` has for the name, as Go's
/// `os.Expand` does. A `$` before anything else stays; `${}` and an unclosed
/// `${` vanish.
#[must_use]
pub fn expand(text: &str, value: impl Fn(&str) -> String) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let reference = Reference::read(after);
        match reference.name {
            Some(name) => expanded.push_str(&value(name)),
            None if reference.length == 0 => expanded.push('$'),
            None => {}
        }
        rest = after.get(reference.length..).unwrap_or_default();
    }
    expanded + rest
}

/// The text behind a `$`.
struct Reference<'t> {
    /// The name; `None` if there is none.
    name: Option<&'t str>,
    /// Bytes that belong to the reference.
    length: usize,
}

impl<'t> Reference<'t> {
    fn read(text: &'t str) -> Self {
        if let Some(inner) = text.strip_prefix('{') {
            return match inner.split_once('}') {
                Some((name, _)) => Self::named(name, name.len() + "{}".len()),
                None => Self { name: None, length: "{".len() },
            };
        }
        if text.starts_with(is_special) {
            return Self::named(text.get(..1).unwrap_or_default(), 1);
        }
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = text.bytes().take_while(is_part).count();
        Self::named(text.get(..length).unwrap_or_default(), length)
    }

    fn named(name: &'t str, length: usize) -> Self {
        Self { name: (!name.is_empty()).then_some(name), length }
    }
}

/// Parameters of a shell that have one character.
fn is_special(first: char) -> bool {
    matches!(first, '*' | '#' | '$' | '@' | '!' | '?' | '-') || first.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_replaced_as_by_go() {
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("$A-$B_C", "<A>-<B_C>"),
            ("${A}b$", "<A>b$"),
            ("${A b}", "<A b>"),
            ("$$ $1x $é", "<$> <1>x $é"),
            ("${}x", "x"),
            ("${A", "A"),
            ("a$.b", "a$.b"),
            ("$A$B", "<A><B>"),
        ] {
            assert_eq!(expand(text, |name| format!("<{name}>")), expected, "{text}");
        }
    }
}
