//! The errors of a full volume.

use std::io::{self, ErrorKind};

/// True for the error of a volume, or of a quota, with no space left for bytes or files.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn a_quota_without_space_is_a_full_volume() {
        assert!([Errno::ENOSPC, Errno::EDQUOT].iter().all(|errno| is_full(&(*errno).into())));
        assert!(!is_full(&Errno::EFBIG.into()));
    }
}
