//! A loader that also looks for programs and for hidden paths.

use std::{io, sync::Arc};

use cmp_sandbox::{Readable, Tier};
use tokio::sync::watch;
use tracing::warn;

use super::setup;
use crate::{
    config::{self, Serve},
    hidden::Watched,
    loader::Loader,
    metrics::Metrics,
    request::Reach,
    state::State,
};

/// First version of Landlock that covers TCP ports.
const FILTERS_PORTS: i32 = 4;

/// Leases of a setup that only answers questions.
const NO_LEASES: u32 = 0;

/// A loader that has read nothing yet, and its state.
pub(super) fn loader(
    (config, reach): (&Serve, &Arc<Reach>),
    tier: Tier,
    metrics: &Metrics,
) -> io::Result<(Loader, watch::Sender<State>)> {
    metrics.show_applications(config.metrics_per_application as usize);
    let (places, grace, read) = (config.places(), config.empty_grace.0, config.bounds().read);
    let (loader, state) = Loader::new(places, tier, grace, metrics.clone());
    let watched = Watched::new(Arc::clone(reach), read, &config::inherited());
    Ok((loader.looking(config::search(), watched)?, state))
}

/// Paths and ports that the sandbox lets plugins reach, in this tier and with this version of
/// Landlock.
pub(crate) fn reach(config: &Serve, (tier, landlock): (Tier, i32)) -> Reach {
    if tier == Tier::None || landlock == 0 {
        return Reach::default();
    }
    let failed = |error| warn!(%error, "cannot find out what plugins may read");
    let setup = setup(config, NO_LEASES).ok();
    let readable = setup.and_then(|setup| Readable::find(&setup).map_err(failed).ok());
    let hides_closed = tier == Tier::Namespaces;
    Reach { readable, filters_ports: landlock >= FILTERS_PORTS, hides_closed }
}
