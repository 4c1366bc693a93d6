//! Masks the parts of values at the place where a text was cut.

use std::{ops::Range, sync::PoisonError};

use super::{MASK, Redactor, merged};

impl Redactor {
    /// Returns the bytes before a cut with the beginning of a value at their end masked. A
    /// few bytes that are no value may be masked too.
    #[must_use]
    pub fn before_cut(&self, text: &[u8]) -> Vec<u8> {
        let length = self.longest(|value| overlap(text, value));
        let mut found = self.found(text);
        found.push(text.len() - length..text.len());
        // Not only the part: another value may reach into it, and would not be found then.
        let start = merged(found).last().map_or(text.len(), |span| span.start);
        let mask = if start < text.len() { MASK } else { "" };
        [text.get(..start).unwrap_or_default(), mask.as_bytes()].concat()
    }

    /// Returns the bytes after a cut with the end of a value at their beginning masked.
    #[must_use]
    pub fn after_cut(&self, text: &[u8]) -> Vec<u8> {
        let length = self.longest(|value| overlap(value, text));
        let mut found = self.found(text);
        found.push(0..length);
        let is_at_cut = |span: &&Range<usize>| span.start == 0;
        let end = merged(found).first().filter(is_at_cut).map_or(0, |span| span.end);
        let mask = if end > 0 { MASK } else { "" };
        [mask.as_bytes(), text.get(end..).unwrap_or_default()].concat()
    }

    /// The greatest length among those of all values.
    fn longest(&self, length: impl Fn(&[u8]) -> usize) -> usize {
        let learned = self.learned.read().unwrap_or_else(PoisonError::into_inner);
        let values = self.secrets.iter().chain(learned.iter());
        values.map(|value| length(value)).max().unwrap_or_default()
    }
}

/// The length of the longest end of `first` with which `second` begins, shorter than both.
/// The time is proportional to the shorter text (Knuth, Morris and Pratt).
fn overlap(first: &[u8], second: &[u8]) -> usize {
    let most = first.len().min(second.len()).saturating_sub(1);
    let second = second.get(..most).unwrap_or_default();
    let first = first.get(first.len() - most..).unwrap_or_default();
    let mut borders = Vec::with_capacity(most);
    for byte in second {
        let border = borders.last().map_or(0, |last| extended((second, &borders), *last, *byte));
        borders.push(border);
    }
    first.iter().fold(0, |length, byte| extended((second, &borders), length, *byte))
}

/// The length of the longest beginning of a text that ends with `byte`, after one with
/// `length` bytes. For each shorter beginning, `borders` has the longest one that is its end.
fn extended((text, borders): (&[u8], &[usize]), mut length: usize, byte: u8) -> usize {
    while length > 0 && text.get(length) != Some(&byte) {
        length = borders.get(length - 1).copied().unwrap_or_default();
    }
    if text.get(length) == Some(&byte) { length + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor(values: &[&'static str]) -> Redactor {
        Redactor::default().with_values(values.iter().map(|value| value.as_bytes()))
    }

    fn cut(values: &[&'static str], before: &str, after: &str) -> [String; 2] {
        let redactor = redactor(values);
        [redactor.before_cut(before.as_bytes()), redactor.after_cut(after.as_bytes())]
            .map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn a_value_is_masked_wherever_it_is_cut() {
        let value = "correct-horse";
        for at in 1..value.len() {
            let (before, after) = (format!("said {}", &value[..at]), format!("{} x", &value[at..]));
            assert_eq!(cut(&[value], &before, &after), ["said ***", "*** x"], "{at}");
        }
    }

    #[test]
    fn other_text_at_a_cut_stays() {
        for (before, after) in [("said ", " x"), ("horse", "correct"), ("", "")] {
            assert_eq!(cut(&["correct-horse"], before, after), [before, after]);
        }
    }

    #[test]
    fn the_longest_part_is_masked() {
        assert_eq!(cut(&["aabaabaaa"], "caabaabaa", "abaaac"), ["c***", "***c"]);
        assert_eq!(cut(&["aaaaaaaa"], "baaa", "aaab"), ["b***", "***b"]);
        assert_eq!(cut(&["abcdefg", "xyabcde"], "- xyab", "fg -"), ["- ***", "*** -"]);
    }

    #[test]
    fn a_whole_value_that_reaches_into_the_part_is_masked_with_it() {
        assert_eq!(cut(&["hunter22", "22-other"], "a hunter22", "b"), ["a ***", "b"]);
        assert_eq!(cut(&["hunter22", "other-hunt"], "a", "hunter22 b"), ["a", "*** b"]);
    }

    #[test]
    fn learned_values_are_masked_too() {
        let redactor = redactor(&[]);
        redactor.learn(b"hunter22");
        assert_eq!(redactor.before_cut(b"a hunt"), b"a ***");
        assert_eq!(redactor.after_cut(b"er22 a"), b"*** a");
    }
}
