//! Indexes the names in an archive; most discovery rules need nothing else.

use super::{
    checksum::PieceSink,
    deadline::{Deadline, DeadlinePassed},
    memory::{HeldMemory, NoMemory, ResponseMemory},
    piece_thread::PieceThread,
    threads::Threads,
};
use cmp_archive::{
    ArchiveError, Entry, EntryCounter, EntryKind, EntryPath, Reader, Refusal, Sink, UnpackLimit,
    UnpackLimits,
};
use cmp_discovery::{EntryError, FileIndex, IndexLimits};

/// Largest piece that is read at once, in bytes. It may unpack to a thousand times
/// as much, which takes a few milliseconds. So do the lookups that a small index may
/// have.
const IMMEDIATE: usize = 4 * 1024;

/// Memory in bytes for all indexes of names. The largest takes 40 MB.
const MEMORY: u64 = 64 << 20;

/// The reason why an archive could not be indexed.
#[derive(Debug)]
pub(super) enum NotIndexed {
    /// It cannot be unpacked.
    Archive(Invalid),
    /// The deadline passed while a piece was read.
    Late(DeadlinePassed),
    /// The deadline passed before there was memory for the index.
    NoMemory(DeadlinePassed),
}

type Invalid = ArchiveError<Refusal>;

/// Threads and memory for indexes of names, all requests together.
#[derive(Clone, Debug)]
pub struct IndexResources {
    /// Threads for the indexes, for deciding patterns, and for kept archives.
    pub(super) threads: Threads,
    /// Memory of the indexes. It is separate: discovery must not wait for answers.
    memory: ResponseMemory,
}

impl Default for IndexResources {
    /// As many threads as there are processors, up to a limit.
    fn default() -> Self {
        Self { threads: Threads::of_processors(), memory: ResponseMemory::fixed(MEMORY) }
    }
}

/// Indexes the names in an archive and drops the contents.
pub(super) struct NameIndexer {
    thread: PieceThread<Indexing>,
    held: HeldMemory,
    deadline: Deadline,
    /// The deadline passed before there was memory for a piece, so the rest was not read.
    without_memory: Option<DeadlinePassed>,
}

type Indexing = Result<Box<Reader<IndexSink>>, Invalid>;

impl NameIndexer {
    pub(super) fn new(
        limits: UnpackLimits,
        resources: &IndexResources,
        deadline: Deadline,
    ) -> Self {
        let entries = usize::try_from(limits.files).unwrap_or(usize::MAX);
        let bounds = IndexLimits::default();
        let bounds = IndexLimits { entries: bounds.entries.min(entries), ..bounds };
        let reader: Indexing = Ok(Box::new(Reader::new(IndexSink::new(bounds, limits))));
        let thread = PieceThread::new(reader, resources.threads.clone(), deadline);
        Self { thread, held: resources.memory.hold(), deadline, without_memory: None }
    }

    /// Ends the archive and returns the index.
    pub(super) async fn finish(mut self) -> Result<(FileIndex, HeldMemory), NotIndexed> {
        if self.without_memory.is_none() {
            self.charge().await;
        }
        if let Some(passed) = self.without_memory {
            return Err(NotIndexed::NoMemory(passed));
        }
        let late = || NotIndexed::Late(DeadlinePassed(self.deadline));
        let reader = self.thread.finish().await.ok_or_else(late)?;
        let read = reader.and_then(|reader| reader.finish()).map_err(NotIndexed::Archive)?;
        Ok((read.index, self.held))
    }

    /// Charges the memory of the names so far. Returns false if the index needs no
    /// more pieces, or cannot have them.
    async fn charge(&mut self) -> bool {
        let Some(Ok(reader)) = self.thread.reader().await else { return false };
        let memory = reader.sink().index.heap_bytes();
        let charged = self.held.grow(memory, &self.deadline).await;
        self.without_memory = charged.err().map(|NoMemory { passed, .. }| passed);
        self.without_memory.is_none()
    }
}

/// Reads a piece, unless an earlier one failed.
fn push(reader: &mut Indexing, piece: &[u8]) {
    if let Ok(Err(error)) = reader.as_mut().map(|reader| reader.push(piece)) {
        *reader = Err(error);
    }
}

impl PieceSink for NameIndexer {
    async fn take(&mut self, piece: &[u8]) -> bool {
        if !self.charge().await {
            return false;
        }
        if piece.len() > IMMEDIATE {
            self.thread.read(piece, push).await;
        } else if let Some(reader) = self.thread.reader().await {
            push(reader, piece);
        }
        true
    }
}

/// Adds the names of an archive's entries to the index.
struct IndexSink {
    index: FileIndex,
    counter: EntryCounter,
    /// Files that a repository may have. The index may have fewer.
    files: u64,
}

impl IndexSink {
    fn new(bounds: IndexLimits, limits: UnpackLimits) -> Self {
        let (index, counter) = (FileIndex::new(bounds), EntryCounter::new(limits));
        Self { index, counter, files: limits.files }
    }
}

impl Sink for IndexSink {
    type Error = Refusal;

    fn entry(&mut self, entry: &Entry) -> Result<(), Refusal> {
        if entry.is_root() {
            return self.counter.skip(entry);
        }
        self.counter.count(entry)?;
        let added = match entry.kind {
            EntryKind::Directory => self.index.add_directory(&entry.name),
            EntryKind::File { .. } => self.index.add_file(&entry.name),
            EntryKind::Link => self.index.add_symlink(&entry.name, &entry.link),
            EntryKind::Other { .. } => Ok(()),
        };
        added.map_err(|error| refusal(entry, &error, self.files))
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

/// The error that unpacking this entry would have caused. If the index may have fewer than
/// `files` entries, no flag raises its limit.
fn refusal(entry: &Entry, error: &EntryError, files: u64) -> Refusal {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let shown = |path: EntryPath| path.as_path().display().to_string();
    let clean = EntryPath::new(&entry.name);
    let to = clean.as_ref().ok().and_then(|path| path.parent().join(&entry.link).ok());
    let (path, target) = (clean.map_or_else(|_escape| text(&entry.name), shown), text(&entry.link));
    match error {
        EntryError::Illegal => Refusal::Outside { path },
        EntryError::Unnameable => Refusal::File { path, cause: "file name too long".to_owned() },
        EntryError::Folder(cause) => Refusal::Directory { path, cause: cause.to_string() },
        EntryError::File(cause) => Refusal::File { path, cause: cause.to_string() },
        EntryError::LinkOutside => Refusal::LinkOutside { path, target },
        EntryError::LinkBelowLink => Refusal::LinkBelowLink { path },
        EntryError::LinkTarget(cause) => {
            let target = to.map_or(target, shown);
            Refusal::LinkTarget { path, target, cause: cause.to_string() }
        }
        EntryError::Link(cause) => Refusal::Link { path, target, cause: cause.to_string() },
        EntryError::TooManyEntries { limit } if *limit as u64 >= files => {
            Refusal::Limit { limit: files, what: UnpackLimit::Files }
        }
        EntryError::TooManyEntries { .. }
        | EntryError::TooManyLookups { .. }
        | EntryError::TooManyNameBytes { .. } => Refusal::Names { cause: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    fn soon() -> Deadline {
        Deadline::new(None, Some(Duration::from_millis(50)))
    }

    fn indexer(resources: &IndexResources) -> NameIndexer {
        let limits = UnpackLimits { bytes: 1, files: 1, is_volume: false };
        NameIndexer::new(limits, resources, soon())
    }

    #[tokio::test]
    async fn an_index_whose_last_piece_is_not_read_in_time_is_late() {
        let threads = Threads::new(1);
        let resources = IndexResources { threads: threads.clone(), ..Default::default() };
        let (finish, finished) = mpsc::channel::<()>();
        let other = move |_: &_| finished.recv().is_err();
        let other = threads.start(1, &Deadline::none(), other).await.unwrap();
        let mut indexer = indexer(&resources);
        indexer.take(&[0; IMMEDIATE + 1]).await;
        let late = indexer.finish().await.map(drop);
        assert!(matches!(late, Err(NotIndexed::Late(_))), "{late:?}");
        drop((finish, other));
    }

    #[test]
    fn the_limit_of_the_index_itself_is_not_that_of_a_repository() {
        let entry = |name: &str| Entry {
            name: name.into(),
            kind: EntryKind::File { size: 0 },
            mode: 0,
            link: Vec::new(),
        };
        for (files, remedy) in
            [(1, "--max-repository-files"), (1_000_000, "--plugin-tar-exclude on")]
        {
            let limits = UnpackLimits { bytes: 1, files, is_volume: false };
            let bounds = IndexLimits { entries: 1, ..IndexLimits::default() };
            let mut sink = IndexSink::new(bounds, limits);
            sink.entry(&entry("a")).unwrap();
            let refused = sink.entry(&entry("b")).unwrap_err().to_string();
            assert!(refused.contains(remedy), "{refused}");
            assert_eq!(refused.contains("--max-"), files == 1, "{refused}");
        }
    }

    #[tokio::test]
    async fn an_index_without_memory_is_no_broken_archive() {
        let mut indexer = indexer(&IndexResources::default());
        indexer.without_memory = Some(DeadlinePassed(soon()));
        let late = indexer.finish().await.map(drop);
        assert!(matches!(late, Err(NotIndexed::NoMemory(_))), "{late:?}");
    }
}
