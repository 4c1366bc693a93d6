//! One HPACK header block (RFC 7541), as far as its authority.
//!
//! Nothing here knows the dynamic table. The repaired value has as many bytes as
//! the one sent, so entries have the same size in the client's table and in the
//! server's, and later requests may refer to them by index. A literal is found by
//! the static index or the spelling of its name; grpc-go asks the static table
//! first, so it never names an authority by the index of an earlier one.

use std::{borrow::Cow, ops::Range};

use super::{huffman, legal::legal};

const AUTHORITY: &[u8] = b":authority";

/// Where `:authority` stands in the static table (RFC 7541, appendix A).
const AUTHORITY_INDEX: usize = 1;

/// Bytes that may follow an integer's prefix; h2 takes no more either. Four of
/// them hold 28 bits, which no length or index within a block exceeds.
const MAX_CONTINUATION: usize = 4;

/// Set where an integer goes on in the next byte.
const MORE: u8 = 0x80;

/// Set before a string in the Huffman code.
const HUFFMAN: u8 = 0x80;

/// The block with its authority made legal.
///
/// `None` where there is nothing to change, which includes a block that cannot
/// be read: to refuse that one, with the proper error, is h2's part.
pub(super) fn repair(block: &[u8]) -> Option<Vec<u8>> {
    let mut repaired = Vec::new();
    let mut copied = 0;
    let mut fields = Fields { block, at: 0 };
    while let Some(first) = fields.peek() {
        let Field::Authority(text) = fields.field(first)? else {
            continue;
        };
        let Some(value) = legal(&text.decoded()?) else {
            continue;
        };
        repaired.extend_from_slice(block.get(copied..text.span.start)?);
        put_string(&value, &mut repaired);
        copied = text.span.end;
    }
    if copied == 0 {
        return None;
    }
    repaired.extend_from_slice(block.get(copied..)?);
    Some(repaired)
}

enum Field<'a> {
    /// A literal `:authority`, by its value.
    Authority(Text<'a>),
    Other,
}

/// A string as it was sent.
struct Text<'a> {
    huffman: bool,
    bytes: &'a [u8],
    /// Where it stands in the block, length prefix included.
    span: Range<usize>,
}

impl<'a> Text<'a> {
    fn decoded(&self) -> Option<Cow<'a, [u8]>> {
        if self.huffman {
            huffman::decode(self.bytes).map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(self.bytes))
        }
    }
}

/// The fields of a block, read from the front.
struct Fields<'a> {
    block: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn peek(&self) -> Option<u8> {
        self.block.get(self.at).copied()
    }

    /// Reads the representation that begins with `first`, the byte at hand; its
    /// highest set bits tell which of RFC 7541, section 6, it is.
    fn field(&mut self, first: u8) -> Option<Field<'a>> {
        match first.leading_zeros() {
            // indexed
            0 => self.integer(7).map(|_| Field::Other),
            // literal with incremental indexing
            1 => self.literal(6),
            // size update
            2 => self.integer(5).map(|_| Field::Other),
            // literal never indexed, literal without indexing
            _ => self.literal(4),
        }
    }

    fn literal(&mut self, index_bits: u32) -> Option<Field<'a>> {
        let names_authority = match self.integer(index_bits)? {
            0 => self.text()?.decoded()?.as_ref() == AUTHORITY,
            index => index == AUTHORITY_INDEX,
        };
        let value = self.text()?;
        Some(if names_authority { Field::Authority(value) } else { Field::Other })
    }

    fn text(&mut self) -> Option<Text<'a>> {
        let start = self.at;
        let huffman = self.peek()? & HUFFMAN != 0;
        let length = self.integer(7)?;
        let end = self.at.checked_add(length)?;
        let bytes = self.block.get(self.at..end)?;
        self.at = end;
        Some(Text { huffman, bytes, span: start..end })
    }

    fn integer(&mut self, prefix_bits: u32) -> Option<usize> {
        let limit = (1 << prefix_bits) - 1;
        let mut value = usize::from(self.byte()?) & limit;
        if value < limit {
            return Some(value);
        }
        for group in 0..MAX_CONTINUATION {
            let byte = self.byte()?;
            value += usize::from(byte & !MORE) << (7 * group);
            if byte & MORE == 0 {
                return Some(value);
            }
        }
        None
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }
}

/// Writes `text` without the Huffman code, of which only decoding is known here.
fn put_string(text: &[u8], block: &mut Vec<u8>) {
    const LIMIT: usize = 0x7f;
    let [short, ..] = text.len().min(LIMIT).to_le_bytes();
    block.push(short);
    let mut rest = text.len().checked_sub(LIMIT);
    while let Some(length) = rest {
        let [low, ..] = length.to_le_bytes();
        rest = Some(length >> 7).filter(|&high| high > 0);
        block.push(if rest.is_some() { low | MORE } else { low });
    }
    block.extend_from_slice(text);
}
