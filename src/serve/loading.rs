//! A loader that also looks for programs and for hidden paths, and outlasts a restart.

use std::{io, path::PathBuf, sync::Arc};

use cmp_sandbox::{Readable, Tier, covers_ports, refuses_moves};
use tokio::sync::watch;
use tracing::warn;

use super::{NotServing, paths::warn_of_static_mounts, setup};
use crate::{
    config::{self, Serve},
    event::TOLD,
    hidden::Watched,
    loader::{LAST_GOOD, Loader},
    metrics::Metrics,
    own_directory,
    request::Reach,
    state::State,
};

/// Leases of a setup that only answers questions.
const NO_LEASES: u32 = 0;

/// A loader that has read the definitions once, and the state.
pub(super) fn load(
    config: &Serve,
    reach: &Arc<Reach>,
    tier: Tier,
    metrics: &Metrics,
) -> Result<(Loader, watch::Sender<State>), NotServing> {
    let (mut loader, state) = loader(config, reach, tier, metrics)?;
    loader.load()?;
    let static_mounts = warn_of_static_mounts(&config.places(), metrics);
    state.send_modify(|state| state.static_mounts = static_mounts);
    start_empty(config, &state)?;
    Ok((loader, state))
}

/// Starts without a plugin if there is none. argocd-cmp-server also ends if its only
/// definition is invalid.
fn start_empty(config: &Serve, state: &watch::Sender<State>) -> Result<(), NotServing> {
    if !state.borrow().desired.is_empty() {
        return Ok(());
    }
    if config.single.is_some() {
        return Err(NotServing::Definition);
    }
    // The verbs that start a private supervisor tell it themselves, with the user's directory.
    let directory = config.plugins_dir.display();
    warn!(target: TOLD, %directory, "no plugin is defined yet: nothing is served");
    Ok(())
}

/// A loader that has read nothing yet, and its state.
fn loader(
    config: &Serve,
    reach: &Arc<Reach>,
    tier: Tier,
    metrics: &Metrics,
) -> io::Result<(Loader, watch::Sender<State>)> {
    let (places, grace, read) = (config.places(), config.empty_grace.0, config.bounds().read);
    let (mut loader, state) = Loader::new(places, tier, grace, metrics.clone());
    // The socket of argocd-cmp-server's only plugin fails instead, as it does there.
    if config.single.is_none() {
        loader = loader.serving_in(&config.socket_dir());
    }
    let watched = Watched::new(Arc::clone(reach), read, &config::inherited());
    let loader = loader.examining(config::search(), watched)?;
    let loader = match last_good(config, tier) {
        Some(directory) => loader.remembering(&directory),
        None => loader,
    };
    Ok((loader, state))
}

/// The directory for the last good definitions. Without isolation, plugins could change them, and
/// a private supervisor is never restarted.
fn last_good(config: &Serve, tier: Tier) -> Option<PathBuf> {
    let keeps = tier != Tier::None && config.single.is_none() && !config.events;
    keeps.then(|| config.work_dir().join(LAST_GOOD))
}

/// Creates it. Call this before privileges are dropped. An error is logged when it is used.
pub(super) fn make_last_good(config: &Serve, tier: Tier) {
    if let Some(directory) = last_good(config, tier) {
        let _ = own_directory::create(&directory, config.run_as_uid);
    }
}

/// Paths and ports that the sandbox lets plugins reach, in this tier and with this version of
/// Landlock.
pub(crate) fn reach(config: &Serve, tier: Tier, landlock: i32) -> Reach {
    if tier == Tier::None || landlock == 0 {
        return Reach::default();
    }
    let failed = |error| warn!(%error, "cannot find out what plugins may read");
    let setup = setup(config, NO_LEASES).ok();
    let readable = setup.and_then(|setup| Readable::find(&setup).map_err(failed).ok());
    let hides_closed = tier == Tier::Namespaces;
    let search = config::search().to_vec();
    let filters_ports = covers_ports(landlock);
    let refuses_moves = refuses_moves(landlock);
    let sockets = std::path::absolute(config.socket_dir()).unwrap_or_default();
    Reach { readable, filters_ports, refuses_moves, hides_closed, search, sockets }
}
