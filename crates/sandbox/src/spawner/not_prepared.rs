//! The reasons why the requested isolation is not available.

use std::{io, path::PathBuf};

use nix::{
    errno::Errno,
    sys::resource::{Resource, getrlimit},
};
use thiserror::Error;

use super::{cgroup::NoCgroups, root::NoWorkspaceRoot, uid_pool::NoUids};
use crate::{
    kernel::{file_size, filter::NotInstalled, no_process::with_remedy, policy::NoPolicy},
    wire::{
        shortage::{Need, Shortage, Unfitness},
        tier::Tier,
    },
};

/// Reasons why none of the requested tiers is available.
#[derive(Debug, Error)]
pub(super) enum NotPrepared {
    #[error(
        "the requested isolation is not available here: {}: provide what is missing, or choose \
         another --isolation", sentences(.0).join("; ")
    )]
    Tiers(Vec<(Tier, Unavailable)>),
    #[error(
        "the spawner must have one thread: {0}: under an emulator such as qemu-user, which adds a \
         thread, nothing can be isolated: use a binary for this machine's architecture"
    )]
    Threads(io::Error),
    #[error(
        "{name}(2) fails: {error}: use a node with Linux {since} or later, and a seccomp profile that \
         allows this call"
    )]
    Call { name: &'static str, since: &'static str, error: io::Error },
    #[error(
        "/proc hides processes, so the limits of requests cannot be enforced without separate \
         UIDs: mount /proc without the option hidepid, or choose --isolation uid or namespaces"
    )]
    Hidden,
    #[error(transparent)]
    Root(#[from] NoWorkspaceRoot),
    #[error(
        "cannot {step}: {error}{advice}", error = with_remedy(.error),
        advice = limit_advice(.error)
    )]
    Step { step: &'static str, error: io::Error },
    #[error("uid: {above}; {tier}: {error}")]
    Below { above: Unavailable, tier: Tier, error: Box<NotPrepared> },
    #[error(
        "cannot set up namespaces: {0}{mount}{limit}", mount = mount_advice(.0),
        limit = limit_advice(.0)
    )]
    Roots(io::Error),
    #[error(transparent)]
    Policy(#[from] NoPolicy),
    #[error(transparent)]
    Filter(#[from] NotInstalled),
    #[error("--request-cgroups require: {0}; or set --request-cgroups auto")]
    Cgroups(NoCgroups),
}

/// Reasons why one tier is not available.
#[derive(Debug, Error)]
pub(super) enum Unavailable {
    #[error(transparent)]
    Uids(#[from] NoUids),
    #[error(
        "{}, or accept separate UIDs as the only isolation with --accept-no-landlock", no_landlock(*.0)
    )]
    NoLandlockBesides(Errno),
    #[error("{}", no_landlock(*.0))]
    NoLandlock(Errno),
    #[error("Landlock version 6 is needed (Linux 6.12), but this kernel has version {0}")]
    OldLandlock(i32),
    #[error(
        "requests would run as root, the UID of --run-as-uid, and Landlock does not confine root: set \
         --run-as-uid to another UID"
    )]
    AsRoot,
    #[error("cannot read the groups of caches in {path}: {error}: set another --work-dir")]
    CacheRoot { path: PathBuf, error: io::Error },
    #[error("cannot create namespaces: {0}{advice}", advice = namespaces_advice(.0))]
    Namespaces(io::Error),
}

impl NotPrepared {
    /// Names first why there are no separate UIDs, if they were wanted, for an error that would
    /// not be there with them.
    pub(super) fn below(self, missing: Vec<(Tier, Unavailable)>, tier: Tier) -> Self {
        let is_of_tier = matches!(self, Self::Root(_) | Self::Hidden);
        match missing.into_iter().find(|(above, _)| is_of_tier && *above == Tier::Uid) {
            Some((_, above)) => Self::Below { above, tier, error: Box::new(self) },
            None => self,
        }
    }

    /// The message to the supervisor.
    pub(super) fn tell(&self) -> Unfitness {
        let tiers = if let Self::Tiers(tiers) = self { tiers.as_slice() } else { &[] };
        let shortage = |(tier, why): &(Tier, Unavailable)| Shortage {
            tier: (*tier).into(),
            need: why.need().into(),
            reason: why.to_string(),
        };
        Unfitness { reason: self.to_string(), shortages: tiers.iter().map(shortage).collect() }
    }
}

impl Unavailable {
    fn need(&self) -> Need {
        match self {
            Self::Uids(NoUids::Capability(_)) => Need::Capability,
            Self::Namespaces(error) if is_denied(error) => Need::Capability,
            Self::NoLandlock(Errno::EOPNOTSUPP)
            | Self::NoLandlockBesides(Errno::EOPNOTSUPP)
            | Self::OldLandlock(_) => Need::Landlock,
            Self::NoLandlock(_)
            | Self::NoLandlockBesides(_)
            | Self::Namespaces(_)
            | Self::Uids(
                NoUids::Capabilities(_)
                | NoUids::Unmapped { .. }
                | NoUids::NoneFree { .. }
                | NoUids::Read(_)
                | NoUids::Claim(_),
            )
            | Self::AsRoot
            | Self::CacheRoot { .. } => Need::Other,
        }
    }
}

/// The remedy if this process may open no more files, of which the policy has the most, or
/// write no more into one.
fn limit_advice(error: &io::Error) -> String {
    if let Some(reason) = file_size::reason(error.kind()) {
        return format!(": {reason}");
    }
    if error.raw_os_error() != Some(Errno::EMFILE as i32) {
        return String::new();
    }
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    format!(
        ": the spawner may open {limit} files (RLIMIT_NOFILE), and needs one for each readable part \
         of the image and path below which others are hidden: set the hard limit of the \
         container's runtime (ulimit -n) to 1024 or more"
    )
}

fn mount_advice(error: &io::Error) -> &'static str {
    if is_denied(error) { ": allow mounts in the container's profiles" } else { "" }
}

/// The remedy if namespaces or mounts in them are refused.
fn namespaces_advice(error: &io::Error) -> &'static str {
    // The kernel says so of a mount that another user namespace has locked in place.
    if error.raw_os_error() == Some(Errno::EINVAL as i32) {
        return ": this mount namespace belongs to a user namespace in which mounts are locked: run \
                the container without a user namespace around it";
    }
    // A seccomp profile may also answer that there is no such call.
    let is_hidden = error.raw_os_error() == Some(Errno::ENOSYS as i32);
    if is_denied(error) || is_hidden { ": add capability SYS_ADMIN, and allow mounts" } else { "" }
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Calls of Landlock, for seccomp profiles.
const LANDLOCK_CALLS: &str =
    "landlock_create_ruleset, landlock_add_rule and landlock_restrict_self";

/// The reason why there is no Landlock, and the remedy.
fn no_landlock(errno: Errno) -> String {
    if errno == Errno::EOPNOTSUPP {
        return "the kernel has Landlock switched off: boot it with `lsm=landlock,…`".to_owned();
    }
    if errno == Errno::ENOSYS {
        return format!(
            "the kernel was built without Landlock, or the container's seccomp profile hides it: use \
             another kernel, or allow {LANDLOCK_CALLS} in the profile"
        );
    }
    format!(
        "Landlock is refused: {}: allow {LANDLOCK_CALLS} in the container's seccomp profile",
        io::Error::from(errno)
    )
}

/// One sentence for each tier.
pub(super) fn sentences(tiers: &[(Tier, Unavailable)]) -> Vec<String> {
    tiers.iter().map(|(tier, why)| format!("{tier}: {why}")).collect()
}

#[cfg(test)]
mod tests {
    use caps::Capability;

    use super::*;

    #[test]
    fn landlock_that_a_profile_refuses_is_not_missing_in_the_kernel() {
        let off = Unavailable::NoLandlockBesides(Errno::EOPNOTSUPP).to_string();
        assert!(off.contains("lsm=landlock") && off.contains("--accept-no-landlock"), "{off}");
        for errno in [Errno::EPERM, Errno::ENOSYS] {
            let refused = Unavailable::NoLandlock(errno);
            let text = refused.to_string();
            assert!(text.contains("landlock_restrict_self") && text.contains("seccomp"), "{text}");
            assert!(!text.contains("lsm=") && !text.contains("--accept-no-landlock"), "{text}");
            assert_eq!(refused.need(), Need::Other);
        }
        assert_eq!(Unavailable::NoLandlock(Errno::EOPNOTSUPP).need(), Need::Landlock);
    }

    #[test]
    fn root_as_the_uid_of_requests_is_named_as_the_cause() {
        let text = NotPrepared::Tiers(vec![(Tier::Landlock, Unavailable::AsRoot)]).tell().reason;
        assert!(text.contains("landlock: requests would run as root"), "{text}");
        assert!(text.contains("set --run-as-uid to another UID"), "{text}");
    }

    #[test]
    fn only_a_denied_mount_needs_a_capability() {
        let of = |errno: Errno| Unavailable::Namespaces(errno.into());
        assert!(of(Errno::EPERM).to_string().contains("add capability SYS_ADMIN"));
        assert_eq!(of(Errno::EPERM).need(), Need::Capability);
        let locked = of(Errno::EINVAL);
        let text = locked.to_string();
        assert!(text.contains("mounts are locked") && !text.contains("SYS_ADMIN"), "{text}");
        assert_eq!(locked.need(), Need::Other);
        assert!(!of(Errno::ENOSPC).to_string().contains("SYS_ADMIN"));
    }

    #[test]
    fn a_capability_whose_lack_led_to_another_tier_is_named_first() {
        let missing = || {
            let capability = Unavailable::Uids(NoUids::Capability(Capability::CAP_SETUID));
            let namespaces = Unavailable::Namespaces(Errno::EPERM.into());
            vec![(Tier::Namespaces, namespaces), (Tier::Uid, capability)]
        };
        let text = NotPrepared::Hidden.below(missing(), Tier::Landlock).tell().reason;
        assert!(text.starts_with("uid: capability CAP_SETUID is missing"), "{text}");
        assert!(text.contains("; landlock: /proc hides processes"), "{text}");
        let other = NotPrepared::Roots(Errno::EPERM.into()).below(missing(), Tier::Landlock);
        assert!(!other.tell().reason.contains("CAP_SETUID"), "{other}");
        let alone = NotPrepared::Hidden.below(Vec::new(), Tier::Landlock).tell().reason;
        assert!(alone.starts_with("/proc hides"), "{alone}");
    }

    #[test]
    fn too_few_descriptors_are_told_with_the_limit_and_the_remedy() {
        let failed = |errno: Errno| {
            let error = errno.into();
            NotPrepared::Step { step: "clear the work directory", error }.tell().reason
        };
        let roots = NotPrepared::Roots(Errno::EMFILE.into()).tell().reason;
        for text in [failed(Errno::EMFILE), roots] {
            assert!(text.contains("files (RLIMIT_NOFILE), and needs one for each"), "{text}");
            assert!(text.contains("(ulimit -n) to 1024"), "{text}");
        }
        assert!(!failed(Errno::ENOENT).contains("RLIMIT"));
    }
}
