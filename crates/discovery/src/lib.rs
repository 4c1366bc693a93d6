//! Decides from the names in an archive whether a plugin claims an application.
//!
//! Argo CD unpacks the repository and searches the file system for
//! `spec.discover.fileName` or `spec.discover.find.glob`. In this crate, the
//! entries build a [`FileIndex`] while the archive arrives, and the index gives
//! the file system's answer. It needs no directory and no process.
//!
//! Usage: fill a [`FileIndex`], resolve the request's path with
//! [`AppDirectory::resolve`], and call [`FileNamePattern::decide`] or
//! [`GlobPattern::decide`].
//!
//! Known and deliberate differences from Argo CD:
//!
//! - A pattern that can never be valid is refused when its definition is
//!   loaded. Argo CD reports it for each request, and only if the search
//!   reaches the invalid part.
//! - The application's path is literal. Argo CD joins it and the pattern, so
//!   `[` or `*` in a directory's name changes the pattern.
//! - `..` stays inside the repository. Above it nothing matches. Argo CD
//!   searches the parents of its work directory.
//! - `$NAME` as a component of a glob is refused. The server's variables contain
//!   credentials, and error texts would return them to the client.
//! - `\p{…}` in a class is refused, because it would need the Unicode tables.
//! - Work and memory are bounded: [`MatchCause::TooMuchWork`], [`IndexLimits`]
//!   and the length of a pattern.
//! - An application path that cannot be resolved is an error. Argo CD logs it
//!   and searches the directory in which the server was started.
//!
//! Read the modules in this order: `index` (the tree), `app_directory`,
//! `file_name`, `glob` (with `expression`, `program` and `walk`), then
//! `decision`.

#![forbid(unsafe_code)]

mod app_directory;
mod cursor;
mod decision;
mod file_name;
mod glob;
mod index;
mod invalid_pattern;
mod match_error;
mod relative_pattern;
mod rune;
mod steps;

pub use app_directory::{AppDirectory, AppDirectoryError};
pub use decision::{Decision, Explanation, ShownPath};
pub use file_name::FileNamePattern;
pub use glob::GlobPattern;
pub use index::{EntryError, FileIndex, IndexLimits, LookupError, MakeError};
pub use invalid_pattern::{InvalidPattern, PatternFault};
pub use match_error::{MatchCause, MatchError, PatternKind};
pub use steps::GoOn;
