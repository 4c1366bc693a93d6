//! Counts the entries of an archive.

use super::{
    header::BLOCK,
    limits::{UnpackLimit, UnpackLimits},
    refusal::Refusal,
    tar::{Entry, EntryKind},
};

/// Largest number of bytes of one path. Linux accepts no longer ones.
pub const MAX_PATH_BYTES: usize = 4095;

/// Largest number of components of one path.
pub const MAX_DEPTH: usize = 255;

/// Number of bytes of a long path that an error shows.
const SHOWN: usize = 200;

/// Counts entries and checks limits. A size counts as soon as a header states
/// it, so data beyond the limit are never written.
#[derive(Clone, Copy, Debug)]
pub struct EntryCounter {
    limits: UnpackLimits,
    files: u64,
    bytes: u64,
    /// Bytes of data that are read and dropped, with their headers.
    dropped: u64,
}

impl EntryCounter {
    /// A counter that starts at zero.
    #[must_use]
    pub fn new(limits: UnpackLimits) -> Self {
        Self { limits, files: 0, bytes: 0, dropped: 0 }
    }

    /// Counts an entry. The first entry beyond a limit is an error.
    pub fn count(&mut self, entry: &Entry) -> Result<(), Refusal> {
        self.files += 1;
        match entry.kind {
            EntryKind::File { size } => self.bytes = self.bytes.saturating_add(size),
            EntryKind::Other { size } => self.count_dropped(size)?,
            EntryKind::Directory | EntryKind::Link => {}
        }
        self.check_implied(0)?;
        self.measure(self.bytes)?;
        check_path(&entry.name)
    }

    /// Counts an entry that creates nothing. Its data are read all the same.
    pub fn skip(&mut self, entry: &Entry) -> Result<(), Refusal> {
        match entry.kind {
            EntryKind::File { size } | EntryKind::Other { size } => self.count_dropped(size),
            EntryKind::Directory | EntryKind::Link => self.count_dropped(0),
        }
    }

    /// Checks that the entries and `directories` more do not exceed the limit.
    /// Directories that exist only in the names of entries count as files.
    pub fn check_implied(&self, directories: u64) -> Result<(), Refusal> {
        let limit = self.limits.files;
        if self.files.saturating_add(directories) > limit {
            return Err(Refusal::Limit { limit, what: UnpackLimit::Files });
        }
        Ok(())
    }

    /// Counts dropped data and their header. They need a limit, because a few
    /// compressed bytes can stand for any amount of data.
    pub fn count_dropped(&mut self, size: u64) -> Result<(), Refusal> {
        self.dropped = self.dropped.saturating_add(size).saturating_add(BLOCK as u64);
        self.measure(self.dropped)
    }

    fn measure(&self, bytes: u64) -> Result<(), Refusal> {
        let limit = self.limits.bytes;
        if bytes > limit {
            let is_volume = self.limits.is_volume;
            let what = if is_volume { UnpackLimit::Volume } else { UnpackLimit::Bytes };
            return Err(Refusal::Limit { limit, what });
        }
        Ok(())
    }

    /// Number of files, directories and links so far.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Bytes of file contents so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn check_path(name: &[u8]) -> Result<(), Refusal> {
    let refused = |limit, what| {
        let path = String::from_utf8_lossy(name.get(..SHOWN).unwrap_or(name)).into_owned();
        Err(Refusal::Path { path, limit, what })
    };
    if name.len() > MAX_PATH_BYTES {
        return refused(MAX_PATH_BYTES, "bytes");
    }
    let components = name.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    if components.count() > MAX_DEPTH {
        return refused(MAX_DEPTH, "components");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: UnpackLimits = UnpackLimits { bytes: 10, files: 3, is_volume: false };

    fn file(size: u64) -> Entry {
        Entry { name: b"f".to_vec(), kind: EntryKind::File { size }, mode: 0, link: Vec::new() }
    }

    fn named(name: &str) -> Result<(), Refusal> {
        EntryCounter::new(LIMITS).count(&Entry { name: name.into(), ..file(0) })
    }

    #[test]
    fn paths_beyond_the_limits_are_refused() {
        assert!(named(&"1".repeat(4095)).is_ok() && named(&"a//".repeat(255)).is_ok());
        let error = named(&"1".repeat(4096)).unwrap_err().to_string();
        assert!(error.contains("1: more than 4095 bytes: exclude the path with"), "{error}");
        let error = named(&"a/".repeat(256)).unwrap_err().to_string();
        assert!(error.contains("a/: more than 255 components: exclude the path with"), "{error}");
    }

    #[test]
    fn entries_beyond_the_limits_are_refused() {
        let mut counter = EntryCounter::new(LIMITS);
        assert!(counter.count(&file(10)).is_ok() && counter.count(&file(0)).is_ok());
        let error = counter.count(&file(1)).unwrap_err().to_string();
        assert!(error.contains("more than 10 bytes") && error.contains("--max-repository"));
        assert!(counter.count(&file(0)).unwrap_err().to_string().contains("more than 3 files"));
    }

    #[test]
    fn dropped_data_have_their_own_equal_limit() {
        let mut counter = EntryCounter::new(UnpackLimits { bytes: 2000, ..LIMITS });
        let other = |size| Entry { kind: EntryKind::Other { size }, ..file(0) };
        assert!(counter.count(&file(2000)).is_ok() && counter.count(&other(900)).is_ok());
        assert!(counter.count_dropped(76).is_ok(), "900 and 76 bytes, and two headers");
        assert!(counter.count_dropped(0).is_err());
        assert_eq!(counter.bytes(), 2000);
        assert_eq!(counter.files(), 2);
        let mut counter = EntryCounter::new(UnpackLimits { bytes: 2000, ..LIMITS });
        assert!(counter.skip(&file(1488)).is_ok());
        assert!(counter.skip(&file(0)).is_err(), "each takes a header");
        assert_eq!(counter.files(), 0);
    }

    #[test]
    fn huge_sizes_do_not_overflow() {
        let mut counter = EntryCounter::new(UnpackLimits { bytes: u64::MAX - 1, ..LIMITS });
        assert!(counter.count(&file(u64::MAX - 1)).is_ok());
        assert!(counter.count(&file(u64::MAX)).is_err());
    }
}
