//! Claims of UIDs and groups, which only privileged code can make.
//!
//! A spawner adds each ID that it claims to its supplementary groups.
//! setgroups(2) needs `CAP_SETGID`, so no tenant can make a claim.
//! `/proc/PID/status` shows it to every other spawner in the same PID namespace,
//! which are exactly those whose killers could reach our tenants. A claim
//! disappears with its process and needs no file.

use std::{collections::BTreeSet, io, thread, time::Duration};

use cmp_procfs::{Fields, is_gone};
use nix::unistd::{Gid, setgroups};
use rand::RngExt;
use rustix::process::getgroups;

/// Most attempts to claim IDs that another spawner wants at the same moment.
pub(super) const ATTEMPTS: u32 = 50;

/// Longest pause between two attempts. It is random, so that two spawners do not
/// meet again and again.
const MAX_PAUSE_MS: u64 = 20;

/// IDs of the processes that this one can see.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// UIDs and GIDs of processes.
    pub(super) used: BTreeSet<u32>,
    /// Supplementary groups of processes: among them, the claims.
    pub(super) claimed: BTreeSet<u32>,
}

/// The claims of this process.
#[derive(Debug)]
pub(super) struct Claims {
    /// Groups that the Pod gives to this process.
    inherited: Vec<Gid>,
    own: BTreeSet<u32>,
}

impl Claims {
    /// Starts without a claim.
    pub(super) fn new() -> io::Result<Self> {
        let inherited = getgroups()?;
        let inherited = inherited.iter().map(|group| Gid::from_raw(group.as_raw())).collect();
        Ok(Self { inherited, own: BTreeSet::new() })
    }

    /// Claims the IDs that `choose` selects, knowing those of other processes.
    /// The result is empty if it selects none, or if others always take them
    /// first.
    pub(super) fn add(
        &mut self,
        mut choose: impl FnMut(&Seen) -> Vec<u32>,
    ) -> io::Result<Vec<u32>> {
        for _ in 0..ATTEMPTS {
            let wanted = choose(&others()?);
            if wanted.is_empty() {
                break;
            }
            self.publish(&wanted)?;
            // Two spawners that publish the same ID both see it now, and both
            // choose again.
            let claimed = others()?.claimed;
            if !wanted.iter().any(|id| claimed.contains(id)) {
                self.own.extend(&wanted);
                return Ok(wanted);
            }
            self.publish(&[])?;
            pause();
        }
        Ok(Vec::new())
    }

    /// Claims an ID even if another process has claimed it too.
    pub(super) fn share(&mut self, id: u32) -> io::Result<()> {
        self.publish(&[id])?;
        self.own.insert(id);
        Ok(())
    }

    /// Groups that the Pod gives to this process.
    pub(super) fn inherited(&self) -> BTreeSet<u32> {
        self.inherited.iter().copied().map(Gid::as_raw).collect()
    }

    /// Removes the claims from a child, which could outlive this process.
    pub(super) fn leave(&self) -> nix::Result<()> {
        setgroups(&self.inherited)
    }

    fn publish(&self, wanted: &[u32]) -> nix::Result<()> {
        let claims = self.own.iter().chain(wanted).copied().map(Gid::from_raw);
        let all: Vec<Gid> = self.inherited.iter().copied().chain(claims).collect();
        setgroups(&all)
    }
}

/// Waits until other spawners may have finished their attempts.
pub(super) fn pause() {
    thread::sleep(Duration::from_millis(rand::rng().random_range(1..=MAX_PAUSE_MS)));
}

/// The IDs of all processes except this one.
fn others() -> io::Result<Seen> {
    let mut seen = Seen::default();
    let own = std::process::id();
    for pid in cmp_procfs::pids()?.into_iter().filter(|pid| *pid != own) {
        match Fields::status(pid) {
            Ok(status) => seen.add(&status),
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(seen)
}

impl Seen {
    fn add(&mut self, status: &Fields) {
        let ids = |name| {
            let text = status.value(name).unwrap_or_default();
            text.split_whitespace().filter_map(|id| id.parse::<u32>().ok())
        };
        self.used.extend(ids("Uid").chain(ids("Gid")));
        // A process that has ended keeps its groups until its parent reaps it.
        if !status.value("State").is_some_and(|state| state.starts_with('Z')) {
            self.claimed.extend(ids("Groups"));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::skip::lacks_root;

    /// A process with a supplementary group, which only root can start.
    pub(in crate::spawner) struct Claimant(Child);

    impl Claimant {
        pub(in crate::spawner) fn of(group: u32) -> Self {
            let mut command = Command::new("setpriv");
            command.args(["--groups", &group.to_string(), "sh", "-c", "echo; exec cat"]);
            let mut child =
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("setpriv");
            io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut [0]).expect("a line");
            Self(child)
        }
    }

    impl Drop for Claimant {
        fn drop(&mut self) {
            // It may have ended by itself.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn the_ids_of_a_process_are_read() {
        let ids = "Uid:\t7\t8\t9\t9\nGid:\t5\t5\t5\t5\nGroups:\t";
        let mut seen = Seen::default();
        seen.add(&Fields::from(format!("State:\tS (sleeping)\n{ids}3 4 \n").as_str()));
        seen.add(&Fields::from(format!("State:\tZ (zombie)\n{ids}6 \n").as_str()));
        assert_eq!(seen.used, BTreeSet::from([5, 7, 8, 9]));
        assert_eq!(seen.claimed, BTreeSet::from([3, 4]));
    }

    #[test]
    fn only_the_supplementary_groups_of_a_process_are_claims() {
        if lacks_root() {
            return;
        }
        let group = u32::MAX - 70;
        let claimant = Claimant::of(group);
        let seen = others().unwrap();
        assert!(seen.claimed.contains(&group) && !seen.used.contains(&group));
        drop(claimant);
        assert!(!others().unwrap().claimed.contains(&group));
    }
}
