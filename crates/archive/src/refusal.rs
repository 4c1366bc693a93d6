//! Why an entry of an archive is not taken.

use thiserror::Error;

/// An entry that is refused, and with it the archive. The beginnings are Argo
/// CD's; paths are relative to the repository, where Argo CD's are those of a
/// directory that is gone by the time anybody reads them.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// The name is not strictly below the root.
    #[error("illegal filepath in archive: {path}: it leads out of the repository")]
    Outside {
        /// The entry.
        path: String,
    },
    /// A link leads out, or to the root itself.
    #[error(
        "illegal filepath in symlink: {target}: the link {path} leads out of the repository, or to \
         its root; fix it, or exclude it with --plugin-tar-exclude on the repo-server"
    )]
    LinkOutside {
        /// The link.
        path: String,
        /// Where it leads, as it stands.
        target: String,
    },
    /// A link's target is there, but cannot be resolved.
    #[error("error checking symlink realpath: {path}: {cause}")]
    LinkTarget {
        /// The link.
        path: String,
        /// Why not.
        cause: String,
    },
    /// A link cannot be made.
    #[error("error creating symlink: symlink {target} {path}: {cause}")]
    Link {
        /// The link.
        path: String,
        /// What it would hold.
        target: String,
        /// Why not.
        cause: String,
    },
    /// A directory cannot be made.
    #[error("error creating nested folders: mkdir {path}: {cause}")]
    Directory {
        /// The directory.
        path: String,
        /// Why not.
        cause: String,
    },
    /// A file cannot be made.
    #[error("error creating file \"{path}\": open {path}: {cause}")]
    File {
        /// The file.
        path: String,
        /// Why not.
        cause: String,
    },
    /// A file cannot be written.
    #[error("error writing tgz file: write {path}: {cause}")]
    Contents {
        /// The file.
        path: String,
        /// Why not.
        cause: String,
    },
    /// Its names and links are more than may be looked at, whatever is raised.
    #[error("{cause}: exclude files with --plugin-tar-exclude on the repo-server")]
    Names {
        /// Of what there is too much.
        cause: String,
    },
    /// A path is too much for one.
    #[error(
        "{path}: more than {limit} {what}: raise {flag}, or exclude the path with \
         --plugin-tar-exclude on the repo-server"
    )]
    Path {
        /// The beginning of the path.
        path: String,
        /// How much may be.
        limit: u32,
        /// Of what.
        what: &'static str,
        /// What to raise.
        flag: &'static str,
    },
    /// There is more than may be.
    #[error(
        "the archive holds more than {limit} {what}: raise {flag}, or exclude files with \
         --plugin-tar-exclude on the repo-server"
    )]
    Limit {
        /// How much may be.
        limit: u64,
        /// Of what.
        what: &'static str,
        /// What to raise.
        flag: &'static str,
    },
}
