//! Keeps the beginning and the end of a text of any length.

use std::{collections::VecDeque, fmt};

use super::redact::Redactor;

/// Bytes kept of each end. Error texts travel in HTTP/2 headers, and clients
/// accept only some tens of kilobytes of headers.
pub(super) const EACH: usize = 16 * 1024;

/// The first and the last 16 KiB of all bytes that were pushed.
#[derive(Clone, Debug, Default)]
pub struct Excerpt {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Excerpt {
    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let room = EACH - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let kept = rest.get(rest.len().saturating_sub(EACH)..).unwrap_or_default();
        let dropped = (self.tail.len() + kept.len()).saturating_sub(EACH);
        self.tail.drain(..dropped);
        self.tail.extend(kept);
        self.left_out += (dropped + rest.len() - kept.len()) as u64;
    }

    /// The excerpt with the parts of a value masked that are left on both sides of the bytes
    /// left out. Whole values are not masked.
    #[must_use]
    pub fn without_parts(&self, redactor: &Redactor) -> Self {
        if self.left_out == 0 {
            return self.clone();
        }
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        Self {
            head: redactor.before_cut(&self.head),
            tail: redactor.after_cut(&tail).into(),
            left_out: self.left_out,
        }
    }

    /// Appends the end of the text, before which as many bytes more were left out.
    pub(super) fn end(&mut self, end: &[u8], left_out: u64) {
        self.left_out += left_out + self.tail.len() as u64;
        self.tail = end.iter().copied().collect();
    }
}

impl fmt::Display for Excerpt {
    /// Writes the text without surrounding white space, and the number of bytes
    /// left out.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (front, back) = self.tail.as_slices();
        let mut bytes = self.head.clone();
        if self.left_out > 0 {
            bytes.extend(format!("\n… {} bytes left out …\n", self.left_out).bytes());
        }
        bytes.extend_from_slice(front);
        bytes.extend_from_slice(back);
        formatter.write_str(String::from_utf8_lossy(&bytes).trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(pieces: &[&[u8]]) -> Excerpt {
        let mut excerpt = Excerpt::default();
        for piece in pieces {
            excerpt.push(piece);
        }
        excerpt
    }

    #[test]
    fn short_text_is_kept_without_surrounding_white_space() {
        assert_eq!(excerpt(&[b"  one\n", b"two\n"]).to_string(), "one\ntwo");
    }

    #[test]
    fn both_ends_of_a_long_text_are_kept() {
        let middle = vec![b'-'; 3 * EACH];
        let text = excerpt(&[b"first", &middle, b"last"]).to_string();
        assert!(text.starts_with("first") && text.ends_with("last"));
        assert!(text.contains(&format!("… {} bytes left out …", EACH + 9)), "{}", text.len());
    }

    #[test]
    fn parts_of_a_value_around_the_gap_are_masked() {
        let redactor = Redactor::default().with_values([&b"correct-horse"[..]]);
        let middle = [b"correct".as_slice(), &vec![b'-'; EACH], b"horse"].concat();
        let ends = [vec![b'-'; EACH - 7], middle, vec![b'='; EACH - 5]].concat();
        let text = excerpt(&[&ends]).without_parts(&redactor).to_string();
        assert!(text.contains(&format!("-***\n… {EACH} bytes left out …\n***=")), "{text}");
        let short = excerpt(&[b"the corr"]).without_parts(&redactor).to_string();
        assert_eq!(short, "the corr", "it is not cut");
    }

    #[test]
    fn memory_for_an_endless_text_is_bounded() {
        let mut excerpt = Excerpt::default();
        for _ in 0..1000 {
            excerpt.push(&[b'x'; 1000]);
        }
        assert_eq!(excerpt.head.len() + excerpt.tail.len(), 2 * EACH);
        assert_eq!(excerpt.left_out, 1_000_000 - 2 * EACH as u64);
    }
}
