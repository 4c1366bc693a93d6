//! Reads tar entries from an archive that arrives in pieces.

use cmp_go::path;

use super::{
    header::{BLOCK, Header, sparse_map_continues, text},
    invalid_tar::InvalidTar,
    pax::Extended,
};

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file. Its contents follow.
    File {
        /// Bytes of contents.
        size: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Hard links, devices, FIFOs, old GNU sparse files. Argo CD skips them.
    Other {
        /// Bytes of data, which are dropped.
        size: u64,
    },
}

/// An entry as its header describes it. No field has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name as in the archive.
    pub name: Vec<u8>,
    /// The type of the entry.
    pub kind: EntryKind,
    /// Permission bits, set-user-ID, set-group-ID and sticky bits.
    pub mode: u32,
    /// Target of a link as in the archive.
    pub link: Vec<u8>,
}

impl Entry {
    /// True for the root of the archive, which tar can pack as `.` or `./`. It exists
    /// already.
    #[must_use]
    pub fn is_root(&self) -> bool {
        path::is_root(&self.name)
    }
}

/// Receives the entries of an archive. An error ends the reading.
pub trait Sink {
    /// The reason why the sink refuses an entry.
    type Error;

    /// Called for each decompressed piece, before its entries.
    fn decompressed(&mut self, _piece: &[u8]) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Called before each entry with the position of its first header in the
    /// decompressed bytes. Its bytes end where the next entry starts.
    fn starts(&mut self, _position: u64) {}

    /// Called at the start of each entry.
    fn entry(&mut self, entry: &Entry) -> Result<(), Self::Error>;

    /// Called for each piece of the current file's contents.
    fn data(&mut self, piece: &[u8]) -> Result<(), Self::Error>;

    /// Called when the current file is complete.
    fn end(&mut self) -> Result<(), Self::Error>;

    /// Called for each header that only describes an entry. `size` is its
    /// length in bytes. An archive may have any number of them without an
    /// entry.
    fn extension(&mut self, size: u64) -> Result<(), Self::Error>;
}

/// An error of the archive or of the sink.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure<E> {
    Invalid(InvalidTar),
    Sink(E),
}

/// Longest extended header or long name in bytes. The limit is Go's.
const MAX_SPECIAL: u64 = 1024 * 1024;

/// The state of reading an archive.
#[derive(Debug)]
pub(super) struct TarWalk {
    state: State,
    block: [u8; BLOCK],
    filled: usize,
    /// Bytes of blocks and data so far.
    position: u64,
    /// Position of the first header of the next entry, if one was read.
    start: Option<u64>,
    /// Values for the next entry from extended headers.
    extended: Extended,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    /// Name of the extended header that is being read.
    special: Vec<u8>,
}

#[derive(Debug)]
enum State {
    /// Before a header or the end.
    Header,
    /// After one block of zeros. A second one ends the archive.
    Zeros,
    /// In the blocks that continue the map of an old sparse file.
    SparseMap { size: u64 },
    /// In an entry's data, which `pad` bytes of padding follow.
    Data { destination: Destination, left: u64, pad: u64 },
    /// After the end of the archive. Further data are ignored.
    Done,
}

/// Use of an entry's data.
#[derive(Debug)]
enum Destination {
    File,
    Nothing,
    Special { flag: u8, bytes: Vec<u8> },
}

impl TarWalk {
    pub(super) fn new() -> Self {
        Self {
            state: State::Header,
            block: [0; BLOCK],
            filled: 0,
            position: 0,
            start: None,
            extended: Extended::default(),
            long_name: None,
            long_link: None,
            special: Vec::new(),
        }
    }

    /// The end of the archive was read.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// The contents of a file are incomplete.
    pub(super) fn is_in_file(&self) -> bool {
        matches!(self.state, State::Data { destination: Destination::File, left: 1.., .. })
    }

    /// Reads a piece of the archive.
    pub(super) fn push<S: Sink>(
        &mut self,
        mut input: &[u8],
        sink: &mut S,
    ) -> Result<(), Failure<S::Error>> {
        while !input.is_empty() {
            match &mut self.state {
                State::Done => return Ok(()),
                State::Data { destination, left, .. } if *left > 0 => {
                    let piece = take(&mut input, left);
                    self.position += piece.len() as u64;
                    destination.push(piece, sink)?;
                    if *left == 0 {
                        self.finish_data(sink)?;
                    }
                }
                State::Data { pad, .. } if *pad > 0 => {
                    self.position += take(&mut input, pad).len() as u64;
                }
                State::Data { .. } => self.state = State::Header,
                State::Header | State::Zeros | State::SparseMap { .. } => {
                    if self.fill(&mut input) {
                        self.block(sink)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that the archive may end here. As in Go, the end marker is
    /// optional.
    pub(super) fn finish(&self) -> Result<(), InvalidTar> {
        match &self.state {
            State::Done | State::Data { left: 0, .. } => Ok(()),
            State::Header | State::Zeros if self.filled == 0 => Ok(()),
            State::Header | State::Zeros | State::SparseMap { .. } | State::Data { .. } => {
                Err(InvalidTar::Truncated)
            }
        }
    }

    fn fill(&mut self, input: &mut &[u8]) -> bool {
        let missing = self.block.get_mut(self.filled..).unwrap_or_default();
        let taken = missing.len().min(input.len());
        let (now, later) = input.split_at(taken);
        missing.iter_mut().zip(now).for_each(|(to, from)| *to = *from);
        *input = later;
        self.position += taken as u64;
        self.filled = (self.filled + taken) % BLOCK;
        self.filled == 0
    }

    /// Handles a complete block that is not data.
    fn block<S: Sink>(&mut self, sink: &mut S) -> Result<(), Failure<S::Error>> {
        let is_zero = self.block.iter().all(|byte| *byte == 0);
        self.state = match self.state {
            State::SparseMap { size } if sparse_map_continues(&self.block) => {
                sink.extension(BLOCK as u64).map_err(Failure::Sink)?;
                State::SparseMap { size }
            }
            State::SparseMap { size } => data(Destination::Nothing, size),
            State::Zeros if is_zero => State::Done,
            State::Zeros => return Err(Failure::Invalid(InvalidTar::Header)),
            State::Header | State::Data { .. } | State::Done if is_zero => State::Zeros,
            State::Header | State::Data { .. } | State::Done => return self.header(sink),
        };
        Ok(())
    }

    fn header<S: Sink>(&mut self, sink: &mut S) -> Result<(), Failure<S::Error>> {
        let header = Header::read(&self.block)?;
        self.start.get_or_insert(self.position - BLOCK as u64);
        let size = data_size(header.flag, header.size)?;
        if matches!(header.flag, b'x' | b'g' | b'L' | b'K') {
            if size > MAX_SPECIAL {
                return Err(Failure::Invalid(InvalidTar::Long));
            }
            sink.extension(size).map_err(Failure::Sink)?;
            self.special = header.name;
            self.state = data(Destination::Special { flag: header.flag, bytes: Vec::new() }, size);
            return self.finish_empty(sink);
        }
        self.entry(header, sink)
    }

    fn entry<S: Sink>(&mut self, header: Header, sink: &mut S) -> Result<(), Failure<S::Error>> {
        let mut extended = std::mem::take(&mut self.extended);
        if extended.sparse {
            return Err(Failure::Invalid(InvalidTar::Sparse));
        }
        let name = self.long_name.take().or(extended.path.take()).unwrap_or(header.name);
        let link = self.long_link.take().or(extended.link.take()).unwrap_or(header.link);
        let flag = match header.flag {
            // The oldest archives mark a directory only by the end of its name.
            0 if name.ends_with(b"/") => b'5',
            0 => b'0',
            flag => flag,
        };
        let size = data_size(flag, extended.size()?.unwrap_or(header.size))?;
        if flag == b'S' && !header.gnu {
            return Err(Failure::Invalid(InvalidTar::Header));
        }
        let kind = match flag {
            b'0' => EntryKind::File { size },
            b'5' => EntryKind::Directory,
            b'2' => EntryKind::Link,
            _ => EntryKind::Other { size },
        };
        self.state = match kind {
            EntryKind::File { .. } => data(Destination::File, size),
            EntryKind::Other { .. } if flag == b'S' && header.extended => State::SparseMap { size },
            EntryKind::Directory | EntryKind::Link | EntryKind::Other { .. } => {
                data(Destination::Nothing, size)
            }
        };
        let entry = Entry { name, kind, mode: header.mode, link };
        self.tell_start(sink);
        sink.entry(&entry).map_err(Failure::Sink)?;
        self.finish_empty(sink)
    }

    fn tell_start<S: Sink>(&mut self, sink: &mut S) {
        if let Some(start) = self.start.take() {
            sink.starts(start);
        }
    }

    /// Global extended records. Go treats them as an entry of their own. They
    /// change no other entry and discard earlier extended headers.
    fn global<S: Sink>(&mut self, records: &[u8], sink: &mut S) -> Result<(), Failure<S::Error>> {
        let path = Extended::read(records)?.path;
        let name = path.unwrap_or_else(|| std::mem::take(&mut self.special));
        (self.extended, self.long_name, self.long_link) = (Extended::default(), None, None);
        let kind = EntryKind::Other { size: 0 };
        self.tell_start(sink);
        sink.entry(&Entry { name, kind, mode: 0, link: Vec::new() }).map_err(Failure::Sink)
    }

    /// Completes data of length 0.
    fn finish_empty<S: Sink>(&mut self, sink: &mut S) -> Result<(), Failure<S::Error>> {
        if matches!(self.state, State::Data { left: 0, .. }) {
            self.finish_data(sink)?;
        }
        Ok(())
    }

    fn finish_data<S: Sink>(&mut self, sink: &mut S) -> Result<(), Failure<S::Error>> {
        let State::Data { destination, .. } = &mut self.state else {
            return Ok(());
        };
        match std::mem::replace(destination, Destination::Nothing) {
            Destination::Nothing => {}
            Destination::File => sink.end().map_err(Failure::Sink)?,
            Destination::Special { flag: b'L', bytes } => self.long_name = long(&bytes),
            Destination::Special { flag: b'K', bytes } => self.long_link = long(&bytes),
            Destination::Special { flag: b'x', bytes } => self.extended = Extended::read(&bytes)?,
            Destination::Special { bytes, .. } => self.global(&bytes, sink)?,
        }
        Ok(())
    }
}

impl Destination {
    fn push<S: Sink>(&mut self, piece: &[u8], sink: &mut S) -> Result<(), Failure<S::Error>> {
        match self {
            Self::Nothing => {}
            Self::File => sink.data(piece).map_err(Failure::Sink)?,
            Self::Special { bytes, .. } => bytes.extend_from_slice(piece),
        }
        Ok(())
    }
}

impl<E> From<InvalidTar> for Failure<E> {
    fn from(invalid: InvalidTar) -> Self {
        Self::Invalid(invalid)
    }
}

/// Bytes of data after a header. Some types have no data, whatever size they
/// state.
fn data_size(flag: u8, size: i64) -> Result<u64, InvalidTar> {
    match flag {
        b'1'..=b'6' => Ok(0),
        _ => u64::try_from(size).map_err(|_negative| InvalidTar::Header),
    }
}

fn data(destination: Destination, size: u64) -> State {
    State::Data { destination, left: size, pad: size.wrapping_neg() % BLOCK as u64 }
}

fn long(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = text(bytes);
    (!text.is_empty()).then(|| text.to_vec())
}

/// Splits up to `left` bytes off the front of `input`.
fn take<'a>(input: &mut &'a [u8], left: &mut u64) -> &'a [u8] {
    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    let (piece, rest) = input.split_at(length);
    *input = rest;
    *left -= length as u64;
    piece
}
