//! One 512-byte header block of a tar archive.

use std::ops::Range;

use super::invalid_tar::InvalidTar;

/// Size in bytes of a block. A tar archive consists of blocks.
pub(super) const BLOCK: usize = 512;

/// Dialects of tar. They differ in the field for the first part of a long name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    V7,
    Ustar,
    Star,
    Gnu,
}

/// The fields of a header that this crate uses.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) name: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) flag: u8,
    pub(super) mode: u32,
    /// May be negative. The caller refuses that, except for entries without
    /// data.
    pub(super) size: i64,
    /// The GNU dialect, in which the type `S` is a sparse file.
    pub(super) gnu: bool,
    /// An old GNU sparse file whose map continues in the next block.
    pub(super) extended: bool,
}

const NAME: Range<usize> = 0..100;
const MODE: Range<usize> = 100..108;
const UID: Range<usize> = 108..116;
const GID: Range<usize> = 116..124;
const SIZE: Range<usize> = 124..136;
const TIME: Range<usize> = 136..148;
const CHECKSUM: Range<usize> = 148..156;
const FLAG: usize = 156;
const LINK: Range<usize> = 157..257;
const MAGIC: Range<usize> = 257..265;
const DEVICE: [Range<usize>; 2] = [329..337, 337..345];
const USTAR_PREFIX: Range<usize> = 345..500;
const STAR_PREFIX: Range<usize> = 345..476;
const STAR_TIMES: [Range<usize>; 2] = [476..488, 488..500];
const GNU_EXTENDED: usize = 482;
const STAR_TRAILER: Range<usize> = 508..512;
/// Offset of the flag that says that another block of the sparse map follows.
const SPARSE_EXTENDED: usize = 504;

impl Header {
    /// Reads a block as Go does. Numbers may have several forms; the checksum
    /// must be right.
    pub(super) fn read(block: &[u8; BLOCK]) -> Result<Self, InvalidTar> {
        let format = format(block)?;
        // As in Go, unused fields must be numbers too.
        for unused in [UID, GID, TIME] {
            number(&block[unused])?;
        }
        if format != Format::V7 {
            for device in DEVICE {
                number(&block[device])?;
            }
        }
        if format == Format::Star {
            for time in STAR_TIMES {
                number(&block[time])?;
            }
        }
        Ok(Self {
            name: name(block, format),
            link: text(&block[LINK]).to_vec(),
            flag: block[FLAG],
            mode: u32::try_from(number(&block[MODE])? & 0o7777).unwrap_or_default(),
            size: number(&block[SIZE])?,
            gnu: format == Format::Gnu,
            extended: format == Format::Gnu && block[GNU_EXTENDED] != 0,
        })
    }
}

/// The map of a sparse file continues after this block.
pub(super) fn sparse_map_continues(block: &[u8; BLOCK]) -> bool {
    block[SPARSE_EXTENDED] != 0
}

fn format(block: &[u8; BLOCK]) -> Result<Format, InvalidTar> {
    let stated = octal(&block[CHECKSUM])?;
    let (mut unsigned, mut signed) = (0_i64, 0_i64);
    for (index, byte) in block.iter().enumerate() {
        let byte = if CHECKSUM.contains(&index) { b' ' } else { *byte };
        unsigned += i64::from(byte);
        signed += i64::from(byte.cast_signed());
    }
    if stated != unsigned && stated != signed {
        return Err(InvalidTar::Header);
    }
    let magic = &block[MAGIC];
    Ok(if magic.starts_with(b"ustar\0") {
        if &block[STAR_TRAILER] == b"tar\0" { Format::Star } else { Format::Ustar }
    } else if magic == b"ustar  \0" {
        Format::Gnu
    } else {
        Format::V7
    })
}

fn name(block: &[u8; BLOCK], format: Format) -> Vec<u8> {
    let prefix = match format {
        Format::V7 | Format::Gnu => &[][..],
        Format::Ustar => text(&block[USTAR_PREFIX]),
        Format::Star => text(&block[STAR_PREFIX]),
    };
    let name = text(&block[NAME]);
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

/// A field up to its first NUL.
pub(super) fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A number in octal digits. If the first bit is set, it is a big-endian number
/// in two's complement.
fn number(field: &[u8]) -> Result<i64, InvalidTar> {
    match field.first() {
        Some(first) if first & 0x80 != 0 => binary(field),
        _ => octal(field),
    }
}

fn binary(field: &[u8]) -> Result<i64, InvalidTar> {
    let negative = field.first().is_some_and(|first| first & 0x40 != 0);
    let fill = if negative { 0xff } else { 0 };
    let mut value = 0_u64;
    for (index, byte) in field.iter().enumerate() {
        let byte = if index == 0 { byte & 0x7f | if negative { 0x80 } else { 0 } } else { *byte };
        // The bits that are shifted out must equal the sign.
        if value >> 56 != 0 {
            return Err(InvalidTar::Header);
        }
        value = value << 8 | u64::from(byte ^ fill);
    }
    let value = i64::try_from(value).map_err(|_overflow| InvalidTar::Header)?;
    Ok(if negative { !value } else { value })
}

fn octal(field: &[u8]) -> Result<i64, InvalidTar> {
    let is_padding = |byte: &u8| *byte == b' ' || *byte == 0;
    let start = field.iter().position(|byte| !is_padding(byte)).unwrap_or(field.len());
    let end = field.iter().rposition(|byte| !is_padding(byte)).map_or(start, |last| last + 1);
    let mut value = 0_i64;
    for digit in text(&field[start..end]) {
        if !(b'0'..=b'7').contains(digit) {
            return Err(InvalidTar::Header);
        }
        let shifted = value.checked_mul(8).ok_or(InvalidTar::Header)?;
        value = shifted | i64::from(digit - b'0');
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_with_padding_on_either_side() {
        assert_eq!(number(b"0000644\0").unwrap(), 0o644);
        assert_eq!(number(b"  755 \0\0").unwrap(), 0o755);
        assert_eq!(number(b"\0\0\0\0").unwrap(), 0);
        assert!(number(b"12x").is_err());
        assert!(number(b"8").is_err());
    }

    #[test]
    fn large_numbers_are_binary() {
        assert_eq!(number(b"\x80\0\0\0\0\0\0\x02\0\0\0\0").unwrap(), 2 << 32);
        assert_eq!(number(&[0xff; 12]).unwrap(), -1);
        assert!(number(b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff").is_err());
    }

    #[test]
    fn a_checksum_of_signed_bytes_is_right_too() {
        let mut block = [0; BLOCK];
        block[0] = 0xff;
        let checksum = 8 * i32::from(b' ') - 1;
        block[CHECKSUM].copy_from_slice(format!("{checksum:06o}\0 ").as_bytes());
        assert_eq!(Header::read(&block).unwrap().name, [0xff]);
    }

    #[test]
    fn a_block_with_a_wrong_checksum_is_no_header() {
        let mut block = [0; BLOCK];
        block[0] = b'x';
        assert_eq!(Header::read(&block).unwrap_err(), InvalidTar::Header);
    }
}
