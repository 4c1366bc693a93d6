//! Whether a plugin claims an application, decided from the names in the archive.
//!
//! Argo CD unpacks the repository and then asks the file system for
//! `spec.discover.fileName` or `spec.discover.find.glob`. Here the entries
//! build a [`FileIndex`] while they stream by, and the index answers as that file
//! system would: no directory, no process.

mod app_directory;
mod file_name;
mod index;
mod invalid_pattern;
mod lexical;
mod match_error;
mod rune;
mod steps;
mod verdict;

pub use app_directory::{AppDirectory, AppDirectoryError};
pub use file_name::FileNamePattern;
pub use index::{EntryError, FileIndex, IndexLimits, LookupError, MakeError};
pub use invalid_pattern::{InvalidPattern, PatternFault};
pub use match_error::{MatchCause, MatchError, PatternKind};
pub use verdict::{Explanation, Shown, Verdict};
