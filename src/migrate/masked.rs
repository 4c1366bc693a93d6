//! Command lines of sidecars for the report, without credentials.

use std::ops::Range;

use cmp_sandbox::{Redactor, suggests_credential};

/// Replacement for a value.
const MASK: &str = "***";

/// A header of HTTP whose name does not say that it holds a credential.
const AUTHORIZATION: &str = "authorization";

/// The text without the values of variables, options and headers whose names suggest a
/// credential, and without the users in URLs.
pub(super) fn masked(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(Range { start, end }) = credential(rest) {
        shown.push_str(rest.get(..start).unwrap_or_default());
        shown.push_str(MASK);
        rest = rest.get(end..).unwrap_or_default();
    }
    Redactor::default().text(&(shown + rest))
}

/// The first value that has to be hidden.
fn credential(text: &str) -> Option<Range<usize>> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let mut at = 0;
    loop {
        let start = at + text.get(at..)?.find(is_name)?;
        let tail = text.get(start..)?;
        let (name, tail) = tail.split_at(tail.find(|c| !is_name(c)).unwrap_or(tail.len()));
        at = start + name.len();
        let speaks = name.eq_ignore_ascii_case(AUTHORIZATION)
            || suggests_credential(&name.replace('-', "_"));
        if let Some(Range { start, end }) = value(name, tail).filter(|_| speaks) {
            return Some(at + start..at + end);
        }
    }
}

/// The value in the text after a name, unless it is taken from a variable or a command.
fn value(name: &str, tail: &str) -> Option<Range<usize>> {
    let is_option = name.starts_with('-') && tail.starts_with(char::is_whitespace);
    let (separator, end): (_, &[char]) = if tail.starts_with('=') {
        (1, &[' ', '\t', '\n', ';', '&', '|', ')', '"', '\''])
    } else if tail.starts_with(": ") {
        (2, &['\n', ';', '"', '\''])
    } else if is_option {
        (tail.len() - tail.trim_start().len(), &[' ', '\t', '\n', ';', '&', '|', ')', '"', '\''])
    } else {
        return None;
    };
    let value = tail.get(separator..)?;
    let quote = value.chars().next().filter(|first| ['"', '\''].contains(first));
    let start = separator + quote.map_or(0, char::len_utf8);
    let value = tail.get(start..)?;
    let length = match quote {
        Some(quote) => value.find(quote),
        None => value.find(end),
    };
    let length = length.unwrap_or(value.len());
    (length > 0 && !value.starts_with('$')).then_some(start..start + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_look_like_credentials_are_hidden() {
        for (text, shown) in [
            ("export GIT_TOKEN=hunter22; exec x", "export GIT_TOKEN=***; exec x"),
            ("export P_PASSWORD='a b' Q_TOKEN=\"c d\"", "export P_PASSWORD='***' Q_TOKEN=\"***\""),
            ("login --password hunter22 --user me", "login --password *** --user me"),
            ("login --api-key=hunter22&& x", "login --api-key=***&& x"),
            ("login -token \"a b\"", "login -token \"***\""),
            (
                "curl -H 'Authorization: Bearer abc' -H \"X-Api-Key: a b\" x",
                "curl -H 'Authorization: ***' -H \"X-Api-Key: ***\" x",
            ),
            ("sh -c \"TOKEN=pw exec x\"", "sh -c \"TOKEN=*** exec x\""),
            ("git clone https://u:p@example.com/x", "git clone https://***@example.com/x"),
            ("TOKEN=a'", "TOKEN=***'"),
            ("TOKEN='a", "TOKEN='***"),
        ] {
            assert_eq!(masked(text), shown);
        }
    }

    #[test]
    fn other_words_stay() {
        for text in [
            "cp -r /etc/gnupg ~/.gnupg; exec argocd-cmp-server --loglevel debug",
            "export TOKEN=$(cat /run/token) PASSWORD=\"$P\"; x --token $TOKEN",
            "export TOKEN_FILE=/run/token; x --token-file /run/token --secret-name a",
            "echo the token",
            "TOKEN=",
            "TOKEN",
            "",
        ] {
            assert_eq!(masked(text), text);
        }
    }
}
