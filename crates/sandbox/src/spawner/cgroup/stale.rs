//! Removes cgroups that an earlier spawner left behind.

use std::{thread, time::Duration};

use nix::errno::Errno;

use super::{Directory, REQUESTS};

/// Attempts to remove a cgroup whose processes were just killed, and the pause
/// between them.
pub(super) const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(5);

/// Ends the processes of abandoned cgroups and removes them. A running spawner
/// holds a lock on its own. A spawner that was just killed may still hold it, too,
/// so the names of cgroups that remain are returned.
pub(super) fn remove(place: &Directory) -> Vec<String> {
    let mut left = place.children().unwrap_or_default();
    left.retain(|name| name.starts_with(REQUESTS) && !is_gone(place, name, ATTEMPTS));
    left
}

/// Tries to remove a cgroup that remained. Returns true if it is gone.
pub(super) fn is_gone(place: &Directory, name: &str, attempts: u32) -> bool {
    match place.below(name) {
        Ok(found) if found.lock().is_ok() => {
            empty(&found, attempts);
            matches!(place.remove(name), Ok(()) | Err(Errno::ENOENT))
        }
        found => found.is_err_and(|error| error == Errno::ENOENT),
    }
}

/// Kills the processes of all cgroups below `requests`, and removes the cgroups.
pub(super) fn empty(requests: &Directory, attempts: u32) {
    // Absent before Linux 5.14; leftover processes are killed by their UIDs.
    let _ = requests.write("cgroup.kill", "1");
    for name in requests.children().unwrap_or_default() {
        for attempt in 1..=attempts {
            if requests.remove(&name).is_ok() {
                break;
            }
            if attempt < attempts {
                thread::sleep(PAUSE);
            }
        }
    }
}
