//! Volumes whose files the kubelet replaced while a command ran.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, SystemTime},
};

use cmp_sandbox::CURRENT_FILES;

/// Most directories above a file in which the link is looked for.
const MAX_DEPTH: usize = 16;

/// The kernel's time of a change is the one of its last tick.
const TICK: Duration = Duration::from_millis(10);

/// The time at which it was decided what a command may read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided(pub(crate) SystemTime);

impl Decided {
    /// The volume with a file, if its files were replaced since then.
    pub(crate) fn replaced(self, path: &Path) -> Option<&Path> {
        let mut above = path.ancestors().skip(1).take(MAX_DEPTH);
        let (volume, changed) = above.find_map(|top| Some((top, changed(top)?)))?;
        (changed + TICK >= self.0).then_some(volume)
    }
}

/// True for a file or directory that the kubelet replaces with its volume: its link leads
/// through a directory such as `..2026_11_28_20_00_00.1`.
pub(crate) fn is_versioned(path: &Path) -> bool {
    let is_version = |part: &OsStr| part.as_encoded_bytes().starts_with(b"..");
    fs::canonicalize(path).is_ok_and(|real| real.iter().any(is_version))
}

/// The time at which the files of a volume were replaced last.
fn changed(volume: &Path) -> Option<SystemTime> {
    let link =
        fs::symlink_metadata(volume.join(CURRENT_FILES)).ok().filter(fs::Metadata::is_symlink)?;
    let seconds = Duration::from_secs(u64::try_from(link.ctime()).ok()?);
    let rest = Duration::from_nanos(u64::try_from(link.ctime_nsec()).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(seconds + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_volume_that_changed_since_then_counts() {
        let directory = tempfile::tempdir().unwrap();
        let (now, minute) = (SystemTime::now(), Duration::from_mins(1));
        let [file, later] =
            ["sub/file", "file"].map(|name| directory.path().join("volume").join(name));
        assert_eq!(Decided(now - minute).replaced(&file), None, "no volume");
        let volume = directory.path().join("volume");
        fs::create_dir(&volume).unwrap();
        std::os::unix::fs::symlink("..1", volume.join(CURRENT_FILES)).unwrap();
        assert_eq!(Decided(now).replaced(&file), Some(&*volume));
        assert_eq!(Decided(now + minute).replaced(&later), None, "it was replaced before");
    }
}
