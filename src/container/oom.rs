//! Counts processes that the kernel killed for lack of memory.

use std::{fs::File, io, os::unix::fs::FileExt, sync::Arc};

use super::{Bound, cgroup::Cgroups};

/// Key of the count in the files of both versions.
const KILLS: &str = "oom_kill ";

/// Longest part of a file to read, in bytes. The kernel's files have about 150.
const MOST: usize = 1024;

/// The kernel's count for the cgroup in which commands run, unless each request
/// has its own.
#[derive(Clone, Debug, Default)]
pub struct OomCounter {
    /// Files with the count. They stay open, because each request reads them.
    files: Arc<[File]>,
}

/// The memory limit at which the kernel killed a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OomKill {
    /// The limit of the container or of the node.
    pub limit: Bound,
}

/// The conclusion about a process that was killed, if the count has not risen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoKill {
    /// The kernel did not do it for lack of memory.
    Counted,
    /// There is no count, and the container has a limit that it may have reached.
    Limited,
    /// There is no count, and the container has no limit.
    Unlimited,
}

impl OomCounter {
    /// Finds the count. Call it when this process is in its final cgroup.
    #[must_use]
    pub fn find() -> Self {
        Self { files: Cgroups::find().oom_files().collect() }
    }

    /// The count so far; 0 if it cannot be read.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.files.iter().filter_map(|file| kills(&text(file).ok()?)).sum()
    }

    /// The reason, if the count has risen since it was `before`.
    #[must_use]
    pub fn since(&self, before: u64) -> Option<OomKill> {
        (self.read() > before).then(|| OomKill { limit: super::memory() })
    }

    /// The conclusion if [`Self::since`] has no reason.
    #[must_use]
    pub fn no_kill(&self) -> NoKill {
        let is_counted = |file: &File| text(file).is_ok_and(|text| kills(&text).is_some());
        if self.files.iter().any(is_counted) {
            NoKill::Counted
        } else if super::memory().is_own {
            NoKill::Limited
        } else {
            NoKill::Unlimited
        }
    }
}

/// The kernel makes the text anew for each read from the start.
fn text(file: &File) -> io::Result<String> {
    let mut text = [0; MOST];
    let length = file.read_at(&mut text, 0)?;
    Ok(String::from_utf8_lossy(text.get(..length).unwrap_or_default()).into_owned())
}

fn kills(table: &str) -> Option<u64> {
    table.lines().find_map(|line| line.strip_prefix(KILLS)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_count_is_read_in_both_versions() {
        assert_eq!(kills("low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n"), Some(1));
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\n"), None);
    }

    #[test]
    fn a_kill_is_reported_with_the_limit() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let counter = OomCounter { files: Arc::new([file.reopen().unwrap()]) };
        fs::write(file.path(), "oom_kill 1\n").unwrap();
        let before = counter.read();
        assert_eq!((before, counter.since(before)), (1, None));
        assert_eq!(counter.no_kill(), NoKill::Counted);
        let is_own = crate::container::memory().is_own;
        let expected = if is_own { NoKill::Limited } else { NoKill::Unlimited };
        assert_eq!(OomCounter::default().no_kill(), expected);
        fs::write(file.path(), "oom_kill 2\n").unwrap();
        assert_eq!(counter.since(before), Some(OomKill { limit: crate::container::memory() }));
    }
}
