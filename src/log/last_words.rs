//! The reason why the server ends, for the status of its Pod.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
};

/// File in which Kubernetes looks for the reason, under its default name.
const FILE: &str = "/dev/termination-log";

/// Most bytes that the kubelet takes; of more, it takes the last ones.
const ROOM: usize = 4096;

/// Leaves the reason for the kubelet, which shows it as the last state of the container.
/// Without it, the Pod only has the exit code. Does nothing outside of a Pod.
pub fn leave(reason: &str) {
    leave_in(Path::new(FILE), reason);
}

/// The log has the reason anyway: nothing is reported if it cannot be written.
fn leave_in(path: &Path, reason: &str) {
    if fs::symlink_metadata(path).is_ok_and(|file| file.is_file()) {
        let file = OpenOptions::new().write(true).truncate(true).open(path);
        let shown = &reason[..reason.floor_char_boundary(ROOM)];
        let _ = file.and_then(|mut file| file.write_all(shown.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_is_there_is_written() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("termination-log");
        leave_in(&path, "no Pod");
        assert!(!path.exists());
        fs::write(&path, "an earlier and longer reason").unwrap();
        leave_in(&path, "the reason");
        assert_eq!(fs::read_to_string(&path).unwrap(), "the reason");
        leave_in(&path, &format!("{}ü", "r".repeat(ROOM - 1)));
        assert_eq!(fs::read_to_string(&path).unwrap(), "r".repeat(ROOM - 1));
    }
}
