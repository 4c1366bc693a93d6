//! Suggests a known word for a misspelt one.

/// Longest word in characters that is compared; all keys are shorter.
const MAX_WORD: usize = 40;

/// The word most similar to `text`. At most a third of its letters may differ.
pub(crate) fn nearest<'w>(text: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let text = text.to_lowercase();
    let scored = words.into_iter().map(|word| (distance(&text, &word.to_lowercase()), word));
    let (distance, word) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= word.chars().count().max(3) / 3).then_some(word)
}

/// Number of letters to insert, remove, replace or swap (edit distance).
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<_>, Vec<_>) = (left.chars().collect(), right.chars().collect());
    if left.len().max(right.len()) > MAX_WORD {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (row, letter) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in right.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != other);
            let mut best = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            let is_exchanged =
                row > 0 && column > 0 && *letter == right[column - 1] && left[row - 1] == *other;
            if is_exchanged {
                best = best.min(before[column - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or_default()
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
