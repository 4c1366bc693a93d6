//! How much an archive holds, and how much it may.

use super::{Entry, Kind, Refusal};

/// How much an archive may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of file contents.
    pub bytes: u64,
    /// Files, directories and links.
    pub files: u64,
    /// Bytes of a path.
    pub path_bytes: u32,
    /// Components of a path.
    pub depth: u32,
}

/// How much of a path that is too long is shown, in bytes.
const SHOWN: usize = 200;

/// Counts entries against limits. Sizes are counted when a header states them:
/// what would be too much is never written.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    limits: Limits,
    files: u64,
    bytes: u64,
    /// Bytes that are read and dropped; they may be as many again.
    dropped: u64,
}

/// What a header takes in an archive, in bytes.
const HEADER: u64 = 512;

impl Tally {
    /// Nothing counted yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, files: 0, bytes: 0, dropped: 0 }
    }

    /// Counts an entry, or refuses it as the one too many.
    pub fn count(&mut self, entry: &Entry) -> Result<(), Refusal> {
        self.files += 1;
        match entry.kind {
            Kind::File { size } => self.bytes = self.bytes.saturating_add(size),
            Kind::Other { size } => self.pass_over(size)?,
            Kind::Directory | Kind::Link => {}
        }
        self.imply(0)?;
        self.measure(self.bytes)?;
        self.check_path(&entry.name)
    }

    /// So many directories came of names alone; they count as files, too.
    pub fn imply(&self, directories: u64) -> Result<(), Refusal> {
        let limit = self.limits.files;
        if self.files.saturating_add(directories) > limit {
            return Err(Refusal::Limit { limit, what: "files", flag: "--max-files" });
        }
        Ok(())
    }

    /// Counts data that nobody keeps, and the header in front of them: reading
    /// them takes time, and a few compressed bytes may stand for any number.
    pub fn pass_over(&mut self, size: u64) -> Result<(), Refusal> {
        self.dropped = self.dropped.saturating_add(size).saturating_add(HEADER);
        self.measure(self.dropped)
    }

    fn measure(&self, bytes: u64) -> Result<(), Refusal> {
        let limit = self.limits.bytes;
        if bytes > limit {
            return Err(Refusal::Limit { limit, what: "bytes", flag: "--max-unpacked-bytes" });
        }
        Ok(())
    }

    fn check_path(&self, name: &[u8]) -> Result<(), Refusal> {
        let Limits { path_bytes, depth, .. } = self.limits;
        let refused = |limit, what, flag| {
            let path = String::from_utf8_lossy(name.get(..SHOWN).unwrap_or(name)).into_owned();
            Err(Refusal::Path { path, limit, what, flag })
        };
        if name.len() > path_bytes as usize {
            return refused(path_bytes, "bytes", "--max-path-bytes");
        }
        let components = name.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        if components.count() > depth as usize {
            return refused(depth, "components", "--max-depth");
        }
        Ok(())
    }

    /// Files, directories and links so far.
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { bytes: 10, files: 3, path_bytes: 8, depth: 3 };

    fn file(size: u64) -> Entry {
        Entry { name: b"f".to_vec(), kind: Kind::File { size }, mode: 0, link: Vec::new() }
    }

    fn named(name: &str) -> Result<(), Refusal> {
        Tally::new(LIMITS).count(&Entry { name: name.into(), ..file(0) })
    }

    #[test]
    fn paths_are_as_long_and_deep_as_the_limits_allow() {
        assert!(named("12345678").is_ok() && named("a/b//c/").is_ok());
        let error = named("123456789").unwrap_err().to_string();
        assert!(error.starts_with("123456789: more than 8 bytes: raise --max-path-bytes"));
        let error = named("a/b/c/d").unwrap_err().to_string();
        assert!(error.starts_with("a/b/c/d: more than 3 components: raise --max-depth"));
    }

    #[test]
    fn as_much_as_the_limit_is_taken_and_no_more() {
        let mut tally = Tally::new(LIMITS);
        assert!(tally.count(&file(10)).is_ok() && tally.count(&file(0)).is_ok());
        let error = tally.count(&file(1)).unwrap_err().to_string();
        assert!(error.contains("more than 10 bytes") && error.contains("--max-unpacked-bytes"));
        assert!(tally.count(&file(0)).unwrap_err().to_string().contains("more than 3 files"));
    }

    #[test]
    fn what_is_dropped_has_the_same_limit_to_itself() {
        let mut tally = Tally::new(Limits { bytes: 2000, ..LIMITS });
        let other = |size| Entry { kind: Kind::Other { size }, ..file(0) };
        assert!(tally.count(&file(2000)).is_ok() && tally.count(&other(900)).is_ok());
        assert!(tally.pass_over(76).is_ok(), "900 and 76 bytes, and two headers");
        assert!(tally.pass_over(0).is_err());
        assert_eq!(tally.bytes(), 2000);
    }

    #[test]
    fn a_lie_about_size_does_not_overflow() {
        let mut tally = Tally::new(Limits { bytes: u64::MAX - 1, ..LIMITS });
        assert!(tally.count(&file(u64::MAX - 1)).is_ok());
        assert!(tally.count(&file(u64::MAX)).is_err());
    }
}
