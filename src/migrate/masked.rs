//! Command lines of sidecars for the report, without credentials.

use std::ops::Range;

use cmp_sandbox::{Redactor, suggests_credential};

/// Replacement for a value.
const MASK: &str = "***";

const QUOTES: [char; 2] = ['"', '\''];

/// A header of HTTP whose name does not say that it holds a credential.
const AUTHORIZATION: &str = "AUTHORIZATION";

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

/// The words of a command line as one text. No shell reads them, so a value is a whole word or
/// the rest of one, blanks and quotes included.
pub(super) fn masked_words<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let mut before = "";
    let shown = words.map(|word| {
        let option = std::mem::replace(&mut before, word);
        if option.starts_with('-') && suggests(option) && is_stated(word) {
            return MASK.to_owned();
        }
        match word.split_once('=') {
            Some((name, value)) if suggests(name) && is_stated(value) => format!("{name}={MASK}"),
            Some(_) | None => masked(word),
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// The first value that has to be hidden.
fn credential(text: &str) -> Option<Range<usize>> {
    let mut at = 0;
    loop {
        let start = at + text.get(at..)?.find(is_of_name)?;
        let (before, tail) = text.split_at_checked(start)?;
        let (name, tail) = tail.split_at(tail.find(|c| !is_of_name(c)).unwrap_or(tail.len()));
        at = start + name.len();
        let around = before.chars().next_back().filter(|last| QUOTES.contains(last));
        if let Some(Range { start, end }) = value(name, around, tail).filter(|_| suggests(name)) {
            return Some(at + start..at + end);
        }
    }
}

/// True for characters of names of variables, options and headers.
fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_-".contains(character)
}

/// True for such a name if it suggests a credential.
fn suggests(name: &str) -> bool {
    if !name.chars().all(is_of_name) {
        return false;
    }
    let name = name.replace('-', "_").to_ascii_uppercase();
    // Collectors of traces know their clients by headers of any name.
    let has_headers = || name.contains("OTLP_") && name.ends_with("_HEADERS");
    name == AUTHORIZATION || suggests_credential(&name) || has_headers()
}

/// True for a value that is not taken from a variable or a command.
fn is_stated(value: &str) -> bool {
    !value.is_empty() && !value.trim_start_matches('"').starts_with('$')
}

/// The value in the text after a name, which may have its first quote before it.
fn value(name: &str, around: Option<char>, tail: &str) -> Option<Range<usize>> {
    let is_option = name.starts_with('-') && tail.starts_with(char::is_whitespace);
    let is_header = tail.starts_with(": ");
    let start = if tail.starts_with('=') {
        1
    } else if is_header {
        2
    } else if is_option {
        tail.len() - tail.trim_start().len()
    } else {
        return None;
    };
    let value = tail.get(start..)?;
    let length = if is_header && !value.starts_with(QUOTES) {
        value.find(['\n', ';', '"', '\'']).unwrap_or(value.len())
    } else {
        word(value, around)
    };
    is_stated(value.get(..length)?).then_some(start..start + length)
}

/// The length of the first word, as shells read it: it ends at a blank or an operator that is
/// neither quoted nor escaped, or with the quotes around all of it. Without a second quote,
/// it is the whole text: a mask that is too long shows no credential.
fn word(text: &str, around: Option<char>) -> usize {
    let mut open = None;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        let is_end = || character.is_whitespace() || ";&|)".contains(character);
        match open {
            Some('"') | None if character == '\\' => drop(characters.next()),
            Some(quote) if character == quote => open = None,
            None if Some(character) == around || is_end() => return at,
            None if QUOTES.contains(&character) => open = Some(character),
            Some(_) | None => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_look_like_credentials_are_hidden() {
        for (text, shown) in [
            ("export GIT_TOKEN=hunter22; exec x", "export GIT_TOKEN=***; exec x"),
            ("export P_PASSWORD='a b' Q_TOKEN=\"c d\"", "export P_PASSWORD=*** Q_TOKEN=***"),
            ("export P_TOKEN='abc'hunter22; x", "export P_TOKEN=***; x"),
            ("export P_TOKEN=\"a\\\"b\"'c d'e; x", "export P_TOKEN=***; x"),
            ("P_PASSWORD=a\\ bhunter22 exec x", "P_PASSWORD=*** exec x"),
            ("login --password hunter22 --user me", "login --password *** --user me"),
            ("login --api-key=hunter22&& x", "login --api-key=***&& x"),
            ("login -token \"a b\"", "login -token ***"),
            ("x --otlp-headers \"authorization=Bearer a,x-b=c\" y", "x --otlp-headers *** y"),
            ("x --otlp-headers=x-honeycomb-team=hunter22 y", "x --otlp-headers=*** y"),
            ("OTEL_EXPORTER_OTLP_HEADERS=x-team=a x", "OTEL_EXPORTER_OTLP_HEADERS=*** x"),
            (
                "curl -H 'Authorization: Bearer abc' -H \"X-Api-Key: a b\" x",
                "curl -H 'Authorization: ***' -H \"X-Api-Key: ***\" x",
            ),
            ("sh -c \"TOKEN=pw exec x\"", "sh -c \"TOKEN=*** exec x\""),
            ("env 'TOKEN=pw' \"B_TOKEN=pw\"", "env 'TOKEN=***' \"B_TOKEN=***\""),
            ("PASSWORD: \"a b\" c", "PASSWORD: *** c"),
            ("git clone https://u:p@example.com/x", "git clone https://***@example.com/x"),
            ("TOKEN=a'", "TOKEN=***"),
            ("TOKEN='a", "TOKEN=***"),
            ("TOKEN=a\\", "TOKEN=***"),
        ] {
            assert_eq!(masked(text), shown);
        }
    }

    #[test]
    fn a_word_of_a_command_line_is_a_value_as_a_whole() {
        for (words, shown) in [
            (&["--otlp-headers", "authorization=Bearer hunter22"][..], "--otlp-headers ***"),
            (&["--otlp-headers=authorization=Bearer hunter22", "x"], "--otlp-headers=*** x"),
            (&["env", "A_TOKEN=a b 'c", "x"], "env A_TOKEN=*** x"),
            (&["--token", "hunter 22", "--user", "me"], "--token *** --user me"),
            (&["sh", "-c", "A_TOKEN=a exec x", "sh"], "sh -c A_TOKEN=*** sh"),
            (&["sh", "-c", "export A_TOKEN=a; exec x"], "sh -c export A_TOKEN=***; exec x"),
            (&["x", "--token", "$(TOKEN)", "--key=$KEY"], "x --token $(TOKEN) --key=$KEY"),
        ] {
            assert_eq!(masked_words(words.iter().copied()), shown);
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
