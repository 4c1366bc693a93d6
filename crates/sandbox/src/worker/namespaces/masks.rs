//! The parts of `/proc` that the container hides or makes read-only.
//!
//! A new procfs has none of the mounts that the container's runtime put over
//! parts of the old one, so they are made again.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use cmp_procfs::{Mount, mounts};
use nix::mount::{MsFlags, mount};

use super::mounts::bind;

const PROC: &str = "/proc";

/// Options of an empty directory over a hidden one.
const EMPTY: &str = "size=4k,nr_inodes=2,mode=555";

/// The mounts below `/proc` of this process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Masks(Vec<(PathBuf, Mask)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mask {
    /// Something else is mounted there.
    Hidden,
    /// The same part of procfs is mounted there, usually read-only.
    ReadOnly,
}

impl Masks {
    /// Reads those of the container, before this process has mounts of its own.
    pub(crate) fn read() -> io::Result<Self> {
        mounts().map(|mounts| Self::of(&mounts))
    }

    fn of(mounts: &[Mount]) -> Self {
        let mask = |mount: &Mount| {
            let path = mount.point.strip_prefix(PROC).ok()?;
            let first = path.components().next()?.as_os_str().to_str()?;
            // The new procfs has other processes.
            let is_process = first.bytes().all(|byte| byte.is_ascii_digit());
            let mask = if mount.kind == "proc" { Mask::ReadOnly } else { Mask::Hidden };
            (!is_process).then(|| (path.to_owned(), mask))
        };
        let mut masks: Vec<_> = mounts.iter().filter_map(mask).collect();
        // Of several mounts at one path, the last one counts.
        masks.reverse();
        masks.sort_by(|(a, _), (b, _)| a.cmp(b));
        masks.dedup_by(|(b, _), (a, _)| a == b);
        Self(masks)
    }

    /// Makes them again below `proc`. A path that is missing needs none.
    pub(super) fn apply(&self, proc: &Path) -> io::Result<()> {
        for (path, mask) in &self.0 {
            let target = proc.join(path);
            let Ok(about) = fs::metadata(&target) else { continue };
            match mask {
                Mask::ReadOnly => bind(&target, &target, MsFlags::MS_RDONLY | MsFlags::MS_NOEXEC)?,
                Mask::Hidden if about.is_dir() => {
                    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
                    mount(Some("tmpfs"), &target, Some("tmpfs"), flags, Some(EMPTY))?;
                }
                // Without MS_NODEV, which would make the device unreadable.
                Mask::Hidden => {
                    let (null, nowhere) = (Some("/dev/null"), None::<&str>);
                    mount(null, &target, nowhere, MsFlags::MS_BIND, nowhere)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cmp_procfs::parse_mounts;

    use super::*;

    #[test]
    fn mounts_of_a_runtime_below_proc_are_masks() {
        let table = b"1 0 0:5 / /proc rw - proc proc rw\n\
            2 1 0:5 /sys /proc/sys ro - proc proc rw\n\
            3 1 0:6 /null /proc/keys rw - tmpfs tmpfs rw\n\
            4 1 0:7 / /proc/acpi ro - tmpfs tmpfs ro\n\
            5 1 0:6 /null /proc/17/mem rw - tmpfs tmpfs rw\n\
            6 1 0:8 / /process rw - ext4 /dev/vda rw\n\
            7 2 0:9 / /proc/sys ro - tmpfs tmpfs rw\n";
        let expected = [
            ("acpi", Mask::Hidden),
            ("keys", Mask::Hidden),
            // The newest mount at the path.
            ("sys", Mask::Hidden),
        ];
        let expected = expected.map(|(path, mask)| (PathBuf::from(path), mask));
        assert_eq!(Masks::of(&parse_mounts(table)), Masks(expected.to_vec()));
    }
}
