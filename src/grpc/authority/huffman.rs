//! The Huffman code of HPACK strings (RFC 7541, appendix B), decoding only.

/// Bits of each byte's code. The code is canonical: codes ascend by width and,
/// within a width, by byte, so the widths define the whole table.
pub(super) const WIDTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// Bits of the shortest code.
const NARROWEST: usize = 5;

/// Bits of the longest code, that of the end-of-string symbol (all ones).
const WIDEST: usize = 30;

/// The codes of one width.
#[derive(Clone, Copy)]
struct CodeRange {
    first_code: u64,
    end_code: u64,
    /// Index in [`CodeTable::bytes`] of the byte whose code is `first_code`.
    first_byte: u64,
}

struct CodeTable {
    levels: [CodeRange; WIDEST + 1],
    /// Every byte, in the order of the codes.
    bytes: [u8; 256],
}

static CODE: CodeTable = CodeTable::canonical();

impl CodeTable {
    const fn canonical() -> Self {
        let empty = CodeRange { first_code: 0, end_code: 0, first_byte: 0 };
        let mut code = Self { levels: [empty; WIDEST + 1], bytes: [0; 256] };
        let (mut width, mut next_code, mut next_byte) = (1, 0, 0);
        while width <= WIDEST {
            next_code <<= 1;
            let (first_code, first_byte) = (next_code, next_byte as u64);
            let mut byte = 0_u8;
            loop {
                if WIDTHS[byte as usize] as usize == width {
                    code.bytes[next_byte] = byte;
                    next_byte += 1;
                    next_code += 1;
                }
                match byte.checked_add(1) {
                    Some(following) => byte = following,
                    None => break,
                }
            }
            code.levels[width] = CodeRange { first_code, end_code: next_code, first_byte };
            width += 1;
        }
        code
    }

    /// Decodes the first byte in the lowest `bits` of `window`; also returns the
    /// width of its code. `None` for an incomplete code and for the end of string.
    fn first(&self, window: u64, bits: usize) -> Option<(u8, usize)> {
        let levels = self.levels.iter().enumerate().take(bits + 1).skip(NARROWEST);
        for (width, level) in levels {
            let code = (window >> (bits - width)) & ones(width);
            if code < level.end_code {
                let place = level.first_byte + code.checked_sub(level.first_code)?;
                let byte = self.bytes.get(usize::try_from(place).ok()?)?;
                return Some((*byte, width));
            }
        }
        None
    }
}

/// Decodes a string. Returns `None` if RFC 7541 (5.2) demands an error: for an
/// end-of-string symbol, and for padding that is not 0 to 7 one bits.
pub(super) fn decode(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(encoded.len().saturating_mul(8) / NARROWEST);
    let (mut window, mut bits) = (0, 0);
    for byte in encoded {
        window = (window << 8) | u64::from(*byte);
        bits += 8;
        while let Some((byte, width)) = CODE.first(window, bits) {
            decoded.push(byte);
            bits -= width;
        }
        if bits >= WIDEST {
            return None;
        }
    }
    let padded = bits < 8 && window & ones(bits) == ones(bits);
    padded.then_some(decoded)
}

const fn ones(bits: usize) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_rfc_decode() {
        let cases: [(&[u8], &[u8]); 4] = [
            (b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff", b"www.example.com"),
            (b"\xa8\xeb\x10\x64\x9c\xbf", b"no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f", b"custom-key"),
            (b"", b""),
        ];
        for (encoded, decoded) in cases {
            assert_eq!(decode(encoded).as_deref(), Some(decoded));
        }
    }

    #[test]
    fn the_code_leaves_room_for_the_end_of_string_and_nothing_else() {
        let used: u64 = WIDTHS.iter().map(|width| 1 << (WIDEST - usize::from(*width))).sum();
        assert_eq!(used + 1, 1 << WIDEST);
    }

    #[test]
    fn every_width_starts_at_the_code_of_the_rfc() {
        let starts = [
            (5, 0x0),
            (6, 0x14),
            (7, 0x5c),
            (8, 0xf8),
            (10, 0x3f8),
            (11, 0x7fa),
            (12, 0xffa),
            (13, 0x1ff8),
            (14, 0x3ffc),
            (15, 0x7ffc),
            (19, 0x7fff0),
            (20, 0xfffe6),
            (21, 0x1f_ffdc),
            (22, 0x3f_ffd2),
            (23, 0x7f_ffd8),
            (24, 0xff_ffea),
            (25, 0x1ff_ffec),
            (26, 0x3ff_ffe0),
            (27, 0x7ff_ffde),
            (28, 0xfff_ffe2),
            (30, 0x3fff_fffc),
        ];
        for (width, code) in starts {
            assert_eq!(CODE.levels[width].first_code, code, "{width} bits");
        }
    }

    #[test]
    fn control_bytes_have_the_widths_of_the_rfc() {
        // h2 never shows control bytes of a header, so no other test covers these.
        let others = [(0, 13), (1, 23), (9, 24), (10, 30), (13, 30), (22, 30)];
        for byte in (0..0x20).chain([0x7f]) {
            let other = others.iter().find(|(other, _)| *other == byte);
            assert_eq!(WIDTHS[byte], other.map_or(28, |(_, width)| *width), "{byte}");
        }
    }

    #[test]
    fn padding_is_fewer_than_eight_ones() {
        // `a` is 00011: three bits of padding remain in its byte.
        assert_eq!(decode(&[0b0001_1111]).as_deref(), Some(&b"a"[..]));
        assert_eq!(decode(&[0b0001_1110]), None);
        assert_eq!(decode(&[0b0001_1000]), None);
        assert_eq!(decode(&[0b0001_1111, 0xff]), None);
        assert_eq!(decode(&[0xff]), None);
        assert_eq!(decode(&[]).as_deref(), Some(&b""[..]));
    }

    #[test]
    fn an_end_of_string_symbol_is_an_error() {
        assert_eq!(decode(&[0xff; 4]), None);
        assert_eq!(decode(&[0xff; 64]), None);
        assert_eq!(decode(&[0xff, 0xff, 0xff, 0xfc, 0b0001_1111]), None);
        // One bit less than all ones is byte 22, the last code before it.
        assert_eq!(decode(&[0xff, 0xff, 0xff, 0xfb]).as_deref(), Some(&[22][..]));
    }
}
