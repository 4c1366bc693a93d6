//! Keeps the beginning and the end of a text of any length.

use std::{collections::VecDeque, fmt};

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
    fn memory_for_an_endless_text_is_bounded() {
        let mut excerpt = Excerpt::default();
        for _ in 0..1000 {
            excerpt.push(&[b'x'; 1000]);
        }
        assert_eq!(excerpt.head.len() + excerpt.tail.len(), 2 * EACH);
        assert_eq!(excerpt.left_out, 1_000_000 - 2 * EACH as u64);
    }
}
