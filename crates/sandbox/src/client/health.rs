//! Condition of the spawner and of its leases.

use std::{collections::BTreeMap, path::Path};

use cmp_go::errno_text;

use crate::wire::quarantine::Quarantined;

/// Condition of the spawner and of its leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The spawner does not answer, so requests neither start nor end.
    pub is_silent: bool,
    /// Number of orphans of requests that the spawner has collected.
    pub orphans: u64,
    /// Number of leases that could not be ended at once, since the start.
    pub quarantines: u64,
    /// Leases that cannot be ended yet, with the reasons.
    quarantined: BTreeMap<u64, String>,
}

impl Health {
    /// Number of leases that cannot be ended yet.
    #[must_use]
    pub fn quarantined(&self) -> usize {
        self.quarantined.len()
    }

    /// Reasons why leases cannot be ended yet.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        self.quarantined.values().map(String::as_str)
    }

    /// Adds a lease and returns the reason. `root` is the directory of all
    /// workspaces.
    pub(super) fn quarantine(&mut self, lease: &Quarantined, root: &Path) -> String {
        let reason = reason(lease, root);
        self.quarantines += 1;
        self.quarantined.insert(lease.lease, reason.clone());
        reason
    }

    /// Removes a lease that has ended. Returns false if it was not quarantined.
    pub(super) fn heal(&mut self, lease: u64) -> bool {
        self.quarantined.remove(&lease).is_some()
    }
}

fn reason(lease: &Quarantined, root: &Path) -> String {
    let Quarantined { lease: _, uid, processes, errno, workspace } = lease;
    if *errno != 0 {
        let path = root.join(workspace);
        return format!("cannot remove {}: {}", path.display(), errno_text(*errno));
    }
    let owner = uid.map_or_else(|| "a request".to_owned(), |uid| format!("UID {uid}"));
    let pids: Vec<_> = processes.iter().map(u32::to_string).collect();
    match pids.as_slice() {
        [] => format!("cannot end the processes of {owner}"),
        pids => format!("cannot kill the processes of {owner}: PIDs {}", pids.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quarantined(lease: u64) -> Quarantined {
        Quarantined { lease, uid: Some(7), workspace: "name".to_owned(), ..Quarantined::default() }
    }

    #[test]
    fn a_lease_heals_once() {
        let mut health = Health::default();
        health.quarantine(&quarantined(1), Path::new("/work"));
        health.quarantine(&quarantined(2), Path::new("/work"));
        assert_eq!(health.quarantined(), 2);
        assert!(health.heal(1) && !health.heal(1) && !health.heal(3));
        assert_eq!((health.quarantined(), health.quarantines), (1, 2));
    }

    #[test]
    fn the_reason_has_process_ids_or_a_path() {
        let reason = |lease| Health::default().quarantine(&lease, Path::new("/work"));
        let processes = Quarantined { processes: vec![5, 6], ..quarantined(1) };
        assert_eq!(reason(processes), "cannot kill the processes of UID 7: PIDs 5, 6");
        let files = Quarantined { errno: 30, ..quarantined(1) };
        assert_eq!(reason(files), "cannot remove /work/name: read-only file system");
        assert_eq!(reason(quarantined(1)), "cannot end the processes of UID 7");
    }
}
