//! UIDs and groups for requests, claimed by this process.

use std::{collections::BTreeSet, io, ops::RangeInclusive};

use caps::{CapSet, Capability};
use nix::unistd::{Gid, Uid, getegid};
use thiserror::Error;

use super::claims::{ATTEMPTS, Claims, Seen, pause};
use crate::{
    wire::account::{self, Account, GROUP, PASSWD},
    worker::PodGroups,
};

/// Reasons why there are no UIDs to lease.
#[derive(Debug, Error)]
pub(super) enum NoUids {
    #[error("capability {0} is missing: run as root with capabilities SETUID and SETGID")]
    Capability(Capability),
    #[error("cannot read the capabilities of this process: {0}")]
    Capabilities(caps::errors::CapsError),
    #[error(
        "UID {uid} of the range {first}-{last} is not mapped in this user namespace: choose \
         another range with --uid-range"
    )]
    Unmapped { first: u32, last: u32, uid: u32 },
    #[error(
        "no two UIDs from {first} to {last} are free: accounts, processes, this supervisor or others \
         of this node use them: choose another range with --uid-range"
    )]
    NoneFree { first: u32, last: u32 },
    #[error("cannot read the mapping of this user namespace: {0}")]
    Read(io::Error),
    #[error("cannot claim UIDs: {0}")]
    Claim(io::Error),
}

/// One of this many IDs of the range is reserved for groups of caches.
const GROUPS: u32 = 8;

/// Number of UIDs in a [`UidPair`].
const UIDS_PER_LEASE: u32 = 2;

/// If other supervisors use the range and fewer UIDs are free than wanted, this
/// part of them is left to further ones.
const LEFT: usize = 4;

/// Most leases of a range with `count` UIDs.
#[must_use]
pub fn most_leases(count: u32) -> u32 {
    for_users(count) / UIDS_PER_LEASE
}

/// IDs of a range that are not left to groups of caches.
fn for_users(count: u32) -> u32 {
    count - count / GROUPS
}

/// UIDs that no other supervisor in this PID namespace leases while this value
/// lives.
#[derive(Debug)]
pub(super) struct UidPool {
    pub(super) pairs: Vec<UidPair>,
    claims: Claims,
    range: RangeInclusive<u32>,
    /// IDs of the range that no request may have.
    reserved: BTreeSet<u32>,
    /// Groups that own caches, known since their first use.
    groups: BTreeSet<u32>,
}

/// The two UIDs of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UidPair {
    /// UID that the killer and the meter run under; see [`super::kill`].
    pub(super) killer: Uid,
    pub(super) tenant: Uid,
}

impl UidPair {
    fn of([killer, tenant]: [u32; UIDS_PER_LEASE as usize]) -> Self {
        Self { killer: Uid::from_raw(killer), tenant: Uid::from_raw(tenant) }
    }
}

impl UidPool {
    /// Claims up to `wanted` pairs of UIDs of a range, without those in
    /// `reserved`.
    pub(super) fn claim(
        first: u32,
        count: u32,
        wanted: u32,
        reserved: BTreeSet<u32>,
    ) -> Result<Self, NoUids> {
        check_capabilities()?;
        let last = first.saturating_add(count.saturating_sub(1));
        if let Some(uid) = cmp_procfs::unmapped(first..=last).map_err(NoUids::Read)? {
            return Err(NoUids::Unmapped { first, last, uid });
        }
        let owned = owned();
        // The end of the range is left to groups of caches, also to those of other
        // supervisors.
        let for_users = for_users(count);
        let last_user = first.saturating_add(for_users.saturating_sub(1));
        let wanted = for_users.min(UIDS_PER_LEASE * wanted) as usize;
        let choose = |seen: &Seen| {
            let is_free = |uid: &u32| {
                let is_used = seen.used.contains(uid) || seen.claimed.contains(uid);
                !is_used && !owned.contains(uid) && !reserved.contains(uid)
            };
            let mut free: Vec<u32> = (first..=last_user).filter(is_free).collect();
            let are_others = (first..=last_user).any(|uid| seen.claimed.contains(&uid));
            free.truncate(taken(free.len(), wanted, are_others));
            free
        };
        let mut claims = Claims::new().map_err(NoUids::Claim)?;
        let mut uids = Vec::new();
        for _ in 0..ATTEMPTS {
            uids = claims.add(choose).map_err(NoUids::Claim)?;
            if !uids.is_empty() {
                break;
            }
            // Processes of an earlier supervisor may be about to end.
            pause();
        }
        let (chosen, _) = uids.as_chunks();
        let pairs: Vec<_> = chosen.iter().map(|uids| UidPair::of(*uids)).collect();
        if pairs.is_empty() {
            return Err(NoUids::NoneFree { first, last });
        }
        Ok(Self { pairs, claims, range: first..=last, reserved, groups: BTreeSet::new() })
    }

    /// The killer's UID of some pair; only for use before the first lease.
    pub(super) fn any_killer(&self) -> Option<Uid> {
        self.pairs.first().map(|pair| pair.killer)
    }

    /// Claims a further UID of the range that has processes but no account.
    /// Returns false if it is reserved or another supervisor has claimed it.
    pub(super) fn claim_left(&mut self, uid: u32) -> bool {
        let is_free = self.range.contains(&uid) && !self.reserved.contains(&uid);
        let is_nobodys = is_free && !owned().contains(&uid);
        let choose = |seen: &Seen| {
            if seen.claimed.contains(&uid) { Vec::new() } else { vec![uid] }
        };
        is_nobodys && self.claims.add(choose).is_ok_and(|claimed| !claimed.is_empty())
    }

    /// Claims a group if it is in the range and is no UID of this pool.
    ///
    /// Its files were made by this supervisor or an earlier one. If another
    /// supervisor uses the same group, its caches are in another work
    /// directory.
    pub(super) fn group(&mut self, gid: u32) -> Option<Gid> {
        let uids = self.pairs.iter().flat_map(|pair| [pair.killer, pair.tenant]);
        let is_user = uids.map(Uid::as_raw).any(|user| user == gid);
        if is_user || !self.range.contains(&gid) {
            return None;
        }
        if self.groups.insert(gid) {
            // Published even if another supervisor uses it too, so that nobody
            // takes it for a UID.
            let _ = self.claims.share(gid);
        }
        Some(Gid::from_raw(gid))
    }

    /// Claims a free group. Groups come from the end of the range, UIDs from
    /// its beginning.
    pub(super) fn free_group(&mut self, used: &BTreeSet<u32>) -> Option<Gid> {
        let owned = owned();
        let (range, groups) = (self.range.clone(), &self.groups);
        let uids: BTreeSet<u32> = self
            .pairs
            .iter()
            .flat_map(|pair| [pair.killer.as_raw(), pair.tenant.as_raw()])
            .collect();
        let choose = |seen: &Seen| {
            let is_free = |gid: &u32| {
                let is_used = seen.used.contains(gid) || seen.claimed.contains(gid);
                let is_ours = uids.contains(gid) || groups.contains(gid);
                !is_used && !is_ours && !owned.contains(gid) && !used.contains(gid)
            };
            range.clone().rev().find(is_free).into_iter().collect()
        };
        let gid = self.claims.add(choose).ok()?.pop()?;
        self.groups.insert(gid);
        Some(Gid::from_raw(gid))
    }

    /// The groups of the Pod that requests may get: no leased ID, and none of the
    /// spawner's files, which are its workspaces.
    pub(super) fn pod_groups(&self, landlock: i32) -> PodGroups {
        let reserved = self.range.clone().chain([getegid().as_raw()]).collect();
        PodGroups { members: self.claims.inherited(), reserved, landlock }
    }

    /// Removes the claims from a child; see [`Claims::leave`].
    pub(super) fn leave(&self) -> nix::Result<()> {
        self.claims.leave()
    }
}

/// Without these, a worker could not get a UID and the groups that belong to it.
fn check_capabilities() -> Result<(), NoUids> {
    for needed in [Capability::CAP_SETUID, Capability::CAP_SETGID] {
        let has = caps::has_cap(None, CapSet::Effective, needed);
        if !has.map_err(NoUids::Capabilities)? {
            return Err(NoUids::Capability(needed));
        }
    }
    Ok(())
}

/// UIDs in use without a process. Accounts that the image has for requests are no
/// use.
fn owned() -> Vec<u32> {
    let mut found = Vec::new();
    // An image made from scratch has no such files.
    for path in [PASSWD, GROUP] {
        found.extend(account::foreign(&Account::read(path)));
    }
    found.extend(cmp_procfs::ipc_owners());
    found
}

/// UIDs to take, in pairs.
fn taken(free: usize, wanted: usize, are_others: bool) -> usize {
    let pair = UIDS_PER_LEASE as usize;
    let most = if are_others && free < wanted { (free - free / LEFT).max(pair) } else { wanted };
    most.min(free) / pair * pair
}

#[cfg(test)]
mod tests {
    use super::{super::claims::tests::Claimant, *};
    use crate::skip::{lacks_root, soon};

    #[test]
    fn groups_are_in_the_range_and_no_uid_of_the_pool() {
        if lacks_root() {
            return;
        }
        let (first, last) = (u32::MAX - 40, u32::MAX - 30);
        let mut uids = UidPool {
            pairs: vec![UidPair { killer: Uid::from_raw(first), tenant: Uid::from_raw(first + 1) }],
            claims: Claims::new().unwrap(),
            range: first..=last,
            reserved: BTreeSet::new(),
            groups: BTreeSet::new(),
        };
        let used = BTreeSet::from([last]);
        let elsewhere = Claimant::of(last - 1);
        // Not always the next one: a child of another test may have inherited a claim.
        let [one, other] = [(); 2].map(|()| uids.free_group(&used).unwrap().as_raw());
        assert!(first + 1 < other && other < one && one < last - 1, "{one}, {other}");
        assert_eq!(uids.group(one), Some(Gid::from_raw(one)), "known already");
        assert_eq!(uids.group(last - 1), Some(Gid::from_raw(last - 1)), "of its own volume");
        assert_eq!(uids.group(first), None, "a user's");
        assert_eq!(uids.group(last + 1), None, "not of the range");
        uids.leave().unwrap();
        drop(elsewhere);
    }

    #[test]
    fn a_claimed_uid_is_not_claimed_again() {
        if lacks_root() {
            return;
        }
        let (first, count) = (u32::MAX - 60, 8);
        let other = Claimant::of(first + 1);
        let mut uids = UidPool::claim(first, count, 1, BTreeSet::from([first + 2])).unwrap();
        // Not always the next ones: a child of another test may have inherited a claim.
        let pair = uids.pairs[0];
        let chosen = [pair.killer, pair.tenant].map(|uid| uid.as_raw() - first);
        assert!(chosen.iter().all(|uid| ![1, 2].contains(uid)), "{chosen:?}");
        assert!(!uids.claim_left(first + 1), "claimed");
        assert!(!uids.claim_left(first + 2), "reserved");
        assert!(!uids.claim_left(first - 1), "not of the range");
        let left = (3..8).find(|uid| !chosen.contains(uid)).unwrap();
        assert!(soon(|| uids.claim_left(first + left)));
        uids.leave().unwrap();
        drop(other);
    }

    #[test]
    fn a_part_of_scarce_uids_is_left_to_others() {
        let beside = |free| taken(free, 312, true);
        assert_eq!([418, 106, 28, 8, 2, 1, 0].map(beside), [312, 80, 20, 6, 2, 0, 0]);
        assert_eq!(taken(106, 312, false), 106, "there are no others");
    }

    #[test]
    fn uids_with_an_account_are_in_use() {
        let owned = owned();
        assert!(owned.contains(&0) && !owned.contains(&u32::MAX));
    }
}
