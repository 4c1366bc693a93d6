//! The paths of the command line: directories to look after, and warnings.

use std::{path::PathBuf, sync::Arc};

use cmp_sandbox::{Abilities, CACHES, Tier, WORKSPACES};
use tracing::warn;

use super::{
    Handles, NotServing,
    upkeep::{Directories, Upkeep},
};
use crate::{
    agent_sockets,
    config::Serve,
    loader::{Places, static_mounts},
    metrics::Metrics,
    own_directory::{OWNER, READ},
    request::Reach,
    volume::{self, FileThread, WorkVolume},
};

/// The work directory with the directories in it.
fn work(config: &Serve) -> Directories {
    let work = config.work_dir();
    let within = [WORKSPACES, CACHES].map(|name| work.join(name));
    let paths = std::iter::once(work).chain(within).collect();
    Directories { paths, needed: OWNER }
}

/// The directory of definitions. Its owner may have closed it to writing.
fn plugins(config: &Serve) -> Directories {
    Directories { paths: vec![config.plugins_dir.clone()], needed: READ }
}

/// Gives access back to all directories.
pub(super) fn restore_directories(config: &Serve) {
    work(config).restore();
    plugins(config).restore();
}

pub(super) fn upkeep(
    config: &Serve,
    abilities: &Abilities,
    volume: WorkVolume,
    Handles { link, states, metrics }: Handles,
) -> Upkeep {
    let (work, plugins, workspaces) = (work(config), plugins(config), abilities.root.clone());
    Upkeep { work, plugins, workspaces, volume, link, states, metrics }
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
        let shown = path.display().to_string();
        let look = move || matches!(path.try_exists(), Ok(false));
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

/// Warns of a work directory in which agents of requests cannot create their sockets, or
/// requests cannot start programs.
pub(super) fn warn_of_work_dir(config: &Serve, tier: Tier) {
    if let Some(reason) = volume::noexec(&config.work_dir()) {
        warn!(reason, "mount the work volume without the option noexec");
    }
    if let Some(reason) = agent_sockets::warning(&config.work_dir(), tier) {
        warn!(reason, "choose a shorter --work-dir");
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

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{MetadataExt, PermissionsExt},
        path::Path,
    };

    use clap::{Args, Command, FromArgMatches};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_directory_of_definitions_may_be_closed_to_writing() {
        let root = tempfile::tempdir().unwrap();
        let [plugins, work] = ["plugins.d", "work"].map(|name| root.path().join(name));
        for directory in [&plugins, &work] {
            fs::create_dir(directory).unwrap();
            fs::set_permissions(directory, Permissions::from_mode(0o555)).unwrap();
        }
        let [at, in_work] = [&plugins, &work].map(|path| path.to_str().unwrap());
        let arguments = ["serve", "--plugins-dir", at, "--work-dir", in_work];
        let matches = Serve::augment_args(Command::new("serve")).get_matches_from(arguments);
        restore_directories(&Serve::from_arg_matches(&matches).unwrap());
        assert_eq!((mode(&plugins), mode(&work)), (0o555, 0o755));
    }
}
