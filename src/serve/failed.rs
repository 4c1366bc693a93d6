//! The directory of failed requests.

use std::{fs, path::PathBuf};

use cmp_sandbox::Tier;

use super::{NotServing, parts::Parts, shutdown::LastTask};
use crate::{
    bundle::{Directory, Keeper, Keeping},
    config::Serve,
    evidence::DIRECTORY,
};

/// Creates the directory, if failed requests are to be kept and not every plugin could
/// read them. Call this before privileges are dropped.
pub(super) fn open(config: &Serve, tier: Tier) -> Result<Option<Directory>, NotServing> {
    match config.keep_failed as usize {
        0 => Ok(None),
        _ if tier == Tier::None => Err(NotServing::KeepFailedUnisolated),
        most => Ok(Some(Directory::create(path(config), most, config.run_as_uid)?)),
    }
}

/// Keeps failed requests in the directory. Without one, those of an earlier start are
/// removed: call this without privileges, and after the work directory is locked.
pub(super) fn keeper(config: &Serve, directory: Option<Directory>) -> (Keeper, Option<Keeping>) {
    let Some(directory) = directory else {
        // There is usually nothing to remove, and links are not followed.
        let _ = fs::remove_dir_all(path(config));
        return (Keeper::default(), None);
    };
    let (keeper, keeping) = Keeper::new(directory);
    (keeper, Some(keeping))
}

/// Writes failed requests until [`Shutdown`](super::shutdown::Shutdown) ends the returned task.
pub(super) fn keep(keeping: Option<Keeping>, parts: &Parts) -> LastTask {
    let last = LastTask::default();
    let drained = last.stop.clone();
    let kept = async {
        match keeping {
            Some(keeping) => keeping.run(drained).await,
            None => drained.cancelled_owned().await,
        }
    };
    parts.run("bundles", last.tasks.track_future(kept));
    last
}

fn path(config: &Serve) -> PathBuf {
    config.work_dir().join(DIRECTORY)
}
