//! Whether a plugin claims an application, and answers that need no second look.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use cmp_discovery::{
    AppDirectory, AppDirectoryError, FileIndex, FileNamePattern, GlobPattern, MatchError,
    PatternKind, ShownPath,
};
use lru::LruCache;
use thiserror::Error;

use super::incoming::Header;
use crate::plugin::Discovery;

/// Answers that are kept: one for each of ten plugins and a hundred
/// applications. With the longest questions they take 5 MB.
const MAX_ANSWERS: NonZeroUsize = NonZeroUsize::new(1000).unwrap();

/// Longest directory of a question that is kept, in bytes.
const MAX_DIRECTORY: usize = 1024;

/// Bytes of a checksum as clients state it: SHA-256 in hex.
const CHECKSUM: usize = 64;

/// Whether a plugin claims an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// It does.
    pub supported: bool,
    /// It has a way of deciding at all.
    pub discovery: bool,
}

impl Verdict {
    /// The plugin is only asked by name.
    pub(super) const NO_DISCOVERY: Self = Self { supported: false, discovery: false };

    pub(super) const fn of(supported: bool) -> Self {
        Self { supported, discovery: true }
    }
}

/// A pattern that decides by names alone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pattern<'d> {
    FileName(&'d FileNamePattern),
    Glob(&'d GlobPattern),
}

impl<'d> Pattern<'d> {
    /// The pattern of a definition; `None` if it asks otherwise.
    pub(super) fn of(discovery: &'d Discovery) -> Option<Self> {
        match discovery {
            Discovery::FileName(pattern) => Some(Self::FileName(pattern)),
            Discovery::Glob(pattern) => Some(Self::Glob(pattern)),
            Discovery::Command(_) => None,
        }
    }

    /// All that a pattern is made of.
    fn source(self) -> (PatternKind, &'d str) {
        match self {
            Self::FileName(pattern) => (PatternKind::FileName, pattern.as_str()),
            Self::Glob(pattern) => (PatternKind::Glob, pattern.as_str()),
        }
    }
}

/// The names of an archive that arrived whole, and where the application is.
#[derive(Debug)]
pub struct Surveyed {
    names: FileIndex,
    directory: Bytes,
}

/// Why there is no verdict.
#[derive(Debug, Error)]
pub enum Undecided {
    /// The application's directory has no meaning. Argo CD would search where
    /// its server was started.
    #[error("{directory}: {error}")]
    Directory {
        /// As the client states it, printable.
        directory: ShownPath,
        /// Why it has none.
        error: AppDirectoryError,
    },
    /// The pattern has no answer. Argo CD's text.
    #[error(transparent)]
    Pattern(#[from] MatchError),
}

impl Surveyed {
    pub(super) fn new(names: FileIndex, directory: Bytes) -> Self {
        Self { names, directory }
    }

    /// What `pattern` says of the application, and why.
    pub(super) fn decide(&self, pattern: Pattern<'_>) -> Result<(Verdict, String), Undecided> {
        let application = AppDirectory::resolve(&self.names, &self.directory).map_err(|error| {
            Undecided::Directory { directory: ShownPath::new(&self.directory), error }
        })?;
        let verdict = match pattern {
            Pattern::FileName(pattern) => pattern.decide(&self.names, &application)?,
            Pattern::Glob(pattern) => pattern.decide(&self.names, &application)?,
        };
        let reason = verdict.explain(&self.names, &application).to_string();
        Ok((Verdict::of(verdict.is_match()), reason))
    }
}

/// Everything that decides a verdict.
///
/// The archive is in it by its checksum, and an answer is only given to who has
/// sent all of that archive: nobody learns of an archive that is not theirs,
/// and nobody can put an answer under the checksum of another's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    checksum: Bytes,
    directory: Bytes,
    kind: PatternKind,
    pattern: Box<str>,
}

impl Question {
    /// `None` if the answer is not worth keeping, or the checksum cannot be right.
    pub(super) fn new(header: &Header, pattern: Pattern<'_>) -> Option<Self> {
        let kept = header.checksum.len() == CHECKSUM && header.directory.len() <= MAX_DIRECTORY;
        let (kind, pattern) = pattern.source();
        // Copied: what arrived is part of a larger message.
        kept.then(|| Self {
            checksum: Bytes::copy_from_slice(&header.checksum),
            directory: Bytes::copy_from_slice(&header.directory),
            kind,
            pattern: pattern.into(),
        })
    }
}

/// Verdicts of late, the least asked for gone first. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Verdicts(Arc<Mutex<LruCache<Question, Verdict>>>);

impl Default for Verdicts {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(LruCache::new(MAX_ANSWERS))))
    }
}

impl Verdicts {
    pub(super) fn get(&self, question: &Question) -> Option<Verdict> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(question).copied()
    }

    pub(super) fn keep(&self, question: Question, verdict: Verdict) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.put(question, verdict);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(checksum: &str, directory: &str, pattern: &str) -> Option<Question> {
        let header = Header {
            checksum: Bytes::copy_from_slice(checksum.as_bytes()),
            directory: Bytes::copy_from_slice(directory.as_bytes()),
            ..Header::default()
        };
        Question::new(&header, Pattern::FileName(&FileNamePattern::new(pattern).unwrap()))
    }

    #[test]
    fn an_answer_is_for_the_same_archive_directory_and_pattern_only() {
        let (one, other) = ("1".repeat(64), "2".repeat(64));
        let verdicts = Verdicts::default();
        verdicts.keep(question(&one, "app", "x").unwrap(), Verdict::of(true));
        assert_eq!(verdicts.get(&question(&one, "app", "x").unwrap()), Some(Verdict::of(true)));
        for (checksum, directory, pattern) in
            [(&other, "app", "x"), (&one, "app2", "x"), (&one, "app", "y")]
        {
            let question = question(checksum, directory, pattern).unwrap();
            assert_eq!(verdicts.get(&question), None, "{question:?}");
        }
    }

    #[test]
    fn what_is_asked_for_least_goes_first() {
        let verdicts = Verdicts::default();
        let numbered = |number| question(&format!("{number:064}"), "", "x").unwrap();
        for number in 0..=MAX_ANSWERS.get() {
            verdicts.keep(numbered(number), Verdict::of(true));
            verdicts.get(&numbered(0));
        }
        assert!(verdicts.get(&numbered(0)).is_some());
        assert_eq!(verdicts.get(&numbered(1)), None);
    }

    #[test]
    fn long_questions_are_not_kept() {
        assert_eq!(question(&"1".repeat(64), &"d".repeat(MAX_DIRECTORY + 1), "x"), None);
        assert_eq!(question("", "", "x"), None);
    }
}
