//! Base64 as Go's standard encoding reads it.

/// The decoded bytes, or `None` if `text` is invalid. Padding is required. Line
/// breaks are ignored.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut digits = text.iter().copied().filter(|byte| !b"\r\n".contains(byte));
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut is_padded = false;
    while let Some(first) = digits.next() {
        let quad = [first, digits.next()?, digits.next()?, digits.next()?];
        if is_padded {
            return None;
        }
        let padding = match quad {
            [.., b'=', b'='] => 2,
            [.., b'='] => 1,
            _ => 0,
        };
        is_padded = padding > 0;
        let mut group = 0_u32;
        for &digit in &quad[..4 - padding] {
            group = group << 6 | u32::from(value(digit)?);
        }
        group <<= 6 * padding;
        bytes.extend_from_slice(&group.to_be_bytes()[1..4 - padding]);
    }
    Some(bytes)
}

/// Upper bound of the memory of the decoded bytes and of their JSON, in bytes. A byte that is
/// not UTF-8 becomes `\ufffd`.
pub(super) fn max_written_len(text: &[u8]) -> usize {
    text.len() / 4 * 3 * (1 + br"\ufffd".len())
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}
