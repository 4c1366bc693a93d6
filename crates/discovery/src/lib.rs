//! Whether a plugin claims an application, decided from the names in the archive.
//!
//! Argo CD unpacks the repository and then asks the file system for
//! `spec.discover.fileName` or `spec.discover.find.glob`. Here the entries
//! build a [`FileIndex`] while they stream by, and the index answers as that file
//! system would: no directory, no process.
//!
//! Known differences, all of them on purpose:
//!
//! - A pattern that can never be right is refused when its definition is loaded.
//!   Argo CD finds out per request, and only where the broken part is reached.
//! - The application's path is literal. Argo CD joins it in front of the pattern,
//!   so that `[` or `*` in a directory's name changes what the pattern means.
//! - `..` climbs within the repository; above it nothing matches. Argo CD looks
//!   at whatever lies around its work directory.
//! - `$NAME` as a component of a glob is refused unless an environment is given
//!   ([`GlobPattern::with_environment`]): the server's variables hold credentials,
//!   and errors carry the path back to whoever asked.
//! - `\p{…}` in a class is refused: it would cost the tables of Unicode.
//! - Work and memory are bounded: [`MatchCause::TooMuchWork`], [`IndexLimits`] and
//!   the length of a pattern.
//! - A link made through a link to another directory is refused where it would
//!   leave the repository. Argo CD checks it against the directory of its name.
//! - An application path that cannot be resolved is an error. Argo CD logs it and
//!   searches the directory its server was started in.

#![forbid(unsafe_code)]

mod app_directory;
mod file_name;
mod glob;
mod index;
mod invalid_pattern;
mod lexical;
mod match_error;
mod rune;
mod steps;
mod verdict;

pub use app_directory::{AppDirectory, AppDirectoryError};
pub use file_name::FileNamePattern;
pub use glob::GlobPattern;
pub use index::{EntryError, FileIndex, IndexLimits, LookupError, MakeError};
pub use invalid_pattern::{InvalidPattern, PatternFault};
pub use match_error::{MatchCause, MatchError, PatternKind};
pub use verdict::{Explanation, Shown, Verdict};
