//! The sandbox's abilities, in the log, in metrics and for `render`.

use cmp_sandbox::{Abilities, Tier, refuses_moves};
use tracing::{info, warn};

use crate::{
    event::Event,
    metrics::{Feature, Metrics},
};

/// Tells that requests can be isolated.
pub(super) fn ready(abilities: &Abilities) -> Event {
    let Abilities { tier, landlock, leases, .. } = *abilities;
    let no_cgroups = abilities.no_cgroups.as_deref().map(Into::into);
    Event::Ready { isolation: tier, landlock, leases, no_cgroups }
}

/// Sets the metrics of the isolation.
pub(super) fn measure(abilities: &Abilities, metrics: &Metrics) {
    let Abilities { tier, landlock, leases, unlimited, no_cgroups, .. } = abilities;
    metrics.isolated(tier.as_str(), *leases);
    let has_own_uids = tier.has_own_uids();
    for (feature, is_confined) in [
        (Feature::Namespaces, *tier == Tier::Namespaces),
        (Feature::Uid, has_own_uids),
        (Feature::Landlock, *landlock > 0 && *tier != Tier::None),
        (Feature::Cgroups, no_cgroups.is_none()),
        (Feature::ProcessLimit, has_own_uids && !unlimited),
    ] {
        metrics.confined(feature, is_confined);
    }
}

pub(super) fn log(abilities: &Abilities) {
    let Abilities { tier, landlock, leases, missing, unlimited, no_cgroups, closed, .. } =
        abilities;
    info!(isolation = %tier, landlock, leases, "the sandbox is ready");
    for reason in missing {
        info!(reason, "a stronger isolation is not available");
    }
    warn_of_closed(closed);
    match no_cgroups {
        None => info!("each request has a cgroup: the kernel enforces its limits as a whole"),
        Some(reason) => {
            info!(reason, "requests have no cgroups: their limits as a whole are measured");
        }
    }
    if *unlimited {
        warn!("this kernel does not enforce limits of processes: --max-processes has no effect");
    }
    warn_of_gaps(*tier, *landlock);
}

fn warn_of_gaps(tier: Tier, landlock: i32) {
    if tier != Tier::None && refuses_moves(landlock) {
        warn!(
            "this kernel has the first version of Landlock: commands cannot rename or link files to \
             another directory; Linux 5.19 or newer lets them"
        );
    }
    if tier == Tier::None {
        warn!("requests are not isolated: all plugins can read each other's files");
    }
}

fn warn_of_closed(files: &[String]) {
    for reason in files {
        warn!(
            reason,
            "requests cannot read a file of the image: give others the right to read it, and to \
             enter the directories above (chmod o+x)"
        );
    }
}
