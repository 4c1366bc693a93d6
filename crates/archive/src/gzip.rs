//! Decompresses gzip. Several members in a row are one stream.

use flate2::{Decompress, FlushDecompress, Status};
use thiserror::Error;

/// The reason why a gzip stream is invalid. The texts are those of Go's
/// `compress/gzip`.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InvalidGzip {
    /// The stream is empty.
    #[error("EOF")]
    Empty,
    /// The stream ends inside a member.
    #[error("unexpected EOF")]
    Truncated,
    /// A member does not start with a gzip header.
    #[error("gzip: invalid header")]
    Header,
    /// The checksum or length in a member's trailer is wrong.
    #[error("gzip: invalid checksum")]
    Checksum,
    /// The compressed data are invalid.
    #[error("flate: corrupt input before offset {offset}")]
    Corrupt {
        /// Bytes of the member's compressed data read so far.
        offset: u64,
    },
}

/// Size of the output buffer in bytes. A 10 KiB file is one write, and the
/// buffer still fits into the processor's cache.
const OUTPUT: usize = 64 * 1024;

/// Longest file name or comment in a member's header, in bytes. The limit is
/// Go's.
const MAX_TEXT: usize = 511;

/// Decompresses a gzip stream that arrives in pieces.
pub(super) struct Gunzip {
    stage: Stage,
    inflate: Decompress,
    data: Data,
    output: Vec<u8>,
    /// An error that was found after valid output. It is returned by the next
    /// call, because the archive may already be complete.
    invalid: Option<InvalidGzip>,
    /// The first member's header was read.
    past_header: bool,
}

enum Stage {
    /// Before a member. `first` is true for the first one.
    Start {
        first: bool,
        fixed: Fixed<10>,
    },
    /// In the optional parts of a header.
    Optional {
        flags: u8,
        part: Part,
    },
    Body,
    Trailer(Fixed<8>),
}

/// A part of a header that is present if its flag is set.
enum Part {
    ExtraLength(Fixed<2>),
    Extra { left: usize },
    Text { flag: u8, length: usize },
    Checksum(Fixed<2>),
}

const HAS_CHECKSUM: u8 = 0x02;
const HAS_EXTRA: u8 = 0x04;
const HAS_NAME: u8 = 0x08;
const HAS_COMMENT: u8 = 0x10;

impl Gunzip {
    pub(super) fn new() -> Self {
        Self {
            stage: Stage::Start { first: true, fixed: Fixed::new() },
            inflate: Decompress::new(false),
            data: Data::default(),
            output: Vec::with_capacity(OUTPUT),
            invalid: None,
            past_header: false,
        }
    }

    /// Reads a part of `input` and returns decompressed bytes, possibly none.
    /// Call it again until `input` is empty and nothing is returned.
    pub(super) fn step(&mut self, input: &mut &[u8]) -> Result<&[u8], InvalidGzip> {
        if let Some(invalid) = self.invalid {
            return Err(invalid);
        }
        match &mut self.stage {
            Stage::Start { fixed, .. } => {
                if let Some(header) = fixed.fill(input) {
                    self.stage = start(*header)?;
                    self.enter();
                }
            }
            Stage::Optional { flags, part } => {
                if part.read(input)? {
                    let (flags, next) = (*flags, part.next(*flags));
                    self.stage = next.map_or(Stage::Body, |part| Stage::Optional { flags, part });
                    self.enter();
                }
            }
            Stage::Body => return self.inflate(input),
            Stage::Trailer(fixed) => {
                if let Some(trailer) = fixed.fill(input) {
                    self.data.check(*trailer)?;
                    self.stage = Stage::Start { first: false, fixed: Fixed::new() };
                }
            }
        }
        Ok(&[])
    }

    /// The first member's header was read.
    pub(super) fn is_past_header(&self) -> bool {
        self.past_header
    }

    /// Checks that the stream may end here.
    pub(super) fn finish(&self) -> Result<(), InvalidGzip> {
        if let Some(invalid) = self.invalid {
            return Err(invalid);
        }
        match &self.stage {
            Stage::Start { first: true, fixed } if fixed.is_empty() => Err(InvalidGzip::Empty),
            Stage::Start { first: false, fixed } if fixed.is_empty() => Ok(()),
            Stage::Start { .. } | Stage::Optional { .. } | Stage::Body | Stage::Trailer(_) => {
                Err(InvalidGzip::Truncated)
            }
        }
    }

    fn enter(&mut self) {
        if matches!(self.stage, Stage::Body) {
            self.inflate.reset(false);
            self.data = Data::default();
            self.past_header = true;
        }
    }

    fn inflate(&mut self, input: &mut &[u8]) -> Result<&[u8], InvalidGzip> {
        let before = self.inflate.total_in();
        // Only memory that receives output is touched, because each touched
        // page counts as the worker's memory.
        self.output.clear();
        let status = self.inflate.decompress_vec(input, &mut self.output, FlushDecompress::None);
        let offset = self.inflate.total_in();
        let used = usize::try_from(offset - before).unwrap_or(input.len());
        *input = input.get(used..).unwrap_or_default();
        match status {
            Ok(Status::StreamEnd) => self.stage = Stage::Trailer(Fixed::new()),
            Ok(Status::Ok | Status::BufError) => {}
            Err(_corrupt) if self.output.is_empty() => return Err(InvalidGzip::Corrupt { offset }),
            Err(_corrupt) => self.invalid = Some(InvalidGzip::Corrupt { offset }),
        }
        self.data.add(&self.output);
        Ok(&self.output)
    }
}

/// The stage after the ten fixed bytes of a header.
fn start(header: [u8; 10]) -> Result<Stage, InvalidGzip> {
    let [0x1f, 0x8b, 8, flags, ..] = header else {
        return Err(InvalidGzip::Header);
    };
    Ok(Part::first(flags).map_or(Stage::Body, |part| Stage::Optional { flags, part }))
}

/// The facts about a member's data that its trailer states.
#[derive(Default)]
struct Data {
    /// Not `flate2::Crc`, which takes four times as long with zlib-rs.
    checksum: crc32fast::Hasher,
    /// Length in bytes.
    length: u64,
}

impl Data {
    fn add(&mut self, output: &[u8]) {
        self.checksum.update(output);
        self.length += output.len() as u64;
    }

    fn check(&self, trailer: [u8; 8]) -> Result<(), InvalidGzip> {
        // Only the lower 32 bits of the length are stated.
        let found = self.length << 32 | u64::from(self.checksum.clone().finalize());
        if found == u64::from_le_bytes(trailer) { Ok(()) } else { Err(InvalidGzip::Checksum) }
    }
}

impl Part {
    const fn first(flags: u8) -> Option<Self> {
        if flags & HAS_EXTRA != 0 {
            return Some(Self::ExtraLength(Fixed::new()));
        }
        Self::text(flags, HAS_NAME)
    }

    const fn text(flags: u8, wanted: u8) -> Option<Self> {
        if flags & wanted != 0 {
            return Some(Self::Text { flag: wanted, length: 0 });
        }
        match wanted {
            HAS_NAME => Self::text(flags, HAS_COMMENT),
            _ if flags & HAS_CHECKSUM != 0 => Some(Self::Checksum(Fixed::new())),
            _ => None,
        }
    }

    /// The part after this one.
    fn next(&self, flags: u8) -> Option<Self> {
        match self {
            Self::ExtraLength(length) => {
                Some(Self::Extra { left: u16::from_le_bytes(length.bytes).into() })
            }
            Self::Extra { .. } => Self::text(flags, HAS_NAME),
            Self::Text { flag: HAS_NAME, .. } => Self::text(flags, HAS_COMMENT),
            Self::Text { .. } => Self::text(flags & HAS_CHECKSUM, HAS_COMMENT),
            Self::Checksum(_) => None,
        }
    }

    /// Reads a part. Returns true if it is complete.
    fn read(&mut self, input: &mut &[u8]) -> Result<bool, InvalidGzip> {
        match self {
            // The header's checksum is not checked. Go's reader checks it, but the data
            // have a checksum of their own, and Argo CD writes none in the header.
            Self::ExtraLength(fixed) | Self::Checksum(fixed) => Ok(fixed.fill(input).is_some()),
            Self::Extra { left } => {
                let (_, rest) = input.split_at((*left).min(input.len()));
                *left -= input.len() - rest.len();
                *input = rest;
                Ok(*left == 0)
            }
            Self::Text { length, .. } => {
                let end = memchr::memchr(0, input);
                *length += end.unwrap_or(input.len());
                *input = input.get(end.map_or(input.len(), |end| end + 1)..).unwrap_or_default();
                if *length > MAX_TEXT { Err(InvalidGzip::Header) } else { Ok(end.is_some()) }
            }
        }
    }
}

/// A field of `N` bytes that may arrive in pieces.
struct Fixed<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Fixed<N> {
    const fn new() -> Self {
        Self { bytes: [0; N], length: 0 }
    }

    const fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn fill(&mut self, input: &mut &[u8]) -> Option<&[u8; N]> {
        let missing = self.bytes.get_mut(self.length..)?;
        let taken = missing.len().min(input.len());
        let (now, later) = input.split_at(taken);
        missing.get_mut(..taken)?.copy_from_slice(now);
        *input = later;
        self.length += taken;
        (self.length == N).then_some(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, GzBuilder, write::GzEncoder};

    use super::*;

    fn pack(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn unpack(packed: &[u8], piece: usize) -> Result<Vec<u8>, InvalidGzip> {
        let mut gunzip = Gunzip::new();
        let mut result = Vec::new();
        for mut input in packed.chunks(piece) {
            while !input.is_empty() {
                result.extend_from_slice(gunzip.step(&mut input)?);
            }
        }
        // Some output may not have fitted into the buffer.
        loop {
            let more = gunzip.step(&mut &[][..])?;
            if more.is_empty() {
                break;
            }
            result.extend_from_slice(more);
        }
        gunzip.finish().map(|()| result)
    }

    #[test]
    fn members_are_read_as_one_stream_in_pieces_of_any_size() {
        let packed = [pack(b"one "), pack(b""), pack(b"two")].concat();
        for piece in 1..packed.len() {
            assert_eq!(unpack(&packed, piece).unwrap(), b"one two", "pieces of {piece}");
        }
    }

    #[test]
    fn every_optional_part_of_a_header_is_skipped() {
        let mut packed = Vec::new();
        let builder = GzBuilder::new().filename("a").comment("b").extra([1, 2, 3]);
        let mut encoder = builder.write(&mut packed, Compression::fast());
        encoder.write_all(b"text").unwrap();
        encoder.finish().unwrap();
        for piece in 1..packed.len() {
            assert_eq!(unpack(&packed, piece).unwrap(), b"text", "pieces of {piece}");
        }
    }

    #[test]
    fn output_larger_than_the_buffer_is_complete() {
        let text = vec![7; 3 * OUTPUT + 1];
        assert_eq!(unpack(&pack(&text), usize::MAX).unwrap(), text);
    }

    #[test]
    fn invalid_gzip_has_the_error_text_of_go() {
        let packed = pack(b"text");
        assert_eq!(unpack(b"", 1), Err(InvalidGzip::Empty));
        assert_eq!(unpack(b"hello world", 4), Err(InvalidGzip::Header));
        assert_eq!(unpack(b"hi", 4), Err(InvalidGzip::Truncated));
        for end in 1..packed.len() {
            assert_eq!(unpack(&packed[..end], 5), Err(InvalidGzip::Truncated), "cut at {end}");
        }
    }

    #[test]
    fn data_before_a_corrupt_block_are_returned() {
        // A header, a stored block that is not the last, and a block of an
        // invalid type.
        let mut packed = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\0\x04\0\xfb\xfftext".to_vec();
        packed.extend([0xff; 8]);
        let (mut gunzip, mut input) = (Gunzip::new(), &packed[..]);
        assert_eq!(gunzip.step(&mut input), Ok(&b""[..]));
        assert_eq!(gunzip.step(&mut input), Ok(&b"text"[..]));
        assert!(matches!(gunzip.step(&mut input), Err(InvalidGzip::Corrupt { .. })));
        assert!(matches!(gunzip.finish(), Err(InvalidGzip::Corrupt { .. })));
    }

    #[test]
    fn a_wrong_checksum_is_refused() {
        let mut packed = pack(b"text");
        let length = packed.len();
        packed[length - 8] ^= 1;
        assert_eq!(unpack(&packed, 5), Err(InvalidGzip::Checksum));
    }
}
