//! The paths of the command line: directories to look after, and warnings.

use std::{path::PathBuf, sync::Arc};

use cmp_sandbox::{Abilities, CACHES, WORKSPACES};
use tracing::warn;

use super::{
    Handles, NotServing,
    upkeep::{Directories, Upkeep},
};
use crate::{
    access::is_missing,
    config::Serve,
    loader::{Places, static_mounts},
    metrics::Metrics,
    request::Reach,
    volume::{FileThread, WorkVolume},
};

pub(super) fn directories(config: &Serve) -> Directories {
    let work = config.work_dir();
    let within = [WORKSPACES, CACHES].map(|name| work.join(name));
    let work = std::iter::once(work).chain(within).collect();
    Directories { plugins: config.plugins_dir.clone(), work }
}

pub(super) fn upkeep(
    config: &Serve,
    abilities: &Abilities,
    volume: WorkVolume,
    Handles { link, states, metrics }: Handles,
) -> Upkeep {
    let (directories, workspaces) = (directories(config), abilities.root.clone());
    Upkeep { directories, workspaces, volume, link, states, metrics }
}

/// Refuses paths of `--read` that would expose what no plugin may read. Requests refuse
/// those that do not answer in time.
pub(super) async fn refuse_exposing_paths(
    read: Vec<PathBuf>,
    reach: Arc<Reach>,
    files: &FileThread,
) -> Result<(), NotServing> {
    let exposing = files.run(move || reach.exposing(&read)).await.ok().flatten();
    exposing.map_or(Ok(()), |path| Err(NotServing::ExposingReadPath(path)))
}

/// Warns of paths of `--read` that do not exist, and of the first one that does not
/// answer. Each request checks again.
pub(super) async fn warn_of_missing_paths(read: Vec<PathBuf>, files: FileThread) {
    for path in read {
        let (shown, look) = (path.display().to_string(), move || is_missing(&path));
        match files.run(look).await {
            Ok(false) => {}
            Ok(true) => warn!(
                path = shown,
                "a path of --read does not exist: requests run without it until it exists"
            ),
            Err(error) => {
                warn!(path = shown, %error, "the paths of --read are closed until they answer");
                return;
            }
        }
    }
}

pub(super) fn warn_of_static_mounts(places: &Places, metrics: &Metrics) -> Vec<String> {
    let mounts = static_mounts(places).unwrap_or_else(|error| {
        warn!(%error, "cannot find out if definitions are mounted with subPath");
        Vec::new()
    });
    metrics.static_mount(!mounts.is_empty());
    for mount in &mounts {
        warn!(path = %mount.path.display(), "{mount}");
    }
    mounts.iter().map(ToString::to_string).collect()
}
