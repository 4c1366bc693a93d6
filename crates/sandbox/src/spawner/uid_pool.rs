//! UIDs and groups for requests, claimed by this process.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fs, io,
    ops::RangeInclusive,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::MetadataExt,
            net::{SocketAddr, UnixListener},
        },
    },
};

use caps::{CapSet, Capability};
use nix::unistd::{Gid, Uid};
use thiserror::Error;

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
        "no two UIDs from {first} to {last} are free: accounts, processes or other supervisors of \
         this node use them: choose another range with --uid-range"
    )]
    NoneFree { first: u32, last: u32 },
    #[error("cannot read {path}: {error}")]
    Read { path: &'static str, error: io::Error },
}

/// One of this many IDs of the range is reserved for groups of caches.
const GROUPS: u32 = 8;

/// UIDs that no other supervisor of this node leases while this value lives.
#[derive(Debug)]
pub(super) struct UidPool {
    pub(super) pairs: Vec<UidPair>,
    _claims: Vec<UnixListener>,
    range: RangeInclusive<u32>,
    /// Groups that own caches, claimed at first use.
    groups: BTreeMap<u32, Option<UnixListener>>,
}

/// The two UIDs of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UidPair {
    /// UID that the killer and the meter run under; see [`super::kill`].
    pub(super) killer: Uid,
    pub(super) tenant: Uid,
}

impl UidPool {
    /// Claims up to `wanted` pairs of UIDs of a range, without those in
    /// `reserved`.
    pub(super) fn claim(
        first: u32,
        count: u32,
        wanted: u32,
        reserved: &BTreeSet<u32>,
    ) -> Result<Self, NoUids> {
        for needed in [Capability::CAP_SETUID, Capability::CAP_SETGID] {
            let has = caps::has_cap(None, CapSet::Effective, needed);
            if !has.map_err(NoUids::Capabilities)? {
                return Err(NoUids::Capability(needed));
            }
        }
        let last = first.saturating_add(count.saturating_sub(1));
        check_maps(first, last)?;
        let taken = taken()?;
        let free = (first..=last).filter(|uid| !taken.contains(uid) && !reserved.contains(uid));
        let claimed = free.filter_map(|uid| Some((Uid::from_raw(uid), claim(uid)?)));
        let most = (count - count / GROUPS).min(2 * wanted) as usize;
        let (uids, claims): (Vec<_>, Vec<_>) = claimed.take(most).unzip();
        let pair = |pair: &[Uid]| match *pair {
            [killer, tenant] => Some(UidPair { killer, tenant }),
            _ => None,
        };
        let pairs: Vec<UidPair> = uids.chunks(2).filter_map(pair).collect();
        if pairs.is_empty() {
            return Err(NoUids::NoneFree { first, last });
        }
        let (range, groups) = (first..=last, BTreeMap::new());
        Ok(Self { pairs, _claims: claims, range, groups })
    }

    /// The killer's UID of some pair; only for use before the first lease.
    pub(super) fn any_killer(&self) -> Option<Uid> {
        self.pairs.first().map(|pair| pair.killer)
    }

    /// Claims a further UID of the range that has processes but no account.
    pub(super) fn claim_left(&self, uid: u32) -> Option<UnixListener> {
        let is_nobodys = self.range.contains(&uid) && !owned().contains(&uid);
        // UIDs claimed before had no process at that time.
        is_nobodys.then(|| claim(uid)).flatten()
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
        self.groups.entry(gid).or_insert_with(|| claim(gid));
        Some(Gid::from_raw(gid))
    }

    /// Claims a free group. Groups come from the end of the range, UIDs from
    /// its beginning.
    pub(super) fn free_group(&mut self, used: &BTreeSet<u32>) -> Option<Gid> {
        let (taken, range) = (taken().ok()?, self.range.clone());
        let is_free = |gid: &u32| !used.contains(gid) && !taken.contains(gid);
        range.rev().filter(is_free).find_map(|gid| {
            let Entry::Vacant(unused) = self.groups.entry(gid) else { return None };
            // This fails for UIDs of this pool, because they are claimed.
            unused.insert(Some(claim(gid)?));
            Some(Gid::from_raw(gid))
        })
    }
}

fn check_maps(first: u32, last: u32) -> Result<(), NoUids> {
    for path in ["/proc/self/uid_map", "/proc/self/gid_map"] {
        let map = cmp_procfs::id_map(path).map_err(|error| NoUids::Read { path, error })?;
        if let Some(uid) = (first..=last).find(|uid| !cmp_procfs::is_mapped(&map, *uid)) {
            return Err(NoUids::Unmapped { first, last, uid });
        }
    }
    Ok(())
}

/// UIDs in use: those of accounts, groups, processes and System V IPC objects.
fn taken() -> Result<Vec<u32>, NoUids> {
    let mut taken = owned();
    let processes = fs::read_dir("/proc").map_err(|error| NoUids::Read { path: "/proc", error })?;
    taken.extend(processes.flatten().filter_map(|entry| Some(entry.metadata().ok()?.uid())));
    Ok(taken)
}

/// UIDs in use without a process.
fn owned() -> Vec<u32> {
    let mut found = Vec::new();
    for path in ["/etc/passwd", "/etc/group"] {
        // An image made from scratch has no such file.
        let Ok(text) = fs::read_to_string(path) else { continue };
        found.extend(text.lines().filter_map(|line| line.split(':').nth(2)?.parse::<u32>().ok()));
    }
    found.extend(cmp_procfs::ipc_owners());
    found
}

fn claim(uid: u32) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("cmp-supervisor/uid/{uid}")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_in_the_range_and_no_uid_of_the_pool() {
        let (first, last) = (u32::MAX - 40, u32::MAX - 30);
        let mut uids = UidPool {
            pairs: vec![UidPair { killer: Uid::from_raw(first), tenant: Uid::from_raw(first + 1) }],
            _claims: Vec::new(),
            range: first..=last,
            groups: BTreeMap::new(),
        };
        let used = BTreeSet::from([last]);
        let elsewhere = claim(last - 1);
        assert_eq!(uids.free_group(&used), Some(Gid::from_raw(last - 2)));
        assert_eq!(uids.free_group(&used), Some(Gid::from_raw(last - 3)));
        assert_eq!(uids.group(last - 2), Some(Gid::from_raw(last - 2)), "known already");
        assert_eq!(uids.group(first), None, "a user's");
        assert_eq!(uids.group(last + 1), None, "not of the range");
        drop(elsewhere);
    }

    #[test]
    fn a_uid_can_be_claimed_once() {
        let uid = u32::MAX - 7;
        let claimed = claim(uid);
        assert!(claimed.is_some() && claim(uid).is_none());
        drop(claimed);
        assert!(claim(uid).is_some());
    }

    #[test]
    fn uids_with_an_account_or_a_process_are_in_use() {
        let taken = taken().unwrap();
        assert!(taken.contains(&0));
        assert!(!taken.contains(&u32::MAX));
    }
}
