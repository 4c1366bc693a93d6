//! The order to a standby process to end a lease.

use nix::unistd::Uid;
use prost::Message;

use super::{process_check::ProcessCheck, uid_pool::UidPair};
use crate::wire::shared::CacheSet;

/// End of a lease: kill its processes, hand its caches on, remove its files.
#[derive(Clone, PartialEq, Message)]
pub(super) struct EndDuty {
    /// UID of the killer; `None` if nothing must be killed.
    #[prost(uint32, optional, tag = "1")]
    killer: Option<u32>,
    /// UID that owns the files; `None` for that of the spawner.
    #[prost(uint32, optional, tag = "2")]
    tenant: Option<u32>,
    /// Path of the workspace from the directory of workspaces, whose descriptor
    /// comes with the order.
    #[prost(string, tag = "3")]
    pub(super) workspace: String,
    /// Files may be removed at once. Otherwise the process asks first.
    #[prost(bool, tag = "4")]
    pub(super) has_turn: bool,
    /// See [`ProcessCheck::Listing`].
    #[prost(bool, tag = "5")]
    listing: bool,
    #[prost(message, optional, tag = "6")]
    pub(super) caches: Option<HandOver>,
}

/// Caches to hand on to the next request.
#[derive(Clone, PartialEq, Message)]
pub(super) struct HandOver {
    #[prost(message, required, tag = "1")]
    pub(super) shared: CacheSet,
    /// Microseconds after the epoch. Directories that were last changed earlier have no
    /// file of the tenant; `None` if clocks cannot tell.
    #[prost(uint64, optional, tag = "2")]
    pub(super) since_us: Option<u64>,
    /// Measure the caches, and empty those that are too large.
    #[prost(bool, tag = "3")]
    pub(super) measure: bool,
    /// The commands ended by themselves, so what they wrote is whole.
    #[prost(bool, tag = "4")]
    pub(super) is_whole: bool,
}

/// The UID that owns the files of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The spawner's: there is one UID for all requests.
    Spawner,
    /// Another one, in a directory that an earlier start has left. Nothing is killed.
    Former(Uid),
    /// A tenant, whose processes the killer ends.
    Leased(UidPair),
}

/// A lease to end.
#[derive(Debug)]
pub(super) struct Ending<'e> {
    pub(super) owner: Owner,
    pub(super) workspace: &'e str,
    pub(super) has_turn: bool,
    pub(super) process_check: ProcessCheck,
    pub(super) caches: Option<HandOver>,
}

impl Owner {
    /// The UID; `None` for the spawner's own.
    pub(super) fn uid(self) -> Option<Uid> {
        match self {
            Self::Spawner => None,
            Self::Former(owner) => Some(owner),
            Self::Leased(uids) => Some(uids.tenant),
        }
    }

    fn killer(self) -> Option<Uid> {
        match self {
            Self::Spawner | Self::Former(_) => None,
            Self::Leased(uids) => Some(uids.killer),
        }
    }
}

impl EndDuty {
    pub(super) fn owner(&self) -> Owner {
        match (self.killer.map(Uid::from_raw), self.tenant.map(Uid::from_raw)) {
            (_, None) => Owner::Spawner,
            (None, Some(owner)) => Owner::Former(owner),
            (Some(killer), Some(tenant)) => Owner::Leased(UidPair { killer, tenant }),
        }
    }

    pub(super) fn process_check(&self) -> ProcessCheck {
        if self.listing { ProcessCheck::Listing } else { ProcessCheck::NprocMark }
    }
}

impl From<Ending<'_>> for EndDuty {
    fn from(ending: Ending<'_>) -> Self {
        Self {
            killer: ending.owner.killer().map(Uid::as_raw),
            tenant: ending.owner.uid().map(Uid::as_raw),
            workspace: ending.workspace.to_owned(),
            has_turn: ending.has_turn,
            listing: ending.process_check == ProcessCheck::Listing,
            caches: ending.caches,
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::Gid;

    use super::*;
    use crate::wire::shared::SharedCaches;

    #[test]
    fn an_order_to_end_a_lease_keeps_all_parts() {
        let uids = UidPair { killer: Uid::from_raw(7), tenant: Uid::from_raw(8) };
        let shared = CacheSet::from(SharedCaches {
            group: Some(Gid::from_raw(9)),
            directory: "/work/x".into(),
            names: vec!["helm".to_owned()],
        });
        let since_us = Some(1_700_000_000_000_001);
        let caches = HandOver { shared, since_us, measure: true, is_whole: true };
        let duty = EndDuty::from(Ending {
            owner: Owner::Leased(uids),
            workspace: "name",
            has_turn: true,
            process_check: ProcessCheck::Listing,
            caches: Some(caches.clone()),
        });
        let end = EndDuty::decode(duty.encode_to_vec().as_slice()).unwrap();
        assert_eq!(end.owner(), Owner::Leased(uids));
        assert_eq!(end.process_check(), ProcessCheck::Listing);
        assert_eq!(end.caches, Some(caches));
        assert!(end.has_turn && end.workspace == "name");
    }
}
