//! Prints a command line as Argo CD does.

use std::borrow::Cow;

use cmp_sandbox::Redactor;

/// Longest word in bytes that is printed whole. The reason of a failure stands behind the
/// command, and nobody finds it behind a long script.
const MAX_WORD: usize = 200;

/// Joins words with blanks, without credentials. A word with white space is quoted as a
/// Go string, and an empty word is printed as `""`. Of a long word, only the beginning
/// is printed.
pub(super) fn command_line<'a>(
    words: impl Iterator<Item = &'a str>,
    redactor: &Redactor,
) -> String {
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        let word = beginning(word, redactor);
        if word.is_empty() || word.contains(char::is_whitespace) {
            cmp_go::quote(&word, &mut line);
        } else {
            line.push_str(&word);
        }
    }
    line
}

/// A word, or the beginning of a long one. Credentials are masked before it is cut: the
/// first half of one would not be recognised later.
fn beginning<'w>(word: &'w str, redactor: &Redactor) -> Cow<'w, str> {
    if word.len() <= MAX_WORD {
        return word.into();
    }
    let word = redactor.text(word);
    let (head, rest) = word.split_at(word.floor_char_boundary(MAX_WORD));
    match rest.len() {
        0 => word.into(),
        left_out => format!("{head} … {left_out} bytes left out …").into(),
    }
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
            assert_eq!(command_line(words.iter().copied(), &Redactor::default()), line);
        }
    }

    #[test]
    fn a_script_is_cut_behind_its_beginning_and_never_in_a_credential() {
        let show = |word: &str| command_line([word].into_iter(), &Redactor::default());
        let whole = "x".repeat(MAX_WORD);
        assert_eq!(show(&whole), whole);
        let script = format!("{} é\n{}", "x".repeat(MAX_WORD - 2), "y".repeat(500));
        let beginning = "x".repeat(MAX_WORD - 2);
        assert_eq!(show(&script), format!("\"{beginning}  … 503 bytes left out …\""));
        let secret = format!("{} https://user:hunter22@host/{}", "x".repeat(180), "y".repeat(99));
        let shown = show(&secret);
        assert!(shown.contains("https://***@host") && !shown.contains("hunter"), "{shown}");
    }
}
