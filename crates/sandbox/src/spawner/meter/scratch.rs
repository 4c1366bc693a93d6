//! Counts files in directories in memory that a request has for itself.
//!
//! Only its own processes see these mounts. The way there is the root of one of them, which
//! a meter may open as the tenant.

use std::{collections::BTreeSet, fs, io, os::unix::fs::MetadataExt};

use rustix::fs::statvfs;

use super::{Subject, processes::Process, totals::Totals};
use crate::{wire::file_memory::memory_of_files, worker::namespaces::SCRATCHES};

/// Counts all files, also deleted ones, and returns the devices. A process that lives and
/// has a root that cannot be opened has descriptors that cannot be read either.
pub(super) fn count(
    subject: &Subject<'_>,
    processes: &[Process],
    totals: &mut Totals,
) -> BTreeSet<u64> {
    if !subject.has_own_mounts {
        return BTreeSet::new();
    }
    // All of them have the same root.
    let found = processes.iter().find_map(|process| used(process.thread).ok());
    let found = found.into_iter().flatten();
    found.inspect(|(_, bytes)| totals.memory_file(*bytes)).map(|(device, _)| device).collect()
}

/// The device of each directory, and the memory that its files take.
fn used(thread: u32) -> io::Result<Vec<(u64, u64)>> {
    let of = |name: &&str| {
        let path = format!("/proc/{thread}/root/{name}");
        let (device, about) = (fs::metadata(&path)?.dev(), statvfs(&path)?);
        let bytes = about.f_blocks.saturating_sub(about.f_bfree).saturating_mul(about.f_frsize);
        let files = about.f_files.saturating_sub(about.f_ffree);
        Ok((device, memory_of_files(bytes, files)))
    };
    SCRATCHES.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::Read,
        os::unix::process::CommandExt,
        process::{Command, Stdio},
    };

    use nix::{
        sys::signal::{Signal, killpg},
        unistd::Pid,
    };

    use super::{super::measure, *};
    use crate::{
        skip::{lacks_root, skip},
        spawner::meter::Measurement,
        wire::{exceeded::ExceededLimit, message::RequestLimits},
    };

    const MIB: u64 = 1 << 20;

    /// The files in memory of a process with mounts of its own, and what a limit says.
    fn measured(has_own_mounts: bool, script: &str) -> (u64, Measurement) {
        let mounts = "mount -t tmpfs none /tmp; mount -t tmpfs none /dev/shm";
        let script = format!("{mounts}; ({script}; echo; exec sleep 60) & wait");
        let mut process = Command::new("unshare");
        process.args(["-m", "sh", "-c", &script]).process_group(0);
        let mut process = process.stdout(Stdio::piped()).spawn().unwrap();
        process.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let worker = Pid::from_raw(process.id().cast_signed());
        let (root, workers) = (File::open("/").unwrap().into(), [worker]);
        let subject = Subject { has_own_mounts, ..Subject::of(&root, &workers) };
        let (memory, disk) = (Some(20 * MIB), Some(MIB));
        let limits = RequestLimits { memory, disk, ..RequestLimits::default() };
        let reading = measure(&subject, limits);
        killpg(worker, Signal::SIGKILL).unwrap();
        process.wait().unwrap();
        (reading.gauge().unwrap().memory, reading.measurement())
    }

    #[test]
    fn files_in_directories_of_its_own_are_memory_of_a_request() {
        if lacks_root() {
            return;
        }
        let fill = "head -c 16M /dev/zero >/tmp/a; head -c 8M /dev/zero >/dev/shm/b";
        let (memory, found) = measured(true, fill);
        assert!((24 * MIB..30 * MIB).contains(&memory), "{memory}");
        assert_eq!(found, Measurement::Exceeded(ExceededLimit::Memory));
        let (memory, found) = measured(false, fill);
        assert!(memory < 6 * MIB, "those of all: {memory}");
        assert_eq!(found, Measurement::WithinLimits);
    }

    #[test]
    fn a_deleted_file_that_is_open_counts_once() {
        if lacks_root() {
            return;
        }
        let fill = "exec 3>/dev/shm/a; rm /dev/shm/a; head -c 12M /dev/zero >&3";
        let (memory, found) = measured(true, fill);
        assert!((12 * MIB..18 * MIB).contains(&memory), "{memory}");
        assert_eq!(found, Measurement::WithinLimits);
    }

    #[test]
    fn a_deleted_file_that_is_mapped_counts_once() {
        if lacks_root() {
            return;
        }
        if Command::new("python3").arg("-c").output().is_err() {
            return skip("needs python3");
        }
        let fill = "f = open('/dev/shm/a', 'w+b'); f.write(bytes(6 << 20)); f.flush(); \
                    m = mmap.mmap(f.fileno(), 1 << 20); os.remove('/dev/shm/a'); \
                    os.closerange(3, 99); print(flush=True); time.sleep(60)";
        let (memory, found) =
            measured(true, &format!("exec python3 -c \"import mmap, os, time; {fill}\""));
        assert!((6 * MIB..18 * MIB).contains(&memory), "{memory}");
        assert_eq!(found, Measurement::WithinLimits);
    }
}
