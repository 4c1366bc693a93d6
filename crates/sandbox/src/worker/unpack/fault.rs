//! Errors of unpacking that are not the archive's fault.

use std::io;

use nix::errno::Errno;

use super::JobError;
use crate::{
    kernel::{file_size, full::is_full},
    wire::last_part::AlmostFull,
};

/// Errors of a broken volume, node or container.
const BROKEN: [Errno; 8] = [
    Errno::EIO,
    Errno::EROFS,
    Errno::ESTALE,
    Errno::EMFILE,
    Errno::ENFILE,
    Errno::ENOMEM,
    Errno::EFBIG,
    // No archive leads to a call that the kernel does not have.
    Errno::ENOSYS,
];
const AT_FAULT: &str = "the archive is not at fault: check the work volume and the node";

/// The volume has too little space, or fails.
#[derive(Clone, Copy, Debug)]
pub(super) enum Full {
    /// The remaining space is for other requests.
    Almost(AlmostFull),
    /// The error of the operating system.
    Entirely(Errno),
}

/// The archive is not at fault if the volume is full or fails.
pub(super) fn refused(error: impl std::error::Error, full: Option<Full>) -> JobError {
    match full {
        None => JobError::Refused(error.to_string()),
        Some(Full::Entirely(errno)) if !is_full(&errno.into()) => {
            let reason = file_size::reason(io::Error::from(errno).kind());
            let reason = reason.as_deref().unwrap_or(AT_FAULT);
            JobError::Full { text: format!("{error}: {reason}"), errno }
        }
        Some(Full::Almost(reason)) => JobError::AlmostFull(reason),
        Some(Full::Entirely(errno)) => JobError::Full { text: error.to_string(), errno },
    }
}

/// True for an error that the volume, the node or the container has.
pub(super) fn is_of_volume(errno: Errno) -> bool {
    is_full(&errno.into()) || BROKEN.contains(&errno)
}

#[cfg(test)]
mod tests {
    use cmp_archive::Refusal;

    use super::*;

    fn told(errno: Errno) -> (String, Errno) {
        let error = Refusal::Names { cause: "input/output error".to_owned() };
        match refused(error, Some(Full::Entirely(errno))) {
            JobError::Full { text, errno } => (text, errno),
            error @ (JobError::Step { .. }
            | JobError::Command(_)
            | JobError::Refused(_)
            | JobError::AlmostFull(_)) => panic!("{error:?}"),
        }
    }

    #[test]
    fn a_broken_volume_is_not_the_archives_fault() {
        let (text, errno) = told(Errno::EIO);
        assert!(errno == Errno::EIO && text.ends_with(AT_FAULT), "{text}");
        let (text, _) = told(Errno::ENOSPC);
        assert!(!text.contains(AT_FAULT), "{text}");
        let error = Refusal::Names { cause: "input/output error".to_owned() };
        assert!(matches!(refused(error, None), JobError::Refused(_)));
    }

    #[test]
    fn a_limit_of_file_sizes_is_not_the_archives_fault() {
        assert!(is_of_volume(Errno::EFBIG) && !is_of_volume(Errno::ENAMETOOLONG));
        // A file system can have a limit, too.
        let reason = file_size::reason(io::ErrorKind::FileTooLarge);
        assert!(told(Errno::EFBIG).0.ends_with(reason.as_deref().unwrap_or(AT_FAULT)));
    }
}
