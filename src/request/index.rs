//! Indexes the names in an archive; most discovery rules need nothing else.

use cmp_archive::{
    ArchiveError, Entry, EntryCounter, EntryKind, EntryPath, Reader, Refusal, Sink, UnpackLimit,
    UnpackLimits,
};
use cmp_discovery::{EntryError, FileIndex, IndexLimits};
use tokio::task::yield_now;

use super::checksum::PieceSink;

/// Compressed bytes between two yields to other requests. They may unpack to a
/// thousand times as much, which takes about 10 ms.
const STRETCH: usize = 16 * 1024;

/// The reason why an archive could not be indexed.
pub(super) type NotIndexed = ArchiveError<Refusal>;

/// Indexes the names in an archive and drops the contents.
pub(super) struct NameIndexer(Result<Reader<IndexSink>, NotIndexed>);

impl NameIndexer {
    pub(super) fn new(limits: UnpackLimits) -> Self {
        let entries = usize::try_from(limits.files).unwrap_or(usize::MAX);
        let bounds = IndexLimits::default();
        let bounds = IndexLimits { entries: bounds.entries.min(entries), ..bounds };
        let names = IndexSink { index: FileIndex::new(bounds), counter: EntryCounter::new(limits) };
        Self(Ok(Reader::new(names)))
    }

    /// Ends the archive and returns the index.
    pub(super) fn finish(self) -> Result<FileIndex, NotIndexed> {
        Ok(self.0?.finish()?.index)
    }

    /// Reads a piece, unless an earlier one failed.
    fn push(&mut self, piece: &[u8]) {
        let pushed = self.0.as_mut().map(|reader| reader.push(piece));
        if let Ok(Err(error)) = pushed {
            self.0 = Err(error);
        }
    }
}

impl PieceSink for NameIndexer {
    async fn take(&mut self, piece: &[u8]) -> bool {
        for stretch in piece.chunks(STRETCH) {
            self.push(stretch);
            yield_now().await;
        }
        self.0.is_ok()
    }
}

/// Adds the names of an archive's entries to the index.
struct IndexSink {
    index: FileIndex,
    counter: EntryCounter,
}

impl Sink for IndexSink {
    type Error = Refusal;

    fn entry(&mut self, entry: &Entry) -> Result<(), Refusal> {
        if matches!(entry.name.as_slice(), b"." | b"./") {
            return Ok(());
        }
        self.counter.count(entry)?;
        let added = match entry.kind {
            EntryKind::Directory => self.index.add_directory(&entry.name),
            EntryKind::File { .. } => self.index.add_file(&entry.name),
            EntryKind::Link => self.index.add_symlink(&entry.name, &entry.link),
            EntryKind::Other { .. } => self.index.check(&entry.name),
        };
        added.map_err(|error| refusal(entry, &error))
    }

    fn data(&mut self, _piece: &[u8]) -> Result<(), Refusal> {
        Ok(())
    }

    fn end(&mut self) -> Result<(), Refusal> {
        Ok(())
    }

    fn extension(&mut self, size: u64) -> Result<(), Refusal> {
        self.counter.count_dropped(size)
    }
}

/// The error that unpacking this entry would have caused.
fn refusal(entry: &Entry, error: &EntryError) -> Refusal {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let clean = EntryPath::new(&entry.name).ok().filter(|path| !path.is_root());
    let path = clean.map_or_else(|| text(&entry.name), |path| path.as_path().display().to_string());
    let target = text(&entry.link);
    match error {
        EntryError::Illegal => Refusal::Outside { path },
        EntryError::Unnameable => Refusal::File { path, cause: "file name too long".to_owned() },
        EntryError::Folder(cause) => Refusal::Directory { path, cause: cause.to_string() },
        EntryError::File(cause) => Refusal::File { path, cause: cause.to_string() },
        EntryError::LinkOutside => Refusal::LinkOutside { path, target },
        EntryError::LinkTarget(cause) => Refusal::LinkTarget { path, cause: cause.to_string() },
        EntryError::LinkLoop => {
            Refusal::LinkTarget { path, cause: "EvalSymlinks: too many links".to_owned() }
        }
        EntryError::Link(cause) => Refusal::Link { path, target, cause: cause.to_string() },
        EntryError::TooManyEntries { limit } => {
            Refusal::Limit { limit: *limit as u64, what: UnpackLimit::Files }
        }
        EntryError::TooManyLookups { .. } | EntryError::TooManyNameBytes { .. } => {
            Refusal::Names { cause: error.to_string() }
        }
    }
}
