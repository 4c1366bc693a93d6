//! Removes cgroups that an earlier spawner left behind.

use std::{thread, time::Duration};

use super::{Directory, REQUESTS};

/// Attempts to remove a cgroup whose processes were just killed, and the pause
/// between them.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(5);

/// Ends the processes of abandoned cgroups and removes them. A running spawner
/// holds a lock on its own.
pub(super) fn remove(place: &Directory) {
    for name in place.children().unwrap_or_default() {
        let Some(found) = name.starts_with(REQUESTS).then(|| place.below(name.as_str())) else {
            continue;
        };
        if let Some(abandoned) = found.ok().filter(|found| found.lock().is_ok()) {
            empty(&abandoned);
            let _ = place.remove(&name);
        }
    }
}

/// Kills the processes of all cgroups below `requests`, and removes the cgroups.
pub(super) fn empty(requests: &Directory) {
    // Absent before Linux 5.14; leftover processes are killed by their UIDs.
    let _ = requests.write("cgroup.kill", "1");
    for name in requests.children().unwrap_or_default() {
        for _ in 0..ATTEMPTS {
            if requests.remove(&name).is_ok() {
                break;
            }
            thread::sleep(PAUSE);
        }
    }
}
