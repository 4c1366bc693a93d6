use std::{convert::Infallible, io::Write};

use flate2::{Compression, GzBuilder, write::GzEncoder};
use tar::{Builder, EntryType, Header};

use super::*;
use crate::{Entry, EntryKind};

/// Records the entries that a reader finds.
#[derive(Debug, Default, PartialEq)]
struct Recorder {
    entries: Vec<(Entry, Vec<u8>)>,
    complete: usize,
    others: Vec<Vec<u8>>,
    extensions: usize,
}

impl Sink for Recorder {
    type Error = Infallible;

    fn entry(&mut self, entry: &Entry) -> Result<(), Infallible> {
        if matches!(entry.kind, EntryKind::Other { .. }) {
            self.others.push(entry.name.clone());
            return Ok(());
        }
        self.entries.push((entry.clone(), Vec::new()));
        Ok(())
    }

    fn data(&mut self, piece: &[u8]) -> Result<(), Infallible> {
        self.entries.last_mut().unwrap().1.extend_from_slice(piece);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Infallible> {
        self.complete += 1;
        Ok(())
    }

    fn extension(&mut self, _size: u64) -> Result<(), Infallible> {
        self.extensions += 1;
        Ok(())
    }
}

type Outcome = Result<Recorder, ArchiveError<Infallible>>;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn read(packed: &[u8], piece: usize) -> Outcome {
    let mut reader = Reader::new(Recorder::default());
    for piece in packed.chunks(piece) {
        reader.push(piece)?;
    }
    reader.finish()
}

fn read_tar(tar: &[u8]) -> Outcome {
    read(&gzip(tar), usize::MAX)
}

fn add(builder: &mut Builder<Vec<u8>>, name: &str, kind: EntryType, contents: &[u8]) {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(contents.len() as u64);
    header.set_mode(0o755);
    if kind == EntryType::Symlink {
        builder.append_link(&mut header, name, "to").unwrap();
    } else {
        builder.append_data(&mut header, name, contents).unwrap();
    }
}

fn sample() -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    add(&mut builder, "dir", EntryType::Directory, b"");
    add(&mut builder, "dir/empty", EntryType::Regular, b"");
    add(&mut builder, "dir/file", EntryType::Regular, &[b'x'; 700]);
    add(&mut builder, "link", EntryType::Symlink, b"");
    add(&mut builder, "fifo", EntryType::Fifo, b"");
    add(&mut builder, &["long"; 60].join("/"), EntryType::Regular, b"end");
    builder.into_inner().unwrap()
}

#[test]
fn entries_are_the_same_for_every_piece_size() {
    let packed = gzip(&sample());
    let whole = read(&packed, usize::MAX).unwrap();
    let names: Vec<_> = whole.entries.iter().map(|(entry, _)| entry.name.as_slice()).collect();
    assert_eq!(names[..4], [&b"dir"[..], b"dir/empty", b"dir/file", b"link"]);
    let long = ["long"; 60].join("/");
    assert_eq!(str::from_utf8(names[4]).unwrap(), long, "a long name is read from its own entry");
    assert_eq!(whole.entries[2].1, [b'x'; 700]);
    assert_eq!(whole.entries[3].0.link, b"to");
    assert_eq!(whole.complete, 3);
    assert_eq!((whole.others.as_slice(), whole.extensions), (&[b"fifo".to_vec()][..], 1));
    for piece in [1, 2, 3, 7, 100, 511, 513] {
        assert_eq!(read(&packed, piece).unwrap(), whole, "pieces of {piece}");
    }
}

#[test]
fn an_empty_extra_field_does_not_end_a_piece() {
    let tar = sample();
    let mut encoder = GzBuilder::new().extra([]).write(Vec::new(), Compression::fast());
    encoder.write_all(&tar).unwrap();
    let packed = encoder.finish().unwrap();
    assert_eq!(read(&packed, usize::MAX).unwrap(), read_tar(&tar).unwrap());
}

#[test]
fn extended_headers_set_name_and_size_of_the_next_entry() {
    let mut builder = Builder::new(Vec::new());
    let records = [("path", &b"caf\xc3\xa9"[..]), ("size", b"3")];
    builder.append_pax_extensions(records).unwrap();
    let mut header = Header::new_ustar();
    header.set_size(3);
    builder.append_data(&mut header, "other", &b"abc"[..]).unwrap();
    let notes = read_tar(&builder.into_inner().unwrap()).unwrap();
    assert_eq!(notes.entries[0].0.name, "café".as_bytes());
    assert_eq!(notes.entries[0].0.kind, EntryKind::File { size: 3 });
    assert_eq!(notes.entries[0].1, b"abc");
}

#[test]
fn a_long_name_of_gnu_replaces_one_of_an_extended_header() {
    let mut builder = Builder::new(Vec::new());
    builder.append_pax_extensions([("path", &b"extended"[..])]).unwrap();
    add(&mut builder, "././@LongLink", EntryType::GNULongName, b"long\0");
    add(&mut builder, "short", EntryType::Regular, b"");
    let notes = read_tar(&builder.into_inner().unwrap()).unwrap();
    assert_eq!(notes.entries[0].0.name, b"long");
}

#[test]
fn a_global_header_ends_the_extended_header_before_it() {
    let mut builder = Builder::new(Vec::new());
    builder.append_pax_extensions([("path", &b"extended"[..])]).unwrap();
    add(&mut builder, "global", EntryType::XGlobalHeader, b"");
    add(&mut builder, "name", EntryType::Regular, b"");
    let notes = read_tar(&builder.into_inner().unwrap()).unwrap();
    assert_eq!(notes.entries[0].0.name, b"name");
}

#[test]
fn the_end_marker_is_optional_and_data_after_it_are_ignored() {
    let tar = sample();
    let bare = &tar[..tar.len() - 1024];
    assert_eq!(read_tar(bare).unwrap().entries.len(), 5);
    let more = [&tar[..], b"garbage that is no header"].concat();
    assert_eq!(read_tar(&more).unwrap().entries.len(), 5);
    let mut packed = gzip(&tar);
    packed.extend_from_slice(b"no gzip");
    assert_eq!(read(&packed, usize::MAX).unwrap().entries.len(), 5);
    let checksum = packed.len() - 12;
    packed[checksum] ^= 0xff;
    assert_eq!(read(&packed, usize::MAX).unwrap().entries.len(), 5);
}

#[test]
fn an_empty_archive_is_an_empty_tree() {
    assert_eq!(read_tar(b"").unwrap(), Recorder::default());
}

#[test]
fn invalid_gzip_is_an_error_of_the_whole_file() {
    let error = read(b"plain text, not compressed", usize::MAX).unwrap_err();
    assert_eq!(error.to_string(), "error reading file: gzip: invalid header");
    assert_eq!(read(b"", 1).unwrap_err().to_string(), "error reading file: EOF");
    assert_eq!(read(&[0x1f], 1).unwrap_err().to_string(), "error reading file: unexpected EOF");
}

#[test]
fn invalid_tar_is_an_error_of_the_listing() {
    let error = read_tar(&[b'x'; 1024]).unwrap_err().to_string();
    assert_eq!(error, "error while iterating on tar reader: archive/tar: invalid tar header");
}

#[test]
fn a_truncated_archive_is_an_error_of_the_truncated_part() {
    let tar = sample();
    let listing = read_tar(&tar[..100]).unwrap_err().to_string();
    assert_eq!(listing, "error while iterating on tar reader: unexpected EOF");
    let in_file = 3 * 512 + 100;
    let contents = read_tar(&tar[..in_file]).unwrap_err().to_string();
    assert_eq!(contents, "error writing tgz file: unexpected EOF");
    let packed = gzip(&tar);
    let whole = read_tar(&tar);
    for end in 0..packed.len() {
        let cut = read(&packed[..end], 64);
        assert!(cut.is_err() || cut == whole, "a cut at {end} goes unnoticed");
    }
}

#[test]
fn one_zero_block_does_not_end_an_archive() {
    let tar = sample();
    let broken = [&tar[..tar.len() - 512], &tar[..512]].concat();
    assert!(read_tar(&broken).is_err());
}

#[test]
fn blocks_of_a_sparse_map_count() {
    const BLOCKS: usize = 5;
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNUSparse);
    header.set_path("s").unwrap();
    header.set_size(0);
    // The map continues in the next block, and so on.
    header.as_mut_bytes()[482] = 1;
    header.set_cksum();
    let mut tar = header.as_bytes().to_vec();
    for block in 1..=BLOCKS {
        let mut map = [0; 512];
        map[504] = u8::from(block < BLOCKS);
        tar.extend(map);
    }
    tar.extend([0; 1024]);
    let recorder = read_tar(&tar).unwrap();
    assert_eq!((recorder.others.len(), recorder.extensions), (1, BLOCKS - 1));
}

#[test]
fn sparse_files_are_refused() {
    let mut builder = Builder::new(Vec::new());
    builder.append_pax_extensions([("GNU.sparse.major", &b"1"[..])]).unwrap();
    add(&mut builder, "holes", EntryType::Regular, b"");
    let error = read_tar(&builder.into_inner().unwrap()).unwrap_err().to_string();
    assert!(error.contains("sparse"), "{error}");
}

#[test]
fn a_name_longer_than_a_megabyte_is_refused_before_it_is_read() {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(1 << 20 | 1);
    header.set_cksum();
    let error = read_tar(header.as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "error while iterating on tar reader: archive/tar: header field too long");
}
