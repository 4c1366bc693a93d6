//! A request that is still arriving: its header, and then its archive.

use std::{pin::pin, sync::Arc};

use bytes::Bytes;
use cmp_archive::{Selection, UnpackLimits};
use cmp_sandbox::Unpack;

use super::{
    admission::{Ask, Class},
    checkout::{Arrival, Checkout},
    checksum::{ChecksumReader, Discard, PieceSink},
    discovery::IndexedArchive,
    files::{KeepingSink, VolumeSink},
    fingerprint::Fingerprints,
    header::RequestHeader,
    index::{IndexResources, NameIndexer},
    kept::{KeptArchives, Maker, Repository, Unseen, Way},
    progress::RequestContext,
    receive_error::{BrokenStream, ReceiveError},
    received::Received,
};
use crate::{
    budget::WINDOW,
    plugin::{PluginDefinition, PluginName},
    volume::WorkVolume,
};

/// The source of an archive's chunks.
pub trait ChunkStream: Send {
    /// The next chunk, `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, BrokenStream>> + Send;

    /// Bytes that it holds before it is asked for a chunk.
    fn held(&self) -> u64 {
        0
    }
}

/// A request whose header has been read, and whose archive has not.
#[derive(Debug)]
pub struct Incoming<'c, C> {
    /// The client's description of the request.
    pub header: RequestHeader,
    chunks: &'c mut C,
    known: Fingerprints,
    limits: ArchiveLimits,
}

/// Limits for an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Size of the compressed archive in bytes.
    pub archive: u64,
    /// Limits for the unpacked repository.
    pub unpacked: UnpackLimits,
}

/// The places for the files of an archive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destination<'p> {
    pub(super) repository: &'p Repository,
    /// The volume of the workspace.
    pub(super) volume: &'p WorkVolume,
    /// Archives that several requests send.
    pub(super) kept: &'p KeptArchives,
}

impl<'c, C: ChunkStream> Incoming<'c, C> {
    /// Creates a request from its header. `known` are archives of earlier requests.
    pub fn new(
        header: RequestHeader,
        chunks: &'c mut C,
        known: Fingerprints,
        limits: ArchiveLimits,
    ) -> Self {
        Self { header, chunks, known, limits }
    }

    /// The question for a place.
    pub(super) fn ask<'a>(&self, class: Class, plugin: &'a PluginName) -> Ask<'a> {
        Ask { class, plugin, unread: self.unread(), held: self.held() }
    }

    /// Bytes of the archive that are expected. The client may state any number.
    pub(super) fn unread(&self) -> u64 {
        self.header.size.min(self.limits.archive)
    }

    /// Bytes that the request holds while it waits, beyond the window that each one has.
    pub(super) fn held(&self) -> u64 {
        (self.header.bytes() + self.chunks.held()).saturating_sub(WINDOW.into())
    }

    /// Unpacks the archive while it arrives, then verifies its checksum. The worker may
    /// still unpack the last of it. An archive whose files are there already is only
    /// verified.
    pub(super) async fn receive(
        mut self,
        mut checkout: Checkout,
        destination: Destination<'_>,
        context: &mut RequestContext,
    ) -> Result<Received, ReceiveError> {
        let Destination { repository, volume, kept } = destination;
        context.begin_to_receive();
        if let Repository::Shared(files) = repository {
            self.pass_on(Discard, context).await?;
            context.progress.unpacked = Some(files.unpacked().clone());
            context.progress.is_repository_shared = true;
            checkout.repository = Some(Arc::clone(files));
            return Ok(Received::new(self.header, checkout));
        }
        let killed = checkout.defaults.oom.read();
        let way = kept.way(&self.header, repository);
        let deadline = &context.deadline;
        let last_part = deadline.limit(volume.last_part(deadline.instant())).await??;
        let unpack = Unpack {
            limits: self.limits.unpacked,
            preserve_file_mode: context.plugin.preserve_file_mode,
            include: context.plugin.workspace.include.clone(),
            application: self.header.directory.clone(),
            root: self.root(&context.plugin),
            is_decompressed: matches!(way, Way::Kept(_)),
            is_shared: matches!(repository, Repository::New(_)),
            last_part: last_part.clone(),
        };
        let unpacking = checkout.lease.unpack(unpack);
        let unpacking = context.deadline.limit(unpacking).await??;
        let files = VolumeSink::new(unpacking, volume, kept);
        let (files, unseen) = self.fill(files, way, context).await?;
        files.unpacking.complete();
        let (volume, kept) = (volume.clone(), kept.clone());
        let checksum = self.header.checksum.clone();
        let arrival = Arrival { unseen, killed, volume, kept, checksum };
        Ok(Received::new(self.header, Checkout { arrival: Some(arrival), last_part, ..checkout }))
    }

    /// The archive's root in the repository, which only patterns need.
    fn root(&self, plugin: &PluginDefinition) -> Bytes {
        if plugin.workspace.include.is_empty() { Bytes::new() } else { self.header.root() }
    }

    /// Passes the files on in one of the ways, those of a kept archive while the request
    /// sends it too. Returns what the worker does not see.
    async fn fill<'v>(
        &mut self,
        mut files: VolumeSink<'v>,
        way: Way,
        context: &mut RequestContext,
    ) -> Result<(VolumeSink<'v>, Unseen), ReceiveError> {
        match way {
            Way::Worker => Ok((self.pass_on(files, context).await?, Unseen::default())),
            Way::Keep(turn) => {
                let maker = Maker::begin(turn, self.limits.unpacked, context.deadline);
                let both = KeepingSink { files, maker };
                let KeepingSink { files, maker } = self.pass_on(both, context).await?;
                if let Some(maker) = maker {
                    maker.finish().await;
                }
                Ok((files, Unseen::default()))
            }
            Way::Kept(archive) => {
                let (directory, root) = (&self.header.directory, self.root(&context.plugin));
                let selection =
                    Selection::read(&context.plugin.workspace.include, directory, &root);
                let deadline = context.deadline;
                let writing = async {
                    let selection = selection.map_err(|e| ReceiveError::Archive(e.to_string()))?;
                    let needed =
                        Arc::clone(&archive).needed(selection, files.kept, &deadline).await?;
                    deadline.limit(files.send(&archive, &needed.parts)).await?;
                    Ok((files, needed.unseen))
                };
                self.verify_while(writing, context).await
            }
        }
    }

    /// Verifies the archive, and meanwhile does `work` that must not be used before. A
    /// wrong archive ends it.
    async fn verify_while<T>(
        &mut self,
        work: impl Future<Output = Result<T, ReceiveError>>,
        context: &mut RequestContext,
    ) -> Result<T, ReceiveError> {
        // Boxed: only a kept archive needs it, and the state of each request would be larger.
        let (mut work, mut verified) = (pin!(work), Box::pin(self.pass_on(Discard, context)));
        let done = tokio::select! {
            biased;
            verified = &mut verified => {
                verified?;
                return work.await;
            }
            done = &mut work => done,
        };
        verified.await?;
        done
    }

    /// Indexes the names in the archive; writes nothing to disk.
    pub(super) async fn index_names(
        mut self,
        resources: &IndexResources,
        context: &mut RequestContext,
    ) -> Result<IndexedArchive, ReceiveError> {
        context.begin_to_receive();
        let indexer = NameIndexer::new(self.limits.unpacked, resources, context.deadline);
        let indexer = self.pass_on(indexer, context).await?;
        Ok(IndexedArchive::new(indexer.finish().await?, self.header.directory))
    }

    /// Reads the archive only to verify its checksum.
    pub(super) async fn verify(mut self, context: &mut RequestContext) -> Result<(), ReceiveError> {
        context.begin_to_receive();
        self.pass_on(Discard, context).await.map(drop)
    }

    /// Passes the archive on while it arrives, then verifies its checksum.
    ///
    /// The stream is read to its end even if the archive is invalid: a client that
    /// is still sending would never see the answer.
    async fn pass_on<T: PieceSink>(
        &mut self,
        taker: T,
        context: &mut RequestContext,
    ) -> Result<T, ReceiveError> {
        let RequestContext { deadline, progress, .. } = context;
        let mut reader = ChecksumReader::new(taker, &self.header, &self.known);
        while let Some(chunk) = deadline.limit(self.chunks.next()).await?? {
            progress.received += chunk.len() as u64;
            if let Some(evidence) = &mut progress.evidence {
                evidence.archive.push(&chunk);
            }
            if progress.received <= self.limits.archive {
                deadline.limit(reader.push(&chunk)).await?;
            }
        }
        if let Some(evidence) = &mut progress.evidence {
            evidence.archive.complete();
        }
        if progress.received > self.limits.archive {
            return Err(ReceiveError::Large { limit: self.limits.archive });
        }
        Ok(deadline.limit(reader.verify(&self.header.checksum, &self.known)).await??)
    }
}

#[cfg(test)]
mod tests;
