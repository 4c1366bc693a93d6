//! Counts open files without a name.

use std::{
    collections::BTreeSet,
    fs::{self, Metadata},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
};

use cmp_procfs::{Fields, is_gone};
use nix::sys::{
    stat::fstat,
    statfs::{TMPFS_MAGIC, statfs},
};

use super::{
    Subject,
    processes::{self, Process},
    totals::{MeterError, Totals},
    tree::BLOCK,
};

/// Most descriptors to read, which takes a fraction of a second.
const MAX_DESCRIPTORS: u32 = 100_000;

/// Inode numbers of files and sockets that were counted.
pub(super) type Seen = BTreeSet<u64>;

/// Counts open files that are in no directory. Threads may have separate
/// descriptors, so each thread is read.
pub(super) fn count(
    subject: &Subject<'_>,
    processes: &[Process],
    totals: &mut Totals,
) -> Result<Seen, MeterError> {
    let device = fstat(subject.root).map_err(|_unreadable| MeterError::Unreadable)?.st_dev;
    let mut scan = DescriptorScan { device, totals, seen: Seen::new(), left: MAX_DESCRIPTORS };
    for process in processes {
        for thread in processes::threads(process.pid)? {
            let directory = format!("/proc/{}/task/{thread}", process.pid);
            match scan.thread(&directory) {
                Err(ScanError::MeterError(stop)) => return Err(stop),
                Err(ScanError::Io(error)) if is_gone(&error) => {}
                Err(ScanError::Io(_)) => {
                    // A thread that is ending is unreadable too.
                    let hides = processes::is_alive(process.pid, thread)?;
                    if hides && !subject.may_hide {
                        return Err(MeterError::Unreadable);
                    }
                }
                Ok(()) => {}
            }
        }
    }
    Ok(scan.seen)
}

struct DescriptorScan<'t> {
    /// Device of the workspaces.
    device: u64,
    totals: &'t mut Totals,
    seen: Seen,
    left: u32,
}

enum ScanError {
    MeterError(MeterError),
    Io(io::Error),
}

impl DescriptorScan<'_> {
    fn thread(&mut self, directory: &str) -> Result<(), ScanError> {
        for entry in fs::read_dir(format!("{directory}/fd"))? {
            self.left = self.left.checked_sub(1).ok_or(MeterError::Unreadable)?;
            let path = entry?.path();
            match fs::metadata(&path) {
                // The descriptor was closed meanwhile.
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error.into()),
                Ok(about) => {
                    let number = path.file_name().unwrap_or_default().to_string_lossy();
                    self.descriptor(directory, &number, &about)?;
                }
            }
        }
        Ok(())
    }

    fn descriptor(
        &mut self,
        directory: &str,
        number: &str,
        about: &Metadata,
    ) -> Result<(), ScanError> {
        let is_socket = about.file_type().is_socket();
        let is_nameless = about.is_file() && about.nlink() == 0;
        if !(is_socket || is_nameless) || !self.seen.insert(about.ino()) {
            return Ok(());
        }
        if is_socket {
            self.totals.hidden(in_flight(&format!("{directory}/fdinfo/{number}"))?);
            return Ok(());
        }
        let bytes = BLOCK.saturating_mul(about.blocks());
        if about.dev() != self.device && is_memory(&format!("{directory}/fd/{number}")) {
            self.totals.memory_file(bytes);
            return Ok(());
        }
        Ok(self.totals.file(bytes)?)
    }
}

/// Number of descriptors that were sent through a socket and not received yet.
/// No process has them open.
fn in_flight(path: &str) -> Result<u64, ScanError> {
    match Fields::read(path) {
        Err(error) if is_gone(&error) => Ok(0),
        fields => Ok(fields?.number("scm_fds").unwrap_or_default()),
    }
}

/// Returns true if the file is in memory (tmpfs).
fn is_memory(path: &str) -> bool {
    statfs(path).is_ok_and(|about| about.filesystem_type() == TMPFS_MAGIC)
}

impl From<io::Error> for ScanError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<MeterError> for ScanError {
    fn from(stop: MeterError) -> Self {
        Self::MeterError(stop)
    }
}
