//! Remedies for directories in which nothing can be created.

use std::io::{Error, ErrorKind};

use rustix::process::geteuid;

use super::full::is_full;

/// The remedy for a directory in which this process cannot create files. `flag` chooses another
/// directory.
#[must_use]
pub fn directory_remedy(error: &Error, flag: &str) -> String {
    let kind = error.kind();
    if kind == ErrorKind::InvalidFilename {
        return format!("choose a directory with a shorter path with {flag}");
    }
    if kind == ErrorKind::NotADirectory {
        return format!("choose a directory with {flag}");
    }
    if kind == ErrorKind::ReadOnlyFilesystem {
        return format!(
            "mount a volume there without `readOnly: true`, or choose another with {flag}; after \
             an I/O error, the kernel makes a volume read-only: look at the node's log and disk"
        );
    }
    if is_full(error) {
        return "its volume has no space or no inodes left: remove files from it, or raise its \
                sizeLimit"
            .to_owned();
    }
    format!("make the directory writable by UID {}, or choose another with {flag}", geteuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_for_a_directory_fits_its_error() {
        let remedy = |kind| directory_remedy(&Error::from(kind), "--work-dir");
        assert!(remedy(ErrorKind::PermissionDenied).starts_with("make the directory writable"));
        assert!(remedy(ErrorKind::InvalidFilename).contains("shorter path"));
        assert_eq!(remedy(ErrorKind::NotADirectory), "choose a directory with --work-dir");
        for full in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded] {
            assert!(remedy(full).contains("no inodes left: remove files"));
        }
        assert!(remedy(ErrorKind::ReadOnlyFilesystem).starts_with("mount a volume there without"));
    }
}
