//! Calls that each request needs, tried before the first one.
//!
//! The container's seccomp profile may refuse them, and a kernel in a sandbox may lack them.

use std::{io, path::Path};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, OpenHow, openat2},
};
use rustix::fs::{MemfdFlags, memfd_create};

use super::not_prepared::NotPrepared;
use crate::kernel::fork::check_closing;

/// Tries the calls that need no right to a file.
pub(super) fn try_calls() -> Result<(), NotPrepared> {
    check_closing().map_err(|error| refused(("close_range", "5.9"), error))?;
    let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC);
    let opened = openat2(AT_FDCWD, Path::new("/"), how);
    opened.map(drop).map_err(|errno: Errno| refused(("openat2", "5.6"), errno.into()))
}

/// Tries the call that requests on a work volume in memory need.
pub(super) fn try_file_in_memory() -> Result<(), NotPrepared> {
    let make = |flags| memfd_create("tried", MemfdFlags::CLOEXEC | flags);
    // Before Linux 6.3, NOEXEC_SEAL is unknown; later, it may be required.
    let created = make(MemfdFlags::NOEXEC_SEAL).or_else(|_older| make(MemfdFlags::empty()));
    created.map(drop).map_err(|errno| refused(("memfd_create", "3.17"), errno.into()))
}

/// The error of a call that the kernel has since this version.
fn refused((name, since): (&'static str, &'static str), error: io::Error) -> NotPrepared {
    NotPrepared::Call { name, since, error }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::kernel::filter;

    #[test]
    fn the_calls_are_available_here_and_a_refused_one_is_named() {
        try_calls().unwrap();
        try_file_in_memory().unwrap();
        let refused = thread::spawn(|| {
            // It refuses openat2(2), in this thread.
            filter::forbid_truncation().unwrap();
            try_calls().unwrap_err().tell().reason
        });
        let text = refused.join().unwrap();
        assert!(text.starts_with("openat2(2) fails: Function not implemented"), "{text}");
        assert!(text.contains("Linux 5.6 or later") && !text.contains("5.9"), "{text}");
        assert!(text.contains("seccomp profile that allows this call"), "{text}");
    }
}
