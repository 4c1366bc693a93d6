//! Sends an archive to a worker that unpacks it while it arrives.

use std::{
    io,
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
};

use bytes::Bytes;
use cmp_archive::UnpackLimits;
use thiserror::Error;

use super::{
    handle::{Unconfined, WorkerHandle, cannot},
    lease::Lease,
    output::Termination,
};
use crate::wire::{
    last_part::{AlmostFull, LastPart},
    plan::{Answer, Task, UnpackResult, UnpackTask},
};

/// The way to unpack an archive.
#[derive(Clone, Debug)]
pub struct Unpack {
    /// Limits of the archive as a whole, including what is left out.
    pub limits: UnpackLimits,
    /// Keep the permissions of files and directories.
    pub preserve_file_mode: bool,
    /// Patterns of the entries to unpack, as in [`cmp_archive::PathPattern`]; none
    /// for all.
    pub include: Vec<String>,
    /// The application's directory in the archive, which patterns are relative to.
    pub application: Bytes,
    /// The archive's root in the repository, which patterns that begin with `/` are
    /// relative to.
    pub root: Bytes,
    /// The caller has decompressed the archive. Never so because an archive says it.
    pub is_decompressed: bool,
    /// Other leases may read the files, once the lease is [shared](Lease::share).
    pub is_shared: bool,
    /// The last part of a volume in memory; `None` for another volume.
    pub last_part: Option<LastPart>,
}

impl Unpack {
    /// Unpacks everything, without its permissions.
    #[must_use]
    pub fn all(limits: UnpackLimits) -> Self {
        Self {
            limits,
            preserve_file_mode: false,
            include: Vec::new(),
            application: Bytes::new(),
            root: Bytes::new(),
            is_decompressed: false,
            is_shared: false,
            last_part: None,
        }
    }
}

/// Size of an unpacked archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Number of files, directories and links.
    pub files: u64,
    /// Bytes of file contents.
    pub bytes: u64,
    /// Entries of these that no pattern includes.
    pub left_out: u64,
    /// The first link that leads to nothing because of that, in words.
    pub dangling: Option<String>,
}

/// Reasons why an archive is not unpacked.
#[derive(Debug, Error)]
pub enum NotUnpacked {
    /// The archive is refused. The text is Argo CD's if Argo CD has one.
    #[error("{0}")]
    Refused(String),
    /// Too little of a volume in memory is free.
    #[error("the volume is almost full")]
    AlmostFull(AlmostFull),
    /// The worker was killed. The reason, if it is known, is
    /// [`Termination::LimitExceeded`].
    #[error("the worker was killed")]
    Killed(Option<Termination>),
    /// The sandbox failed.
    #[error(transparent)]
    Unconfined(#[from] Unconfined),
}

/// A worker that unpacks an archive. If this is dropped, the lease keeps the
/// files unpacked so far.
#[derive(Debug)]
pub struct Unpacking<'l> {
    lease: &'l mut Lease,
    worker: WorkerHandle,
}

impl Lease {
    /// Starts to unpack an archive into the lease's repository. Only possible
    /// once, and before any command.
    pub async fn unpack(&mut self, unpack: Unpack) -> Result<Unpacking<'_>, Unconfined> {
        let last_part = unpack.last_part.clone();
        let worker = self.take_worker();
        let mut worker =
            worker.ok_or_else(|| cannot("unpack an archive")("one is there already"))?;
        let plan = self.bounds().plan(Task::Unpack(unpack.into()));
        match last_part {
            Some(LastPart { turn, .. }) => worker.tell_with(&plan, turn.as_fd()).await,
            None => worker.tell(&plan).await,
        }
        Ok(Unpacking { lease: self, worker })
    }
}

impl From<Unpack> for UnpackTask {
    fn from(unpack: Unpack) -> Self {
        Self {
            preserve_file_mode: unpack.preserve_file_mode,
            max_bytes: unpack.limits.bytes,
            max_entries: unpack.limits.files,
            include: unpack.include,
            application: unpack.application,
            root: unpack.root,
            is_decompressed: unpack.is_decompressed,
            is_shared: unpack.is_shared,
            is_volume: unpack.limits.is_volume,
            last_part: unpack.last_part.map(|part| part.marks),
        }
    }
}

impl<'l> Unpacking<'l> {
    /// Sends a piece of the archive; waits for the worker to read. After an
    /// error, the worker reads no more, and [`Self::finish`] returns the
    /// reason.
    pub async fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.worker.pass_on(piece).await
    }

    /// Prepares for parts of files, which are longer than other pieces.
    pub fn expect_parts(&self) {
        self.worker.widen();
    }

    /// Sends a part of a file as the next piece of the archive, as [`Self::write`] does.
    pub async fn send(&mut self, file: BorrowedFd<'_>, part: Range<u64>) -> io::Result<()> {
        self.worker.send(file, part).await
    }

    /// Ends the archive. The worker may still unpack it: [`Lease::unpacked`] has the
    /// result.
    pub fn complete(mut self) -> &'l mut Lease {
        self.worker.complete();
        self.lease.keep_worker(self.worker);
        self.lease
    }

    /// Ends the archive and waits for the result.
    pub async fn finish(self) -> Result<Unpacked, NotUnpacked> {
        self.complete().unpacked().await
    }
}

impl Lease {
    /// Waits until the archive is unpacked, once it is complete.
    pub async fn unpacked(&mut self) -> Result<Unpacked, NotUnpacked> {
        let worker = self.take_worker();
        let mut worker = worker.ok_or_else(|| cannot("unpack an archive")("there is none"))?;
        let reply = worker.reply().await.map_err(cannot("receive a worker's reply"))?;
        match reply.map(|(answer, _)| answer) {
            Some(Answer::Unpacked(unpacked)) => {
                self.keep_worker(worker);
                let UnpackResult { entries: files, bytes, left_out, dangling } = unpacked;
                let dangling = Some(dangling).filter(|link| !link.is_empty());
                Ok(Unpacked { files, bytes, left_out, dangling })
            }
            Some(Answer::Refused(text)) => Err(NotUnpacked::Refused(text)),
            Some(Answer::AlmostFull(reason)) => Err(NotUnpacked::AlmostFull(reason)),
            Some(Answer::Failed(failed)) => Err(NotUnpacked::Unconfined(failed.into())),
            Some(
                Answer::Running(_)
                | Answer::Canaries(_)
                | Answer::Exited(_)
                | Answer::NotStarted(_)
                | Answer::Replaced(_)
                | Answer::Observed(_),
            )
            | None => Err(self.not_unpacked(worker.unexpected_end().await)),
        }
    }

    fn not_unpacked(&mut self, error: Unconfined) -> NotUnpacked {
        if error.is_killed() {
            // The spawner reports an exceeded limit before the end of the worker.
            NotUnpacked::Killed(self.limit_watch().reported())
        } else {
            NotUnpacked::Unconfined(error)
        }
    }
}
