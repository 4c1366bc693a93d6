//! Reasons to refuse an entry of an archive.

use thiserror::Error;

use super::limits::UnpackLimit;

/// The reason why an entry, and with it the archive, is refused. The first
/// words are those of some version of Argo CD. Paths are relative to the repository.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// The name is outside of the root.
    #[error("illegal filepath in archive: {path}: it leads out of the repository")]
    Outside {
        /// The entry.
        path: String,
    },
    /// A link points outside of the repository.
    #[error(
        "illegal filepath in symlink: {target}: the link {path} leads out of the repository; fix \
         it, or exclude it with --plugin-tar-exclude on the repo-server"
    )]
    LinkOutside {
        /// The link.
        path: String,
        /// The link's target as in the archive.
        target: String,
    },
    /// A directory in a link's name is a link.
    #[error(
        "illegal symlink parent directory for {path}: a directory in this link's name is a link"
    )]
    LinkBelowLink {
        /// The link.
        path: String,
    },
    /// A link's target cannot be examined.
    #[error("error checking symlink \"{target}\" target: the link {path}: {cause}")]
    LinkTarget {
        /// The link.
        path: String,
        /// The link's target, relative to the root.
        target: String,
        /// The operating system's error.
        cause: String,
    },
    /// A link cannot be created.
    #[error("error creating symlink: symlink {target} {path}: {cause}")]
    Link {
        /// The link.
        path: String,
        /// The link's value.
        target: String,
        /// The operating system's error.
        cause: String,
    },
    /// A directory cannot be created.
    #[error("error creating nested folders: mkdir {path}: {cause}")]
    Directory {
        /// The directory.
        path: String,
        /// The operating system's error.
        cause: String,
    },
    /// A file cannot be created.
    #[error("error creating file \"{path}\": open {path}: {cause}")]
    File {
        /// The file.
        path: String,
        /// The operating system's error.
        cause: String,
    },
    /// A file cannot be written.
    #[error("error writing tgz file: write {path}: {cause}")]
    Contents {
        /// The file.
        path: String,
        /// The operating system's error.
        cause: String,
    },
    /// The names and links exceed a limit that has no flag.
    #[error("{cause}: exclude files with --plugin-tar-exclude on the repo-server")]
    Names {
        /// The limit that is exceeded.
        cause: String,
    },
    /// A path is too long or too deep.
    #[error(
        "{path}: more than {limit} {what}: exclude the path with --plugin-tar-exclude on the \
         repo-server"
    )]
    Path {
        /// Start of the path.
        path: String,
        /// The limit.
        limit: usize,
        /// Unit of the limit.
        what: &'static str,
    },
    /// The archive exceeds a limit.
    #[error(
        "the archive holds more than {}: {}, or exclude files with --plugin-tar-exclude on the \
         repo-server",
        what.amount(*limit), what.remedy()
    )]
    Limit {
        /// The limit.
        limit: u64,
        /// The kind of limit.
        what: UnpackLimit,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_has_kubernetes_unit_and_the_remedy_of_its_origin() {
        let text = |limit, what| Refusal::Limit { limit, what }.to_string();
        let bytes = text(8 << 20, UnpackLimit::Bytes);
        let start = "the archive holds more than 8Mi of files: raise --max-repository, or exclude";
        assert!(bytes.starts_with(start) && !bytes.contains("sizeLimit"), "{bytes}");
        let volume = text(8 << 20, UnpackLimit::Volume);
        let start =
            "the archive holds more than 8Mi of files: the work directory's volume had no more";
        assert!(volume.starts_with(start) && volume.contains("raise its sizeLimit"), "{volume}");
        assert!(volume.contains("restart the container if the volume has more"), "{volume}");
        assert!(!volume.contains("--max-repository"), "{volume}");
        let odd = text(1001, UnpackLimit::Bytes);
        assert!(odd.starts_with("the archive holds more than 1001 bytes: "), "{odd}");
        let files = text(10, UnpackLimit::Files);
        let start =
            "the archive holds more than 10 files: raise --max-repository-files, or exclude";
        assert!(files.starts_with(start) && !files.contains("sizeLimit"), "{files}");
    }
}
