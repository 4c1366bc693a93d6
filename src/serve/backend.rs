//! The parts that serve requests, made from the flags.

use std::sync::Arc;

use cmp_archive::UnpackLimits;
use cmp_sandbox::{Link, Redactor};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    budget::Budget,
    config::{self, Serve},
    container::OomCounter,
    grpc::{Backend, Drains, OpenCalls, Recorders, Room, encode_announcements, relay},
    metrics::Metrics,
    request::{
        ArchiveLimits, ArchiveShare, CommandDefaults, Converter, CredentialHelper, Fingerprints,
        IndexResources, KeptArchives, MatchCache, Pipeline, Reach, admission::Admission,
    },
    volume::{FileThread, WorkVolume},
};

/// The parts behind the services of all plugins.
pub(super) fn backend(
    config: &Serve,
    pipeline: Pipeline,
    recorders: Recorders,
    metrics: Metrics,
) -> Backend {
    let connections = pipeline.budget.borrow().connections.clone();
    let open_calls = OpenCalls::new(pipeline.budget.clone());
    Backend {
        calls: pipeline.defaults.calls.clone(),
        answers: TaskTracker::new(),
        archive_share: pipeline.kept.share(),
        pipeline,
        max_message: config.max_message(),
        drains: Drains::default(),
        stream_timeout: config.stream_timeout.0,
        room: Room::new(&connections, metrics.clone()),
        open_calls,
        metrics,
        recorders,
        connections: TaskTracker::new(),
        cut_off: CancellationToken::new(),
    }
}

/// The steps of requests, and what they share.
pub(super) fn pipeline(
    config: &Serve,
    reach: Arc<Reach>,
    link: Link,
    budget: watch::Receiver<Budget>,
) -> Pipeline {
    let inherited = config::inherited();
    let now = budget.borrow().clone();
    let size = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    let converter = Converter::new(budget.clone(), config.max_message(), encode_announcements);
    let volume = WorkVolume::new(config.work_dir()).within(budget.clone());
    let (admission, indexes) = (Admission::new(budget.clone()), IndexResources::default());
    let share = ArchiveShare::new(budget.clone(), admission.clone());
    let tier = link.tier();
    Pipeline {
        kept: KeptArchives::new(share, &indexes, tier.has_own_uids()),
        link,
        own: admission.lanes(),
        admission,
        budget: budget.clone(),
        cache: MatchCache::default(),
        fingerprints: Fingerprints::default(),
        indexes,
        converter,
        volume: volume.clone(),
        files: FileThread::new(),
        limits: ArchiveLimits {
            archive: config.max_archive,
            unpacked: UnpackLimits {
                bytes: size(now.each.repository.amount),
                files: size(now.each.repository_files.amount),
                is_volume: config.max_repository.is_none()
                    && now.each.repository.amount == Some(now.disk.amount),
            },
        },
        defaults: Arc::new(CommandDefaults {
            redactor: Redactor::default().with(inherited.iter().map(AsRef::as_ref)),
            inherited,
            search: config::search(),
            max_output: usize::try_from(size(now.each.output.amount)).unwrap_or(usize::MAX),
            timeout: config.exec_timeout(),
            bounds: config.bounds(),
            tier,
            reach,
            named: FileThread::new(),
            volume,
            calls: TaskTracker::new(),
            budget,
            oom: OomCounter::find(),
            helper: CredentialHelper { program: config::program(), relay },
        }),
    }
}
