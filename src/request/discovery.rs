//! Whether a plugin claims an application, decided from the names in the archive.
//!
//! Argo CD unpacks the repository and then asks the file system for
//! `spec.discover.fileName` or `spec.discover.find.glob`. Here the entries
//! build a [`FileIndex`] while they stream by, and the index answers as that file
//! system would: no directory, no process.

mod app_directory;
mod index;
mod lexical;

pub use app_directory::{AppDirectory, AppDirectoryError};
pub use index::{EntryError, FileIndex, IndexLimits, LookupError, MakeError};
