//! The sandbox's abilities, in the log, in metrics and for `render`.

use cmp_sandbox::{Abilities, Tier, covers_ports, refuses_moves, refuses_truncation};
use tracing::{info, warn};

use crate::{
    event::Event,
    metrics::{Feature, Metrics},
};

/// Tells that requests can be isolated.
pub(super) fn ready(abilities: &Abilities) -> Event {
    let Abilities { tier, landlock, leases, .. } = *abilities;
    let no_cgroups = abilities.no_cgroups.as_deref().map(Into::into);
    let unlisted_sockets = abilities.unlisted_sockets.as_deref().map(Into::into);
    Event::Ready { isolation: tier, landlock, leases, no_cgroups, unlisted_sockets }
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
    let Abilities { tier, landlock, leases, missing, no_cgroups, .. } = abilities;
    info!(isolation = %tier, landlock, leases, "the sandbox is ready");
    for reason in missing {
        info!(reason, "a stronger isolation is not available");
    }
    warn_of_closed(&abilities.closed);
    match no_cgroups {
        None => info!("each request has a cgroup: the kernel enforces its limits as a whole"),
        Some(reason) => {
            info!(reason, "requests have no cgroups: their limits as a whole are measured");
        }
    }
    warn_of_unlimited(abilities);
    for gap in gaps(*tier, *landlock) {
        warn!("{gap}");
    }
}

fn warn_of_unlimited(abilities: &Abilities) {
    if abilities.unlimited {
        warn!("this kernel does not enforce limits of processes: --max-processes has no effect");
    }
    if let Some(reason) = &abilities.unlisted_sockets {
        warn!(reason, "sockets of requests cannot be measured");
    }
}

/// The gaps in the protection of a kernel, and what it refuses without need.
fn gaps(tier: Tier, landlock: i32) -> Vec<&'static str> {
    if tier == Tier::None {
        return vec!["requests are not isolated: all plugins can read each other's files"];
    }
    let ports = "this kernel cannot limit the ports of commands: those in spec.sandbox.network and \
                 --network do not hold; Linux 6.7 or newer limits them, or use a NetworkPolicy";
    let closed = "without Landlock, the ports of commands are not limited: those in spec.sandbox.network \
                  and --network do not hold: let the kernel (lsm=landlock,…) and the container's seccomp \
                  profile allow Landlock, or use a NetworkPolicy";
    let moves = "this kernel has the first version of Landlock: commands cannot rename or link \
                 files to another directory; Linux 5.19 or newer lets them";
    let truncation = "this kernel's Landlock has no right for truncation: truncate(2) fails, and \
                      openat2(2) does; Linux 6.2 or newer lets commands use them";
    let gaps = [
        (landlock == 0, closed),
        (landlock > 0 && !covers_ports(landlock), ports),
        (refuses_moves(landlock), moves),
        (tier == Tier::Uid && refuses_truncation(landlock), truncation),
    ];
    gaps.into_iter().filter(|(is_there, _)| *is_there).map(|(_, text)| text).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_cannot_do_is_told_at_the_start() {
        for (tier, landlock, expected) in [
            (Tier::Uid, 7, &[][..]),
            (Tier::Uid, 3, &["cannot limit the ports"]),
            (Tier::Uid, 2, &["cannot limit the ports", "truncate(2) fails"]),
            (Tier::Uid, 0, &["without Landlock, the ports of commands are not limited"]),
            (Tier::Namespaces, 1, &["cannot limit the ports", "rename or link"]),
            (Tier::None, 1, &["not isolated"]),
        ] {
            let gaps = gaps(tier, landlock);
            assert_eq!(gaps.len(), expected.len(), "{tier} {landlock}: {gaps:?}");
            assert!(gaps.iter().zip(expected).all(|(gap, words)| gap.contains(words)), "{gaps:?}");
        }
    }
}
