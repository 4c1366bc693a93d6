//! The reasons why the requested isolation is not available.

use std::{io, path::PathBuf};

use nix::{
    errno::Errno,
    sys::resource::{Resource, getrlimit},
};
use thiserror::Error;

use super::{cgroup::NoCgroups, root::NoWorkspaceRoot, uid_pool::NoUids};
use crate::{
    kernel::{filter::NotInstalled, no_process::with_remedy, policy::NoPolicy},
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
        "close_range(2) fails: {0}: use a node with Linux 5.9 or later, and a seccomp profile that \
         allows this call"
    )]
    Closing(io::Error),
    #[error(
        "/proc hides processes, so the limits of requests cannot be enforced without separate \
         UIDs: mount /proc without the option hidepid, or choose --isolation uid or namespaces"
    )]
    Hidden,
    #[error(transparent)]
    Root(#[from] NoWorkspaceRoot),
    #[error(
        "cannot {step}: {error}{advice}", error = with_remedy(.error),
        advice = descriptors_advice(.error)
    )]
    Step { step: &'static str, error: io::Error },
    #[error("cannot set up namespaces: {0}{advice}", advice = mount_advice(.0))]
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
        "the kernel has no Landlock: boot it with `lsm=landlock,…`, or accept separate UIDs as the \
         only isolation with --accept-no-landlock"
    )]
    NoLandlock,
    #[error("Landlock version 6 is needed (Linux 6.12), but this kernel has version {0}")]
    OldLandlock(i32),
    #[error("cannot read the groups of caches in {path}: {error}: set another --work-dir")]
    CacheRoot { path: PathBuf, error: io::Error },
    #[error("cannot create namespaces: {0}: add capability SYS_ADMIN, and allow mounts")]
    Namespaces(io::Error),
}

impl NotPrepared {
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
            Self::Uids(NoUids::Capability(_)) | Self::Namespaces(_) => Need::Capability,
            Self::NoLandlock | Self::OldLandlock(_) => Need::Landlock,
            Self::Uids(
                NoUids::Capabilities(_)
                | NoUids::Unmapped { .. }
                | NoUids::NoneFree { .. }
                | NoUids::Read { .. }
                | NoUids::Claim(_),
            )
            | Self::CacheRoot { .. } => Need::Other,
        }
    }
}

/// The remedy if this process may open no more files. The policy has the most of them.
fn descriptors_advice(error: &io::Error) -> String {
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
    let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
    if is_denied { ": allow mounts in the container's profiles" } else { "" }
}

/// One sentence for each tier.
pub(super) fn sentences(tiers: &[(Tier, Unavailable)]) -> Vec<String> {
    tiers.iter().map(|(tier, why)| format!("{tier}: {why}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_descriptors_are_told_with_the_limit_and_the_remedy() {
        let failed = |errno: Errno| {
            let error = errno.into();
            NotPrepared::Step { step: "clear the work directory", error }.tell().reason
        };
        let text = failed(Errno::EMFILE);
        assert!(text.contains("files (RLIMIT_NOFILE), and needs one for each"), "{text}");
        assert!(text.contains("(ulimit -n) to 1024"), "{text}");
        assert!(!failed(Errno::ENOENT).contains("RLIMIT"));
    }
}
