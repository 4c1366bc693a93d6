//! Prints a command line as Argo CD does.

/// Joins words with blanks. A word with white space is quoted as a Go string,
/// and an empty word is printed as `""`.
pub(super) fn command_line<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        if word.is_empty() || word.contains(char::is_whitespace) {
            cmp_go::quote(word, &mut line);
        } else {
            line.push_str(word);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_white_space_are_quoted_as_go_does() {
        for (words, line) in [
            (&["helm", "template", "."][..], "helm template ."),
            (&["sh", "-c", "eval \"$SCRIPT\""], r#"sh -c "eval \"$SCRIPT\"""#),
            (&["a", "", "c\"d"], r#"a "" c"d"#),
            (&["a\tb\nc\\"], r#""a\tb\nc\\""#),
            (&["\u{1} \u{85}\u{2028}"], r#""\x01 \u0085\u2028""#),
        ] {
            assert_eq!(command_line(words.iter().copied()), line);
        }
    }
}
