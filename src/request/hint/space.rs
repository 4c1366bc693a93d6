//! Volumes without space: that of the work directory, and those of a request in memory.

use std::path::Path;

use cmp_sandbox::{SCRATCH_PATHS, SCRATCH_ROOM, Termination};

use super::{reach::Reach, signal_of};
use crate::volume::WorkVolume;

const SIGBUS: i32 = 7;

/// Words of programs that found no space (ENOSPC), in lower case.
const NO_SPACE: &str = "no space left on device";

/// The words of `fallocate` if no space can be reserved, and the remedy.
const NOT_RESERVED: &str = "fallocate failed: Operation not supported";
const WRITE: &str = "the sandbox reserves no space for files: write them, or create them without space \
                     (truncate -s SIZE FILE)";

/// The likely reason if it has space again.
const MEANWHILE: &str = "but other requests may have filled it for a moment";

/// A part of the words of programs that could not watch a file (ENOSPC), in lower case.
const WATCH: &str = "watch";

/// Characters before a path in an error. Others are part of a longer path.
const BEFORE: [char; 9] = [' ', '\t', '\'', '"', '`', '\u{2018}', '(', ':', '='];

/// The sentence about the volume on which a command found no space, if it says so or its end
/// suggests it.
pub(in crate::request) async fn no_space(
    (end, text): (Termination, &str),
    reach: &Reach,
    volume: &WorkVolume,
) -> Option<String> {
    if text.contains(NOT_RESERVED) {
        return Some(WRITE.to_owned());
    }
    if !text.lines().any(says_so) {
        let is_bus_error = signal_of(end) == Some(SIGBUS);
        return if is_bus_error { no_memory_of_file(reach, volume).await } else { None };
    }
    let has_scratches = reach.hides_closed;
    // Words and paths can be on one line or in a traceback.
    let own = volume.path();
    let lines = || text.lines().filter(|line| says_so(line));
    if has_scratches && lines().any(|line| names_scratch(line, own)) {
        return Some(scratch());
    }
    let is_own = own.to_str().is_some_and(|own| lines().any(|line| line.contains(own)));
    Some(match volume.found_full().await {
        Ok(full) => full,
        Err(found) if is_own => format!("{found}, {MEANWHILE}"),
        Err(found) if has_scratches => {
            format!("{found}, {MEANWHILE}, or it wrote elsewhere: {}", scratch())
        }
        Err(found) => {
            format!("{found}, {MEANWHILE}, or another volume has no bytes or no inodes left")
        }
    })
}

/// A file that is mapped into memory gets its space when it is used. Without space, the kernel
/// sends SIGBUS, but not only then.
async fn no_memory_of_file(reach: &Reach, volume: &WorkVolume) -> Option<String> {
    let reason = match volume.found_full().await {
        Ok(full) => full,
        Err(_) if reach.hides_closed => scratch(),
        Err(_) => return None,
    };
    Some(format!("a file in its memory may have found no space: {reason}"))
}

/// True if a line is about files. Watches of files, of which the node has a limit, are not.
fn says_so(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    line.contains(NO_SPACE) && !line.contains(WATCH)
}

fn scratch() -> String {
    let places = SCRATCH_PATHS.join(" and ");
    format!("{places} have {SCRATCH_ROOM} each for a command: write to $TMPDIR instead")
}

/// True if a line names a path in a directory that each request has for itself. The work
/// directory can be in one.
fn names_scratch(line: &str, own: &Path) -> bool {
    let is_below = |(at, _): (usize, &str)| {
        let starts = line[..at].chars().next_back().is_none_or(|before| BEFORE.contains(&before));
        starts && !own.to_str().is_some_and(|own| line[at..].starts_with(own))
    };
    let below = SCRATCH_PATHS.map(|path| format!("{path}/"));
    below.iter().any(|path| line.match_indices(path.as_str()).any(is_below))
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;
    use crate::budget::Budget;

    const FAILED: Termination = Termination::Exit(1);

    fn in_namespaces(hides_closed: bool) -> Reach {
        Reach { hides_closed, ..Reach::default() }
    }

    #[tokio::test]
    async fn a_directory_in_memory_is_named_with_its_own_size() {
        let volume = WorkVolume::new("/nowhere".into());
        for text in [
            "bash: line 1: /tmp/big: No space left on device",
            "cp: error writing '/dev/shm/x/a': No space left on device",
            "OSError: [Errno 28] No space left on device: '/tmp/10237'",
            "x\nError: open /tmp/x: no space left on device",
        ] {
            let said = no_space((FAILED, text), &in_namespaces(true), &volume).await.unwrap();
            assert!(said.starts_with("/tmp and /dev/shm have 64 MiB and 10,240 files"), "{said}");
            assert!(said.ends_with("write to $TMPDIR instead"), "{said}");
        }
    }

    #[tokio::test]
    async fn a_work_volume_with_space_is_not_called_full() {
        // It has space on any machine that compiles this.
        let directory = tempfile::tempdir().unwrap();
        let volume = WorkVolume::new(directory.path().to_owned());
        let text = "head: error writing 'standard output': No space left on device";
        let said = no_space((FAILED, text), &in_namespaces(true), &volume).await.unwrap();
        assert!(said.contains(" free, but other requests may have filled it"), "{said}");
        assert!(said.contains("elsewhere: /tmp and /dev/shm have 64 MiB"), "{said}");
        let said = no_space((FAILED, text), &in_namespaces(false), &volume).await.unwrap();
        assert!(said.contains("another volume") && !said.contains("is full"), "{said}");
        let own =
            format!("write {}/w-3/tmp/x: no space left on device", directory.path().display());
        let said = no_space((FAILED, &own), &in_namespaces(true), &volume).await.unwrap();
        assert!(said.ends_with("for a moment") && !said.contains("/dev/shm"), "{said}");
        for other in ["no such file", "failed to watch .: no space left on device"] {
            assert_eq!(no_space((FAILED, other), &in_namespaces(true), &volume).await, None);
        }
    }

    #[tokio::test]
    async fn a_full_work_volume_is_told_with_its_numbers_and_the_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let mut budget = Budget { in_memory: true, ..Budget::default() };
        // The volume has more files than that.
        budget.memory.amount = 1 << 20;
        let volume = WorkVolume::new(directory.path().to_owned());
        let volume = volume.within(watch::channel(budget).1);
        for tier in [true, false] {
            let text = "mkdir: No space left on device";
            let said = no_space((FAILED, text), &in_namespaces(tier), &volume).await.unwrap();
            assert!(said.contains("is full: 0 B of 1 MiB free"), "{said}");
            assert!(said.contains("raise the volume's size"), "{said}");
        }
    }

    #[tokio::test]
    async fn a_bus_error_may_be_a_lack_of_space() {
        let directory = tempfile::tempdir().unwrap();
        let volume = WorkVolume::new(directory.path().to_owned());
        for end in [Termination::Signal { number: SIGBUS, core: false }, Termination::Exit(135)] {
            let said = no_space((end, "bus error"), &in_namespaces(true), &volume).await.unwrap();
            assert!(said.contains("no space: /tmp and /dev/shm have 64 MiB"), "{said}");
            assert_eq!(no_space((end, ""), &in_namespaces(false), &volume).await, None);
        }
        assert_eq!(no_space((FAILED, ""), &in_namespaces(true), &volume).await, None);
    }

    #[test]
    fn a_path_of_the_work_directory_is_not_in_a_directory_in_memory() {
        let own = Path::new("/tmp/work");
        assert!(!names_scratch("write /tmp/work/w-3/tmp/x: no space left on device", own));
        assert!(!names_scratch("write /var/lib/w-3/tmp/x: no space left on device", own));
        assert!(names_scratch("write /tmp/x: no space left on device", own));
    }
}
