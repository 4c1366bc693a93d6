//! The walk over an archive: against another reader of tar, and against itself
//! with the input cut elsewhere.
//!
//! The first byte says what the rest is. Even: an archive to be written by the
//! `tar` crate, which then has to be read as it was meant. Odd: blocks of tar as
//! they stand, whose checksums are put right so that more than the first is read.
#![no_main]

use std::{convert::Infallible, io::Write};

use cmp_archive::{Entry, Kind, Reader, Sink};
use flate2::{Compression, write::GzEncoder};
use libfuzzer_sys::fuzz_target;
use tar::{Archive, Builder, EntryType, Header};

const BLOCK: usize = 512;
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// Longest text of a written entry: both short names and extended ones.
const MOST_TEXT: usize = 300;

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

/// Everything a sink is told.
#[derive(Debug, Default, PartialEq)]
struct Told {
    entries: Vec<(Entry, Vec<u8>)>,
    open: bool,
}

impl Sink for Told {
    type Error = Infallible;

    fn entry(&mut self, entry: &Entry) -> Result<(), Infallible> {
        assert!(!self.open, "an entry begins in a file");
        self.open = matches!(entry.kind, Kind::File { .. });
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
        assert_eq!(entry.kind, Kind::File { size: contents.len() as u64 });
        self.open = false;
        Ok(())
    }

    fn extension(&mut self, _size: u64) -> Result<(), Infallible> {
        assert!(!self.open, "an extended header in a file");
        Ok(())
    }
}

/// What was found, or the text of what was wrong.
fn read(packed: &[u8], piece: usize) -> Result<Vec<(Entry, Vec<u8>)>, String> {
    let mut reader = Reader::new(Told::default());
    for piece in packed.chunks(piece) {
        reader.push(piece).map_err(|error| error.to_string())?;
    }
    let told = reader.finish().map_err(|error| error.to_string())?;
    assert!(!told.open, "an archive ends in a file");
    Ok(told.entries)
}

fn pack(tar: &[u8], level: u8) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level.into()));
    encoder.write_all(tar).expect("memory takes everything");
    encoder.finish().expect("memory takes everything")
}

/// Blocks whose checksums are right wherever the fuzzer has not put one.
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

/// An archive of the entries that `data` spells: kind, lengths, texts.
fn written(mut data: &[u8]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    while let [kind, name, rest, tail @ ..] = data {
        data = tail;
        let name = text(&mut data, *name, b'n');
        let (name, rest) = (name.trim_matches('/').to_owned(), usize::from(*rest) * 3);
        let mut header = if kind & 0x80 == 0 { Header::new_ustar() } else { Header::new_gnu() };
        header.set_mode(u32::from(*kind) & 0o777);
        header.set_size(0);
        // What cannot be written is not the reader's fault.
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
    builder.into_inner().expect("memory takes everything")
}

/// As many letters as told, from the fuzzer as long as it has some.
fn text(data: &mut &[u8], length: u8, filling: u8) -> String {
    let length = usize::from(length) * MOST_TEXT / 255;
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

/// The archive as the `tar` crate reads it; `None` if it gave up writing an entry
/// when that entry's long name was written.
fn reread(tar: &[u8]) -> Option<Vec<(Entry, Vec<u8>)>> {
    let mut archive = Archive::new(tar);
    let entries = archive.entries().expect("it begins with a header, or is empty");
    let entry = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.ok()?;
        let mut contents = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut contents).expect("it wrote this itself");
        let kind = match entry.header().entry_type() {
            EntryType::Directory => Kind::Directory,
            EntryType::Symlink => Kind::Link,
            _ => Kind::File { size: contents.len() as u64 },
        };
        let link = entry.link_name_bytes().unwrap_or_default().into_owned();
        let mode = entry.header().mode().expect("it wrote this itself");
        Some((Entry { name: entry.path_bytes().into_owned(), kind, mode, link }, contents))
    };
    entries.map(entry).collect()
}
