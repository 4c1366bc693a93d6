//! Patterns for names of environment variables.

/// Variables that every command gets. Most scripts need `PATH`, and it holds no
/// secret.
const ALWAYS: [&[u8]; 1] = [b"PATH"];

/// A name in which each `*` matches any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariablePattern(Box<str>);

impl VariablePattern {
    /// `None` if the text has a character that a variable's name cannot have. `$` is refused,
    /// because it is meant for the value.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_name = |c: char| !"=$".contains(c) && !c.is_whitespace() && !c.is_control();
        (!text.is_empty() && text.chars().all(is_name)).then(|| Self(text.into()))
    }

    /// True if it matches names that a shell can read.
    pub(super) fn is_of_shell(&self) -> bool {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || "_*".contains(c);
        self.0.chars().all(is_letter) && !self.0.starts_with(|c: char| c.is_ascii_digit())
    }

    /// True if the name matches. In the worst case, the time is proportional to
    /// the product of both lengths.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let mut parts = self.0.as_bytes().split(|byte| *byte == b'*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
            return false;
        };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            let Some(at) = find(rest, part) else { return false };
            rest = rest.get(at + part.len()..).unwrap_or_default();
        }
        rest.ends_with(last)
    }
}

/// True if commands get the sidecar's variable of this name; `None` as patterns
/// admits all.
pub(super) fn admits(patterns: Option<&[VariablePattern]>, name: &[u8]) -> bool {
    let listed = |patterns: &[VariablePattern]| patterns.iter().any(|p| p.matches(name));
    ALWAYS.contains(&name) || patterns.is_none_or(listed)
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return Some(0);
    }
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_text() {
        for (pattern, name, expected) in [
            ("HOME", "HOME", true),
            ("HOME", "HOMES", false),
            ("HOME", "AHOME", false),
            ("AWS_*", "AWS_REGION", true),
            ("AWS_*", "AWS_", true),
            ("AWS_*", "XAWS_REGION", false),
            ("*_PROXY", "HTTPS_PROXY", true),
            ("*_PROXY", "_PROXY", true),
            ("*_PROXY", "PROXY", false),
            ("A*B*C", "AxByC", true),
            ("A*B*C", "ABC", true),
            ("A*B*C", "ACB", false),
            ("A*A", "A", false),
            ("*", "", true),
            ("**", "anything", true),
        ] {
            let matches = VariablePattern::new(pattern).unwrap().matches(name.as_bytes());
            assert_eq!(matches, expected, "{pattern} {name}");
        }
    }

    #[test]
    fn patterns_are_case_sensitive() {
        assert!(!VariablePattern::new("http_proxy").unwrap().matches(b"HTTP_PROXY"));
    }

    #[test]
    fn invalid_names_are_refused() {
        for text in ["", "A=B", "A B", "A\n", "A\0", "$A", "${A}"] {
            assert_eq!(VariablePattern::new(text), None, "{text:?}");
        }
    }

    #[test]
    fn names_that_a_shell_can_read_are_known() {
        for (text, expected) in [
            ("A_1*", true),
            ("*", true),
            ("A-B", false),
            ("a.b", false),
            ("1A", false),
            ("É", false),
        ] {
            assert_eq!(VariablePattern::new(text).unwrap().is_of_shell(), expected, "{text}");
        }
    }

    #[test]
    fn without_a_list_every_variable_is_admitted() {
        let home = [VariablePattern::new("HOME").unwrap()];
        assert!(admits(None, b"SECRET") && !admits(Some(&home), b"SECRET"));
        assert!(admits(Some(&home), b"HOME") && !admits(Some(&[]), b"HOME"));
    }

    #[test]
    fn path_is_always_admitted() {
        assert!(admits(Some(&[]), b"PATH"));
    }
}
