//! The file that gives requests turns to use the last space of a volume in memory.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::fs::{Mode, SealFlags, fchmod, fcntl_add_seals};
use thiserror::Error;

use super::memory::sealable;

/// A file that can be locked and not changed.
#[derive(Debug)]
pub(super) struct TurnFile(OwnedFd);

/// A request cannot take its turn to use the last space of the work volume. Without a turn it
/// could only wait until others end, and could fail although they have ended.
#[derive(Debug, Error)]
#[error(
    "cannot {step} the file for turns to use the last space of the work volume: {error}: {remedy}"
)]
pub struct NoTurn {
    step: &'static str,
    error: io::Error,
    remedy: &'static str,
}

impl TurnFile {
    pub(super) fn create() -> Result<Self, NoTurn> {
        let remedy = "if it is denied, allow memfd_create(2) in the container's seccomp profile";
        let failed = |error| NoTurn { step: "create", error, remedy };
        let file = sealable("turn").map_err(|error| failed(error.into()))?;
        let seals = SealFlags::GROW | SealFlags::SHRINK | SealFlags::WRITE | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(|error| failed(error.into()))?;
        Ok(Self(file))
    }

    /// A new open file description: a copy of the descriptor would be the same one.
    pub(super) fn open(&self) -> Result<OwnedFd, NoTurn> {
        let open = || {
            // Without separate UIDs, an archive that takes over its worker can change the mode.
            fchmod(&self.0, Mode::RUSR)?;
            Ok(File::open(format!("/proc/self/fd/{}", self.0.as_raw_fd()))?.into())
        };
        let remedy = "if too many files are open, raise RLIMIT_NOFILE of the container's runtime";
        open().map_err(|error| NoTurn { step: "open", error, remedy })
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::net::UnixStream, thread::sleep, time::Duration};

    use rustix::fs::{FlockOperation, flock, fstat};

    use super::*;

    #[test]
    fn one_request_at_a_time_has_the_turn() {
        let file = TurnFile::create().unwrap();
        let take = |turn: &OwnedFd| flock(turn, FlockOperation::NonBlockingLockExclusive).is_ok();
        let [first, second] = [(); 2].map(|()| file.open().unwrap());
        let workers = first.try_clone().unwrap();
        assert!(take(&first) && !take(&second));
        drop(first);
        assert!(!take(&second), "the worker of the first request still has it");
        drop(workers);
        // A child that another test has forked has it too, until it executes its program.
        let is_taken = (0..6000).any(|_| {
            let is_taken = take(&second);
            if !is_taken {
                sleep(Duration::from_millis(10));
            }
            is_taken
        });
        assert!(is_taken);
    }

    #[test]
    fn a_worker_cannot_spoil_the_file() {
        let file = TurnFile::create().unwrap();
        let turn = file.open().unwrap();
        // It can do this only if it has the supervisor's UID.
        fchmod(&turn, Mode::RUSR | Mode::WUSR).unwrap();
        let path = format!("/proc/self/fd/{}", turn.as_raw_fd());
        let opened = File::options().write(true).open(path);
        assert!(opened.and_then(|mut file| file.write(b"x")).is_err());
        fchmod(&turn, Mode::empty()).unwrap();
        let next = file.open().unwrap();
        assert_eq!(Mode::from_raw_mode(fstat(&next).unwrap().st_mode), Mode::RUSR);
    }

    #[test]
    fn a_request_that_cannot_have_a_turn_is_told_so() {
        // A socket can be opened by no path.
        let (socket, _other) = UnixStream::pair().unwrap();
        let error = TurnFile(socket.into()).open().unwrap_err().to_string();
        assert!(error.starts_with("cannot open the file for turns to use the last"), "{error}");
    }
}
