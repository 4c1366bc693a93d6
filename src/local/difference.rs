//! The difference between two results of one request.

use std::{fmt::Write, time::Duration};

use similar::TextDiff;

/// Longest time for the search for a small difference. After it, the difference
/// is larger than necessary.
const TIME: Duration = Duration::from_secs(2);

/// Most lines of a difference that are shown.
const MAX_LINES: usize = 200;

/// A unified diff of two texts with their names, or `None` if they are equal.
pub(super) fn difference(first: &str, second: &str, names: (&str, &str)) -> Option<String> {
    if first == second {
        return None;
    }
    let diff = TextDiff::configure().timeout(TIME).diff_lines(first, second);
    let mut unified = diff.unified_diff();
    let hunks = unified.header(names.0, names.1).iter_hunks();
    let text: String = hunks.map(|hunk| hunk.to_string()).collect();
    let mut lines = text.lines();
    let mut shown = format!("--- {}\n+++ {}\n", names.0, names.1);
    for line in lines.by_ref().take(MAX_LINES) {
        shown.push_str(line);
        shown.push('\n');
    }
    let left_out = lines.count();
    if left_out > 0 {
        let _ = writeln!(shown, "({left_out} more lines)");
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: (&str, &str) = ("first", "second");

    #[test]
    fn equal_texts_have_no_difference() {
        assert_eq!(difference("a\n", "a\n", NAMES), None);
    }

    #[test]
    fn only_changed_lines_are_shown_with_their_surroundings() {
        let lines = |changed| format!("{}{changed}\n{}", "same\n".repeat(50), "same\n".repeat(50));
        let shown = difference(&lines("one"), &lines("two"), NAMES).unwrap();
        assert!(shown.contains("\n-one\n+two\n"), "{shown}");
        assert!(shown.lines().count() < 15, "{shown}");
    }

    #[test]
    fn a_long_difference_is_cut() {
        let shown = difference(&"a\n".repeat(1000), &"b\n".repeat(1000), NAMES).unwrap();
        assert!(shown.ends_with("more lines)\n"), "{shown}");
    }
}
