//! Decompresses zstd. Several frames in a row are one stream.

use thiserror::Error;
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

/// Size of the output buffer in bytes, as for gzip.
const OUTPUT: usize = 64 * 1024;

/// Largest window that a frame may require, as a power of two: 8 MiB. zstd's
/// levels up to 19 need no more. The sender chooses this size, so it needs a
/// limit.
const MAX_WINDOW_LOG: u32 = 23;

/// First byte of a zstd frame. gzip starts with another byte.
pub(super) const FIRST_BYTE: u8 = 0x28;

/// The reason why a zstd stream is invalid.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InvalidZstd {
    /// The stream ends inside a frame.
    #[error("unexpected EOF")]
    Truncated,
    /// The data are invalid or require too much memory.
    #[error("zstd: {0}")]
    Corrupt(String),
}

/// Decompresses a zstd stream that arrives in pieces.
pub(super) struct Unzstd {
    decoder: Decoder<'static>,
    output: Vec<u8>,
    /// The stream may end here.
    complete: bool,
}

impl Unzstd {
    pub(super) fn new() -> Result<Self, InvalidZstd> {
        let mut decoder = Decoder::new().map_err(corrupt)?;
        decoder.set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG)).map_err(corrupt)?;
        Ok(Self { decoder, output: Vec::with_capacity(OUTPUT), complete: false })
    }

    /// Reads a part of `input` and returns decompressed bytes, possibly none.
    /// Call it again until `input` is empty and nothing is returned.
    pub(super) fn step(&mut self, input: &mut &[u8]) -> Result<&[u8], InvalidZstd> {
        if self.complete && input.is_empty() {
            return Ok(&[]);
        }
        self.output.clear();
        let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(&mut self.output));
        self.complete = self.decoder.run(&mut from, &mut to).map_err(corrupt)? == 0;
        let read = from.pos();
        *input = input.get(read..).unwrap_or_default();
        Ok(&self.output)
    }

    /// Checks that the stream may end here.
    pub(super) fn finish(&self) -> Result<(), InvalidZstd> {
        if self.complete { Ok(()) } else { Err(InvalidZstd::Truncated) }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn corrupt(error: std::io::Error) -> InvalidZstd {
    InvalidZstd::Corrupt(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(bytes: &[u8], piece: usize) -> Result<Vec<u8>, InvalidZstd> {
        let (mut unzstd, mut all) = (Unzstd::new()?, Vec::new());
        for mut input in bytes.chunks(piece) {
            loop {
                let before = input.len();
                let output = unzstd.step(&mut input)?;
                if output.is_empty() && input.len() == before {
                    break;
                }
                all.extend_from_slice(output);
            }
        }
        unzstd.finish().map(|()| all)
    }

    fn packed() -> (Vec<u8>, Vec<u8>) {
        let text: Vec<u8> = (0..300_000_u32).flat_map(|n| (n % 977).to_le_bytes()).collect();
        let packed = zstd::bulk::compress(&text, 3).unwrap();
        (text, packed)
    }

    #[test]
    fn frames_are_read_as_one_stream_in_pieces_of_any_size() {
        let (text, packed) = packed();
        let (twice, twofold) = (text.repeat(2), packed.repeat(2));
        for piece in [1, 7, 4096, twofold.len()] {
            assert!(unpack(&twofold, piece).unwrap() == twice, "{piece}");
        }
    }

    #[test]
    fn a_truncated_stream_is_refused() {
        let (_, packed) = packed();
        for end in 1..packed.len() {
            let error = unpack(&packed[..end], 512).unwrap_err();
            assert_eq!(error, InvalidZstd::Truncated, "{end}");
        }
    }

    #[test]
    fn corrupt_data_are_refused() {
        let error = unpack(b"(\xb5/\xfd nonsense, really", 64).unwrap_err().to_string();
        assert!(error.starts_with("zstd: "), "{error}");
    }

    #[test]
    fn a_frame_with_a_large_window_is_refused() {
        // A frame header with a window of 2 GiB, and one empty raw block.
        let greedy = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00];
        let error = unpack(&greedy, 64).unwrap_err().to_string();
        assert!(error.contains("memory"), "{error}");
    }
}
