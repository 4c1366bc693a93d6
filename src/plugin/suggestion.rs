//! Suggests a known word for a misspelt one.

use strsim::osa_distance;

/// Longest word in bytes that is compared; all keys are shorter.
const MAX_WORD: usize = 40;

/// The word most similar to `text`. At most a third of its letters may differ.
pub(crate) fn nearest<'w>(text: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    if text.len() > MAX_WORD {
        return None;
    }
    let text = text.to_lowercase();
    let scored = words.into_iter().map(|word| (osa_distance(&text, &word.to_lowercase()), word));
    let (distance, word) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= word.chars().count().max(3) / 3).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_are_recognised() {
        let words = ["command", "args", "generate", "discover", "init"];
        for (text, meant) in [
            ("comand", "command"),
            ("genertae", "generate"),
            ("discovery", "discover"),
            ("arg", "args"),
            ("COMMANDS", "command"),
        ] {
            assert_eq!(nearest(text, words), Some(meant), "{text}");
        }
    }

    #[test]
    fn other_words_get_no_suggestion() {
        for text in ["status", "x", "", &"command".repeat(50)] {
            assert_eq!(nearest(text, ["command", "args", "init"]), None, "{text}");
        }
    }
}
