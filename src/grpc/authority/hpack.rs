//! Finds and replaces the authority in one HPACK header block (RFC 7541).
//!
//! No dynamic table is needed. The new value has as many bytes as the old one,
//! so table entries keep their size on both sides, and later requests can refer
//! to them by index. A literal authority is recognised by its static index or
//! its name. grpc-go looks into the static table first, so it never refers to
//! the name by a dynamic index.

use std::{borrow::Cow, ops::Range};

use super::{huffman, legal::legal};

const AUTHORITY: &[u8] = b":authority";

/// Index of `:authority` in the static table (RFC 7541, appendix A).
const AUTHORITY_INDEX: usize = 1;

/// Most bytes after an integer's prefix; h2 has the same limit. Four bytes hold
/// 28 bits, more than any length or index in a block needs.
const MAX_CONTINUATION: usize = 4;

/// Bit that says the integer continues in the next byte (RFC 7541, 5.1).
const MORE: u8 = 0x80;

/// Bit that says a string is Huffman-coded (RFC 7541, 5.2).
const HUFFMAN: u8 = 0x80;

/// Returns the block with a legal authority.
///
/// Returns `None` if nothing needs to change, and if the block cannot be read:
/// h2 refuses such a block itself, with the proper error.
pub(super) fn repair(block: &[u8]) -> Option<Vec<u8>> {
    let mut repaired = Vec::new();
    let mut copied = 0;
    let mut fields = FieldReader { block, at: 0 };
    while let Some(first) = fields.peek() {
        let HeaderField::Authority(text) = fields.field(first)? else {
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

enum HeaderField<'a> {
    /// The value of a literal `:authority`.
    Authority(EncodedString<'a>),
    Other,
}

/// A string as it is encoded.
struct EncodedString<'a> {
    huffman: bool,
    bytes: &'a [u8],
    /// Position in the block, including the length prefix.
    span: Range<usize>,
}

impl<'a> EncodedString<'a> {
    fn decoded(&self) -> Option<Cow<'a, [u8]>> {
        if self.huffman {
            huffman::decode(self.bytes).map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(self.bytes))
        }
    }
}

/// Reads the fields of a block from the front.
struct FieldReader<'a> {
    block: &'a [u8],
    at: usize,
}

impl<'a> FieldReader<'a> {
    fn peek(&self) -> Option<u8> {
        self.block.get(self.at).copied()
    }

    /// Reads a field that begins with the byte `first`. Its leading ones tell the
    /// representation (RFC 7541, section 6).
    fn field(&mut self, first: u8) -> Option<HeaderField<'a>> {
        match first.leading_zeros() {
            // indexed
            0 => self.integer(7).map(|_| HeaderField::Other),
            // literal with incremental indexing
            1 => self.literal(6),
            // size update
            2 => self.integer(5).map(|_| HeaderField::Other),
            // literal never indexed, literal without indexing
            _ => self.literal(4),
        }
    }

    fn literal(&mut self, index_bits: u32) -> Option<HeaderField<'a>> {
        let names_authority = match self.integer(index_bits)? {
            0 => self.text()?.decoded()?.as_ref() == AUTHORITY,
            index => index == AUTHORITY_INDEX,
        };
        let value = self.text()?;
        Some(if names_authority { HeaderField::Authority(value) } else { HeaderField::Other })
    }

    fn text(&mut self) -> Option<EncodedString<'a>> {
        let start = self.at;
        let huffman = self.peek()? & HUFFMAN != 0;
        let length = self.integer(7)?;
        let end = self.at.checked_add(length)?;
        let bytes = self.block.get(self.at..end)?;
        self.at = end;
        Some(EncodedString { huffman, bytes, span: start..end })
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

/// Writes `text` without Huffman coding; this module can only decode it.
fn put_string(text: &[u8], block: &mut Vec<u8>) {
    /// A longer length begins with this one, and goes on in further bytes.
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
