//! Files of the image with which the HOME of each request begins.

use std::path::PathBuf;

/// The image's files for HOME directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skeleton {
    /// HOME directories of the image.
    pub homes: Vec<PathBuf>,
    /// Files and directories that tools look up. Of several for one place, the
    /// first that exists counts.
    pub parts: Vec<HomePart>,
}

/// A file or directory of the image, and its place in the HOME of each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomePart {
    /// The path in the image.
    pub source: PathBuf,
    /// The path in HOME. If it is empty, the source only becomes readable.
    pub target: PathBuf,
    /// Levels of directories to create anew, in which tools can write. Deeper
    /// ones are links to the image.
    pub depth: u32,
    /// Make the source readable even if it is in `/home` or `/root`.
    pub opens: bool,
}
