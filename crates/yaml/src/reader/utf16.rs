//! UTF-16 documents. go-yaml reads them if they have a byte order mark.

use super::{Fault, is_allowed};

/// The text as UTF-8 up to the first bad character, and the fault of that
/// character.
pub(super) fn decode(units: &[u8], unit: fn([u8; 2]) -> u16) -> (Vec<u8>, Option<Fault>) {
    let mut text = Vec::with_capacity(units.len());
    let mut at = 0;
    while at < units.len() {
        match character(&units[at..], unit) {
            Ok((character, width)) => {
                text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                at += width;
            }
            Err(problem) => {
                return (text, Some(Fault { offset: at, problem }));
            }
        }
    }
    (text, None)
}

fn character(units: &[u8], unit: fn([u8; 2]) -> u16) -> Result<(char, usize), &'static str> {
    let at = |offset| match units.get(offset..offset + 2) {
        Some(&[first, second]) => Some(u32::from(unit([first, second]))),
        _ => None,
    };
    let high = at(0).ok_or("incomplete UTF-16 character")?;
    let (value, width) = match high {
        0xDC00..=0xDFFF => return Err("unexpected low surrogate area"),
        0xD800..=0xDBFF => {
            let low = at(2).ok_or("incomplete UTF-16 surrogate pair")?;
            if low & 0xFC00 != 0xDC00 {
                return Err("expected low surrogate area");
            }
            (0x1_0000 + ((high & 0x3FF) << 10) + (low & 0x3FF), 4)
        }
        _ => (high, 2),
    };
    let problem = "control characters are not allowed";
    let character = char::from_u32(value).filter(|_| is_allowed(value)).ok_or(problem)?;
    Ok((character, width))
}
