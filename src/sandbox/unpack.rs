//! Having an archive unpacked while it arrives.

use std::io;

use thiserror::Error;
use tokio::io::AsyncWriteExt;

use super::{
    bounds::Bounds,
    job::{Job, Unconfined, cannot},
    lease::Lease,
    message::JobKind,
    plan::{Answer, Task, UnpackTask},
};
use crate::archive::Limits;

/// What came out of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Files, directories and links.
    pub files: u64,
    /// Bytes of file contents.
    pub bytes: u64,
}

/// Why an archive is not unpacked.
#[derive(Debug, Error)]
pub enum NotUnpacked {
    /// It is not acceptable; the text is Argo CD's where it has one.
    #[error("{0}")]
    Refused(String),
    /// The sandbox's fault.
    #[error(transparent)]
    Unconfined(#[from] Unconfined),
}

/// A worker that unpacks. Dropping it leaves what was unpacked to the lease.
#[derive(Debug)]
pub struct Unpacking {
    job: Job,
}

impl Lease {
    /// Starts to unpack an archive into the lease's repository.
    pub async fn unpack(
        &mut self,
        limits: Limits,
        preserve_file_mode: bool,
    ) -> Result<Unpacking, Unconfined> {
        let Limits { bytes, files, path_bytes, depth } = limits;
        let task = UnpackTask {
            preserve_file_mode,
            max_bytes: bytes,
            max_entries: files,
            max_path_bytes: path_bytes,
            max_depth: depth,
        };
        let (bounds, task) = (Bounds::default(), Task::Unpack(task));
        Ok(Unpacking { job: Job::start(self, JobKind::Unpack, &bounds, task).await? })
    }
}

impl Unpacking {
    /// Passes on a piece of the archive, as fast as it is unpacked. An error
    /// means that the worker reads no more; [`Self::finish`] says why.
    pub async fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.job.socket().write_all(piece).await
    }

    /// The archive is complete, or the worker reads no more of it.
    pub async fn finish(mut self) -> Result<Unpacked, NotUnpacked> {
        // If it fails, the worker has gone before; its reply is there to be read.
        let _ = self.job.socket().shutdown().await;
        let reply = self.job.reply().await.map_err(cannot("hear from a worker"))?;
        let result = match reply.map(|(answer, _)| answer) {
            Some(Answer::Unpacked(unpacked)) => {
                Ok(Unpacked { files: unpacked.entries, bytes: unpacked.bytes })
            }
            Some(Answer::Refused(text)) => Err(NotUnpacked::Refused(text)),
            Some(Answer::Failed(failed)) => Err(NotUnpacked::Unconfined(failed.into())),
            Some(Answer::Running(_) | Answer::Canaries(_) | Answer::Exited(_)) | None => {
                return Err(NotUnpacked::Unconfined(self.job.post_mortem().await));
            }
        };
        // The worker is gone before a command starts.
        let _ = self.job.ended().await;
        result
    }
}
