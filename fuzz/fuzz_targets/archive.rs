//! Compares the archive reader with the `tar` crate, and with itself on other
//! piece sizes.
//!
//! The first byte selects the input. Even: the `tar` crate writes an archive,
//! and both readers must read it alike. Odd: the rest is used as tar blocks.
//! Their checksums are corrected, so that more than the first block is read.
#![no_main]

use std::{convert::Infallible, io::Write};

use cmp_archive::{Entry, EntryKind, Reader, Sink};
use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::fuzz_target;
use tar::{Archive, Builder, EntryType, Header};

const BLOCK: usize = 512;
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// Longest text of an entry in bytes. It covers short names and extended ones.
const MAX_TEXT_BYTES: usize = 300;

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else { return };
    let tar = if kind % 2 == 0 { written(data) } else { checked(data) };
    let packed = pack(&tar, kind / 2 % 3);
    let whole = read(&packed, usize::MAX);
    for piece in [1, 7 + usize::from(*kind), BLOCK + 1] {
        assert_eq!(read(&packed, piece), whole, "in pieces of {piece}");
    }
    if kind % 2 == 0
        && let Some(entries) = reread(&tar)
    {
        assert_eq!(whole, Ok(entries));
    }
});

/// Records all calls of a sink.
#[derive(Debug, Default, PartialEq)]
struct Calls {
    entries: Vec<(Entry, Vec<u8>)>,
    open: bool,
}

impl Sink for Calls {
    type Error = Infallible;

    fn entry(&mut self, entry: &Entry) -> Result<(), Infallible> {
        assert!(!self.open, "an entry begins in a file");
        self.open = matches!(entry.kind, EntryKind::File { .. });
        self.entries.push((entry.clone(), Vec::new()));
        Ok(())
    }

    fn data(&mut self, piece: &[u8]) -> Result<(), Infallible> {
        assert!(self.open && !piece.is_empty(), "data outside of a file, or none");
        let (_, contents) = self.entries.last_mut().expect("a file has begun");
        contents.extend_from_slice(piece);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Infallible> {
        let (entry, contents) = self.entries.last().expect("a file has begun");
        assert!(self.open, "the end of no file");
        assert_eq!(entry.kind, EntryKind::File { size: contents.len() as u64 });
        self.open = false;
        Ok(())
    }

    fn extension(&mut self, _size: u64) -> Result<(), Infallible> {
        assert!(!self.open, "an extended header in a file");
        Ok(())
    }
}

/// The entries, or the error text.
fn read(packed: &[u8], piece: usize) -> Result<Vec<(Entry, Vec<u8>)>, String> {
    let mut reader = Reader::new(Calls::default());
    for piece in packed.chunks(piece) {
        reader.push(piece).map_err(|error| error.to_string())?;
    }
    let calls = reader.finish().map_err(|error| error.to_string())?;
    assert!(!calls.open, "an archive ends in a file");
    Ok(calls.entries)
}

fn pack(tar: &[u8], level: u8) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level.into()));
    encoder.write_all(tar).expect("writing to memory");
    encoder.finish().expect("writing to memory")
}

/// The data as tar blocks. Missing checksums are filled in.
fn checked(data: &[u8]) -> Vec<u8> {
    let mut tar = data.to_vec();
    for block in tar.chunks_exact_mut(BLOCK) {
        if block[CHECKSUM] == *b"        " || block[CHECKSUM] == [0; 8] {
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            let blanks = if block[CHECKSUM.start] == 0 { 8 * u32::from(b' ') } else { 0 };
            if sum > 0 {
                block[CHECKSUM].copy_from_slice(format!("{:06o}\0 ", sum + blanks).as_bytes());
            }
        }
    }
    tar
}

/// An archive of the entries that `data` describes: type, lengths, texts.
fn written(mut data: &[u8]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    while let [kind, name, rest, tail @ ..] = data {
        data = tail;
        let name = text(&mut data, *name, b'n');
        let (name, rest) = (name.trim_matches('/').to_owned(), usize::from(*rest) * 3);
        let mut header = if kind & 0x80 == 0 { Header::new_ustar() } else { Header::new_gnu() };
        header.set_mode(u32::from(*kind) & 0o777);
        header.set_size(0);
        // The `tar` crate may refuse to write an entry.
        let _ = match kind % 4 {
            0 | 1 => {
                let contents = &data[..rest.min(data.len())];
                header.set_size(contents.len() as u64);
                data = &data[contents.len()..];
                builder.append_data(&mut header, name, contents)
            }
            2 => {
                header.set_entry_type(EntryType::Directory);
                builder.append_data(&mut header, name, &b""[..])
            }
            _ => {
                header.set_entry_type(EntryType::Symlink);
                let target = text(&mut data, rest as u8, b't');
                builder.append_link(&mut header, name, target)
            }
        };
    }
    builder.into_inner().expect("writing to memory")
}

/// A text of the given length from the fuzzer's bytes. `filling` is used after
/// these run out.
fn text(data: &mut &[u8], length: u8, filling: u8) -> String {
    let length = usize::from(length) * MAX_TEXT_BYTES / 255;
    let (given, rest) = data.split_at(length.min(data.len()));
    *data = rest;
    let letter = |byte: &u8| match byte {
        0..32 => '/',
        32..64 => 'é',
        byte => char::from(b'a' + byte % 26),
    };
    let mut text: String = given.iter().map(letter).collect();
    text.extend(std::iter::repeat_n(char::from(filling), length - given.len()));
    text
}

/// The entries as the `tar` crate reads them. `None` if writing an entry failed
/// after its long name had been written.
fn reread(tar: &[u8]) -> Option<Vec<(Entry, Vec<u8>)>> {
    let mut archive = Archive::new(tar);
    let entries = archive.entries().expect("it begins with a header, or is empty");
    let entry = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.ok()?;
        let mut contents = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut contents).expect("the builder wrote this");
        let kind = match entry.header().entry_type() {
            EntryType::Directory => EntryKind::Directory,
            EntryType::Symlink => EntryKind::Link,
            _ => EntryKind::File { size: contents.len() as u64 },
        };
        let link = entry.link_name_bytes().unwrap_or_default().into_owned();
        let mode = entry.header().mode().expect("the builder wrote this");
        Some((Entry { name: entry.path_bytes().into_owned(), kind, mode, link }, contents))
    };
    entries.map(entry).collect()
}
