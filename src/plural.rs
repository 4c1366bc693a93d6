//! Counts, as people say them.

/// A count and what is counted: `1 file`, `2 files`.
pub(crate) fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|count| plural(count, "file")), ["0 files", "1 file", "2 files"]);
    }
}
