//! A walk over the entries of a tar archive, fed with pieces of it.

use thiserror::Error;

use super::{
    header::{BLOCK, Header, sparse_map_continues, text},
    pax::Extended,
};

/// Why bytes are not a tar archive. Texts are those of Go's `archive/tar`.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum InvalidTar {
    #[error("archive/tar: invalid tar header")]
    Header,
    #[error("archive/tar: header field too long")]
    Long,
    #[error("unexpected EOF")]
    Truncated,
    /// Only written by `tar --sparse`; the holes could claim any size.
    #[error("the archive holds a sparse file, which is not supported: pack it without --sparse")]
    Sparse,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file whose contents follow.
    File {
        /// Bytes that follow.
        size: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Anything else, which Argo CD passes over once its name is seen to be in
    /// the repository: hard links, devices, FIFOs, old GNU sparse files.
    Other {
        /// Bytes that follow, and are dropped.
        size: u64,
    },
}

/// An entry, as its header states it; nothing of it is to be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, as it stands.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Permission bits, with set-user-id and the like.
    pub mode: u32,
    /// Target of a link, as it stands.
    pub link: Vec<u8>,
}

/// What is done with entries. An error ends the walk.
pub trait Sink {
    /// Why an entry is not taken.
    type Error;

    /// An entry begins.
    fn entry(&mut self, entry: &Entry) -> Result<(), Self::Error>;

    /// The next piece of the file that began last.
    fn data(&mut self, piece: &[u8]) -> Result<(), Self::Error>;

    /// The file that began last is complete.
    fn end(&mut self) -> Result<(), Self::Error>;

    /// A header comes that only describes the entry behind it. An archive may
    /// hold any number of them and no entry at all.
    fn extension(&mut self, size: u64) -> Result<(), Self::Error>;
}

/// A walk's failure: the archive's fault, or the sink's.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure<E> {
    Invalid(InvalidTar),
    Sink(E),
}

/// Longest extended header or long name. Go's limit.
const MAX_SPECIAL: u64 = 1024 * 1024;

/// Where a walk is.
#[derive(Debug)]
pub(super) struct Walk {
    state: State,
    block: [u8; BLOCK],
    filled: usize,
    /// What headers said about the entry still to come.
    extended: Extended,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    /// Name of the header whose records are being read.
    special: Vec<u8>,
}

#[derive(Debug)]
enum State {
    /// In front of a header, or of the end.
    Header,
    /// Behind one block of zeros.
    Zeros,
    /// In the blocks that continue the map of an old sparse file.
    SparseMap { size: u64 },
    /// In an entry's data, with `pad` bytes of filling behind it.
    Data { into: Into, left: u64, pad: u64 },
    /// Nothing more is read: what follows the end of an archive does not matter.
    Done,
}

/// What an entry's data are for.
#[derive(Debug)]
enum Into {
    File,
    Nothing,
    Special { flag: u8, bytes: Vec<u8> },
}

impl Walk {
    pub(super) fn new() -> Self {
        Self {
            state: State::Header,
            block: [0; BLOCK],
            filled: 0,
            extended: Extended::default(),
            long_name: None,
            long_link: None,
            special: Vec::new(),
        }
    }

    /// Whether the archive's end was seen.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Whether a file's contents are incomplete.
    pub(super) fn is_in_file(&self) -> bool {
        matches!(self.state, State::Data { into: Into::File, left: 1.., .. })
    }

    /// Consumes a piece of the archive.
    pub(super) fn push<S: Sink>(
        &mut self,
        mut input: &[u8],
        sink: &mut S,
    ) -> Result<(), Failure<S::Error>> {
        while !input.is_empty() {
            match &mut self.state {
                State::Done => return Ok(()),
                State::Data { into, left, .. } if *left > 0 => {
                    let piece = take(&mut input, left);
                    into.push(piece, sink)?;
                    if *left == 0 {
                        self.finish_data(sink)?;
                    }
                }
                State::Data { pad, .. } if *pad > 0 => {
                    take(&mut input, pad);
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

    /// Whether the archive may end here. Go does not insist on an end marker.
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
        self.filled = (self.filled + taken) % BLOCK;
        self.filled == 0
    }

    /// A whole block was read that is not data.
    fn block<S: Sink>(&mut self, sink: &mut S) -> Result<(), Failure<S::Error>> {
        let is_zero = self.block.iter().all(|byte| *byte == 0);
        self.state = match self.state {
            State::SparseMap { size } if sparse_map_continues(&self.block) => {
                State::SparseMap { size }
            }
            State::SparseMap { size } => data(Into::Nothing, size),
            State::Zeros if is_zero => State::Done,
            State::Zeros => return Err(Failure::Invalid(InvalidTar::Header)),
            State::Header | State::Data { .. } | State::Done if is_zero => State::Zeros,
            State::Header | State::Data { .. } | State::Done => return self.header(sink),
        };
        Ok(())
    }

    fn header<S: Sink>(&mut self, sink: &mut S) -> Result<(), Failure<S::Error>> {
        let header = Header::read(&self.block)?;
        let size = data_size(header.flag, header.size)?;
        if matches!(header.flag, b'x' | b'g' | b'L' | b'K') {
            if size > MAX_SPECIAL {
                return Err(Failure::Invalid(InvalidTar::Long));
            }
            sink.extension(size).map_err(Failure::Sink)?;
            self.special = header.name;
            self.state = data(Into::Special { flag: header.flag, bytes: Vec::new() }, size);
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
            // The oldest archives mark a directory by its name alone.
            0 if name.ends_with(b"/") => b'5',
            0 => b'0',
            flag => flag,
        };
        let size = data_size(flag, extended.size()?.unwrap_or(header.size))?;
        if flag == b'S' && !header.gnu {
            return Err(Failure::Invalid(InvalidTar::Header));
        }
        let kind = match flag {
            b'0' => Kind::File { size },
            b'5' => Kind::Directory,
            b'2' => Kind::Link,
            _ => Kind::Other { size },
        };
        self.state = match kind {
            Kind::File { .. } => data(Into::File, size),
            Kind::Other { .. } if flag == b'S' && header.extended => State::SparseMap { size },
            Kind::Directory | Kind::Link | Kind::Other { .. } => data(Into::Nothing, size),
        };
        let entry = Entry { name, kind, mode: header.mode, link };
        sink.entry(&entry).map_err(Failure::Sink)?;
        self.finish_empty(sink)
    }

    /// To Go, records that are meant for all entries behind them are an entry
    /// of their own: they change none, and lose what was said before them.
    fn global<S: Sink>(&mut self, records: &[u8], sink: &mut S) -> Result<(), Failure<S::Error>> {
        let path = Extended::read(records)?.path;
        let name = path.unwrap_or_else(|| std::mem::take(&mut self.special));
        (self.extended, self.long_name, self.long_link) = (Extended::default(), None, None);
        let kind = Kind::Other { size: 0 };
        sink.entry(&Entry { name, kind, mode: 0, link: Vec::new() }).map_err(Failure::Sink)
    }

    /// Data of no length are complete as soon as they begin.
    fn finish_empty<S: Sink>(&mut self, sink: &mut S) -> Result<(), Failure<S::Error>> {
        if matches!(self.state, State::Data { left: 0, .. }) {
            self.finish_data(sink)?;
        }
        Ok(())
    }

    fn finish_data<S: Sink>(&mut self, sink: &mut S) -> Result<(), Failure<S::Error>> {
        let State::Data { into, .. } = &mut self.state else {
            return Ok(());
        };
        match std::mem::replace(into, Into::Nothing) {
            Into::Nothing => {}
            Into::File => sink.end().map_err(Failure::Sink)?,
            Into::Special { flag: b'L', bytes } => self.long_name = long(&bytes),
            Into::Special { flag: b'K', bytes } => self.long_link = long(&bytes),
            Into::Special { flag: b'x', bytes } => self.extended = Extended::read(&bytes)?,
            Into::Special { bytes, .. } => self.global(&bytes, sink)?,
        }
        Ok(())
    }
}

impl Into {
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

/// Bytes of data behind a header. Some kinds have none, whatever they state.
fn data_size(flag: u8, size: i64) -> Result<u64, InvalidTar> {
    match flag {
        b'1'..=b'6' => Ok(0),
        _ => u64::try_from(size).map_err(|_negative| InvalidTar::Header),
    }
}

fn data(into: Into, size: u64) -> State {
    State::Data { into, left: size, pad: size.wrapping_neg() % BLOCK as u64 }
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
