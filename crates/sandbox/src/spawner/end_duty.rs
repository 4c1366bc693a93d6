//! The order to a standby process to end a lease.

use std::time::{Duration, SystemTime};

use nix::unistd::Uid;
use prost::Message;

use super::{process_check::ProcessCheck, uid_pool::UidPair};
use crate::wire::shared::{CacheSet, SharedCaches};

/// End of a lease: kill its processes, hand its caches on, remove its files.
#[derive(Clone, PartialEq, Message)]
pub(super) struct EndDuty {
    /// UID of the killer; `None` if nothing must be killed.
    #[prost(uint32, optional, tag = "1")]
    killer: Option<u32>,
    /// UID that owns the files; `None` for that of the spawner.
    #[prost(uint32, optional, tag = "2")]
    tenant: Option<u32>,
    /// Name of the workspace in the directory of workspaces, whose descriptor
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
    caches: Option<CacheDuty>,
}

#[derive(Clone, PartialEq, Message)]
struct CacheDuty {
    #[prost(message, required, tag = "1")]
    shared: CacheSet,
    /// Microseconds after the epoch.
    #[prost(uint64, optional, tag = "2")]
    since_us: Option<u64>,
    #[prost(bool, tag = "3")]
    measure: bool,
    #[prost(bool, tag = "4")]
    is_whole: bool,
}

/// Caches to hand on to the next request.
#[derive(Clone, Debug)]
pub(super) struct HandOver {
    pub(super) shared: SharedCaches,
    /// Directories that were last changed earlier have no file of the tenant;
    /// `None` if clocks cannot tell.
    pub(super) since: Option<SystemTime>,
    /// Measure the caches, and empty those that are too large.
    pub(super) measure: bool,
    /// The commands ended by themselves, so what they wrote is whole.
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

    pub(super) fn caches(&self) -> Option<HandOver> {
        let duty = self.caches.clone()?;
        let CacheDuty { shared, since_us, measure, is_whole } = duty;
        let shared = shared.into();
        let since = since_us.map(|us| SystemTime::UNIX_EPOCH + Duration::from_micros(us));
        Some(HandOver { shared, since, measure, is_whole })
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
            caches: ending.caches.map(CacheDuty::from),
        }
    }
}

impl From<HandOver> for CacheDuty {
    fn from(HandOver { shared, since, measure, is_whole }: HandOver) -> Self {
        let since = since.and_then(|since| since.duration_since(SystemTime::UNIX_EPOCH).ok());
        Self {
            shared: shared.into(),
            since_us: since.and_then(|since| u64::try_from(since.as_micros()).ok()),
            measure,
            is_whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::Gid;

    use super::*;

    #[test]
    fn an_order_to_end_a_lease_keeps_all_parts() {
        let uids = UidPair { killer: Uid::from_raw(7), tenant: Uid::from_raw(8) };
        let since = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_001);
        let shared = SharedCaches {
            group: Some(Gid::from_raw(9)),
            directory: "/work/x".into(),
            names: vec!["helm".to_owned()],
        };
        let caches =
            HandOver { shared: shared.clone(), since: Some(since), measure: true, is_whole: true };
        let duty = EndDuty::from(Ending {
            owner: Owner::Leased(uids),
            workspace: "name",
            has_turn: true,
            process_check: ProcessCheck::Listing,
            caches: Some(caches),
        });
        let end = EndDuty::decode(duty.encode_to_vec().as_slice()).unwrap();
        assert_eq!(end.owner(), Owner::Leased(uids));
        assert_eq!(end.process_check(), ProcessCheck::Listing);
        let HandOver { shared: handed, since: then, measure, is_whole } = end.caches().unwrap();
        assert_eq!((handed, then), (shared, Some(since)));
        assert!(measure && is_whole);
        assert!(end.has_turn && end.workspace == "name");
    }
}
