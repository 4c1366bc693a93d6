//! Waits before a worker writes to the last part of a volume in memory.
//!
//! An archive of zeros becomes a thousand times as large, so the supervisor cannot tell by
//! the bytes that it sends how much the worker is about to write.

use std::{
    os::fd::{AsFd, BorrowedFd},
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock, fstatvfs};

use crate::wire::{
    file_memory::memory_of_files,
    last_part::{AlmostFull, LastPart, Marks},
};

/// Bytes to write between two looks at the volume.
const STRIDE: u64 = 256 << 10;

/// Pause between two looks while the worker waits.
const PAUSE: Duration = Duration::from_millis(50);

/// Time before the deadline at which a wait ends, so that the request has its reason.
const REPORT: Duration = Duration::from_millis(250);

/// The space of the volume, as a request sees it that writes files.
#[derive(Debug)]
pub(super) struct SpaceWatch<'w> {
    /// A directory of the volume.
    place: BorrowedFd<'w>,
    /// `None` if the volume is not in memory.
    last_part: Option<LastPart>,
    has_turn: bool,
    began: Instant,
    /// Bytes that the request has written, or is about to.
    written: u64,
    /// Bytes since the last look.
    unseen: u64,
}

impl<'w> SpaceWatch<'w> {
    pub(super) fn new(place: BorrowedFd<'w>, last_part: Option<LastPart>) -> Self {
        let (has_turn, began) = (false, Instant::now());
        Self { place, last_part, has_turn, began, written: 0, unseen: 0 }
    }

    /// Waits, if need be, before so many bytes are written.
    pub(super) fn write(&mut self, bytes: u64) -> Result<(), AlmostFull> {
        self.written += bytes;
        self.unseen += bytes;
        if self.unseen < STRIDE {
            return Ok(());
        }
        self.unseen = 0;
        self.last_part.clone().map_or(Ok(()), |last_part| self.go_on(&last_part))
    }

    fn go_on(&mut self, LastPart { marks, turn }: &LastPart) -> Result<(), AlmostFull> {
        let Marks { memory, mark, least, wait_ms, left_ms } = *marks;
        let latest = Instant::now() + Duration::from_millis(wait_ms);
        let left = left_ms.and_then(|left| Duration::from_millis(left).checked_sub(REPORT));
        let end = left_ms.map(|_limited| self.began + left.unwrap_or_default());
        let latest = end.map_or(latest, |end| latest.min(end));
        loop {
            let free = self.free(memory);
            if free >= mark || free >= least && self.takes_turn(turn) {
                return Ok(());
            }
            if self.has_turn || Instant::now() + PAUSE >= latest {
                return Err(AlmostFull { used_up: self.has_turn.then_some(self.written) });
            }
            sleep(PAUSE);
        }
    }

    /// Bytes that files may still take. A volume that does not tell has no limit.
    fn free(&self, memory: u64) -> u64 {
        let Ok(about) = fstatvfs(self.place) else { return u64::MAX };
        let used = about.f_blocks.saturating_sub(about.f_bavail).saturating_mul(about.f_frsize);
        let files = about.f_files.saturating_sub(about.f_favail);
        let free = about.f_bavail.saturating_mul(about.f_frsize);
        free.min(memory.saturating_sub(memory_of_files(used, files)))
    }

    /// True if this request has the turn, which it keeps.
    fn takes_turn(&mut self, turn: impl AsFd) -> bool {
        let lock = || flock(turn, FlockOperation::NonBlockingLockExclusive).is_ok();
        self.has_turn = self.has_turn || lock();
        self.has_turn
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, sync::Arc, thread::scope};

    use tempfile::TempDir;

    use super::*;
    use crate::skip::soon;

    /// Every volume has less free.
    const NEAR: Marks =
        Marks { memory: u64::MAX, mark: u64::MAX, least: 0, wait_ms: 300, left_ms: None };

    /// It was not this request's turn.
    const WAITED: AlmostFull = AlmostFull { used_up: None };

    struct Place {
        directory: TempDir,
        opened: File,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            File::create(directory.path().join("turn")).unwrap();
            let opened = File::open(directory.path()).unwrap();
            Self { directory, opened }
        }

        /// With an open file description of its own.
        fn last_part(&self, marks: Marks) -> LastPart {
            let turn = File::open(self.directory.path().join("turn")).unwrap();
            LastPart { marks, turn: Arc::new(turn.into()) }
        }

        fn watch(&self, marks: Marks) -> SpaceWatch<'_> {
            SpaceWatch::new(self.opened.as_fd(), Some(self.last_part(marks)))
        }
    }

    #[test]
    fn the_last_part_is_for_one_request_until_its_last_descriptor_is_closed() {
        let place = Place::new();
        let supervisors = place.last_part(NEAR);
        let mut first = SpaceWatch::new(place.opened.as_fd(), Some(supervisors.clone()));
        let mut second = place.watch(NEAR);
        assert_eq!([first.write(STRIDE), first.write(STRIDE)], [Ok(()), Ok(())]);
        assert_eq!(second.write(STRIDE), Err(WAITED));
        drop(first);
        assert_eq!(second.write(STRIDE), Err(WAITED), "the request has not ended");
        drop(supervisors);
        assert!(soon(|| second.write(STRIDE) == Ok(())));
    }

    #[test]
    fn a_worker_goes_on_as_soon_as_it_is_its_turn() {
        let place = Place::new();
        let patient = Marks { wait_ms: 60_000, ..NEAR };
        let mut first = place.watch(NEAR);
        first.write(STRIDE).unwrap();
        let mut second = place.watch(patient);
        scope(|scope| {
            let waiting = scope.spawn(move || second.write(STRIDE));
            sleep(4 * PAUSE);
            assert!(!waiting.is_finished());
            drop(first);
            assert_eq!(waiting.join().unwrap(), Ok(()));
        });
    }

    /// Another request has the turn.
    fn take_turn(place: &Place) -> SpaceWatch<'_> {
        let mut other = place.watch(NEAR);
        other.write(STRIDE).unwrap();
        other
    }

    #[test]
    fn a_worker_looks_at_the_space_before_it_writes_much() {
        let place = Place::new();
        let _other = take_turn(&place);
        let looks = |marks| {
            let mut watch = place.watch(marks);
            [watch.write(STRIDE - 1), watch.write(1), watch.write(STRIDE - 1)]
        };
        assert_eq!(looks(NEAR), [Ok(()), Err(WAITED), Ok(())]);
        assert_eq!(looks(Marks { mark: 0, ..NEAR }), [Ok(()), Ok(()), Ok(())]);
        // Files may take less memory than the volume has.
        let short = Marks { memory: 1, mark: 2, ..NEAR };
        assert_eq!(looks(short)[1], Err(WAITED));
    }

    #[test]
    fn a_wait_ends_before_the_deadline() {
        let place = Place::new();
        let _other = take_turn(&place);
        let mut watch = place.watch(Marks { wait_ms: 60_000, left_ms: Some(500), ..NEAR });
        assert_eq!(watch.write(STRIDE), Err(WAITED));
        assert!(watch.began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn the_request_with_the_turn_leaves_the_least_to_others_and_says_what_it_took() {
        let place = Place::new();
        let mut watch = place.watch(NEAR);
        watch.write(STRIDE).unwrap();
        let none_left = Marks { least: u64::MAX, wait_ms: 60_000, ..NEAR };
        watch.last_part = Some(place.last_part(none_left));
        assert_eq!(watch.write(STRIDE), Err(AlmostFull { used_up: Some(2 * STRIDE) }));
        assert!(watch.began.elapsed() < Duration::from_secs(30), "it waited for itself");
    }
}
