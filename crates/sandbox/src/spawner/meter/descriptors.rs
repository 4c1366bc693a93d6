//! Counts open files without a name, and the kernel's memory for descriptors.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, Metadata},
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
};

use cmp_procfs::{Fields, is_gone, netlink_buffers};
use memchr::memmem;
use nix::sys::{
    resource::{UsageWho, getrusage},
    stat::{SFlag, fstat},
    statfs::{TMPFS_MAGIC, statfs},
    time::TimeValLike,
};

use super::{
    Subject,
    processes::{self, Process},
    totals::{Excess, Totals},
};
use crate::{kernel::entries::BLOCK, spawner::census::socket_buffers};

/// Most descriptors to read, which takes a fraction of a second.
const MAX_DESCRIPTORS: u32 = 100_000;

/// Memory of the kernel for a descriptor, and for the socket behind it.
const DESCRIPTOR: u64 = 512;
const SOCKET: u64 = 2048;

const EPOLL: &str = "anon_inode:[eventpoll]";

/// Memory of the kernel for a queue of inotify: 16,384 events, its default of
/// `fs.inotify.max_queued_events`, with names of up to 255 bytes. Nobody but its owner can
/// see how many wait there.
const EVENTS: u64 = 16_384 * 512;
const INOTIFY: &str = "anon_inode:inotify";

/// Bytes of the lines of watches that are read at once.
const PIECE: usize = 64 << 10;

/// The beginning of each of their lines. Locks have lines, too.
const WATCHED: &[u8] = b"tfd:";

/// CPU time for watches, in microseconds; there may be millions. All instances of a
/// node share one list of locks, which the kernel walks for each of them.
const MAX_WATCH_TIME: i64 = 500_000;

/// Least capacity of a pipe: two pages. Linux gives all pipes of a UID together
/// 64 MiB more than that.
const PIPE: u64 = 8192;

/// Inode numbers of open files without a name, and devices.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// On a disk or the work volume.
    pub(super) files: BTreeSet<u64>,
    /// In memory.
    pub(super) memory: BTreeSet<u64>,
    /// Device of the workspaces.
    pub(super) volume: u64,
    /// Devices of which every file is counted already.
    pub(super) scratch: BTreeSet<u64>,
}

/// Counts what is in no directory. Threads may have separate descriptors, so
/// each thread is read. Files on the devices of `scratch` are counted already.
pub(super) fn count(
    subject: &Subject<'_>,
    processes: &[Process],
    scratch: BTreeSet<u64>,
    totals: &mut Totals,
) -> Open {
    let Ok(about) = fstat(subject.root) else {
        totals.blind();
        return Open::default();
    };
    let mut scan = DescriptorScan {
        totals,
        seen: BTreeSet::new(),
        open: Open { volume: about.st_dev, scratch, ..Open::default() },
        epolls: BTreeMap::new(),
        queues: BTreeSet::new(),
        has_own_uid: subject.identity.is_some(),
        has_hidden_sockets: subject.has_hidden_sockets,
        buffers: None,
        left: MAX_DESCRIPTORS,
    };
    for process in processes {
        for thread in processes::threads(process.pid) {
            match scan.thread(process.pid, thread) {
                Ok(()) => {}
                Err(ScanError::Full) => {
                    scan.totals.blind();
                    scan.watches();
                    return scan.open;
                }
                Err(ScanError::Io(error)) if is_gone(&error) => {}
                // A thread that is ending is unreadable too.
                Err(ScanError::Io(_)) => {
                    if !subject.may_hide && processes::is_alive(process.pid, thread) {
                        scan.totals.blind();
                    }
                }
            }
        }
    }
    scan.watches();
    scan.open
}

struct DescriptorScan<'t> {
    totals: &'t mut Totals,
    /// Devices and inode numbers that were counted.
    seen: BTreeSet<(u64, u64)>,
    open: Open,
    /// Paths that tell the watches of instances of epoll, once for each process and number:
    /// threads share descriptors. The kernel makes such a text at once, so it is read when
    /// descriptors are known to be few.
    epolls: BTreeMap<(u32, String), String>,
    /// Processes, and their numbers of descriptors, with a queue of inotify. Threads nearly
    /// always share them, and a queue has no inode number of its own.
    queues: BTreeSet<(u32, String)>,
    /// Passes count the buffers of its sockets by its UID, but for those of netlink.
    has_own_uid: bool,
    /// Passes may not.
    has_hidden_sockets: bool,
    /// Bytes in the buffers of all other sockets by inode, when the first socket is seen.
    buffers: Option<BTreeMap<u64, u64>>,
    left: u32,
}

enum ScanError {
    /// A limit is exceeded, or there are too many descriptors.
    Full,
    Io(io::Error),
}

impl DescriptorScan<'_> {
    fn thread(&mut self, process: u32, thread: u32) -> Result<(), ScanError> {
        let directory = &format!("/proc/{process}/task/{thread}");
        for entry in fs::read_dir(format!("{directory}/fd"))? {
            self.left = self.left.checked_sub(1).ok_or(ScanError::Full)?;
            let path = entry?.path();
            match fs::metadata(&path) {
                // The descriptor was closed meanwhile.
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error.into()),
                Ok(about) => {
                    let number = path.file_name().unwrap_or_default().to_string_lossy();
                    self.descriptor(directory, &number, &about)?;
                    if about.mode() & SFlag::S_IFMT.bits() == 0 {
                        self.nameless(process, directory, &number);
                    }
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
        self.totals.kernel_memory(DESCRIPTOR);
        let kind = about.file_type();
        let is_nameless = about.is_file() && about.nlink() == 0;
        let is_counted = kind.is_socket() || kind.is_fifo() || is_nameless;
        if !is_counted || !self.seen.insert((about.dev(), about.ino())) {
            return Ok(());
        }
        if kind.is_fifo() {
            self.totals.kernel_memory(PIPE);
        } else if kind.is_socket() {
            if self.has_hidden_sockets {
                self.totals.blind();
            }
            let all = self.buffers.get_or_insert_with(|| {
                buffers(self.has_own_uid).unwrap_or_else(|_unreadable| {
                    self.totals.blind();
                    BTreeMap::new()
                })
            });
            let buffers = all.get(&about.ino()).copied().unwrap_or_default();
            self.totals.kernel_memory(SOCKET.saturating_add(buffers));
            let descriptors = in_flight(&format!("{directory}/fdinfo/{number}"))?;
            self.totals.hidden(descriptors);
            self.totals.hidden_memory(descriptors);
        } else {
            self.file(&format!("{directory}/fd/{number}"), about)?;
        }
        Ok(())
    }

    /// Counts a descriptor without a type of file.
    fn nameless(&mut self, process: u32, directory: &str, number: &str) {
        let Ok(target) = fs::read_link(format!("{directory}/fd/{number}")) else { return };
        if target == Path::new(EPOLL) {
            let place = format!("{directory}/fdinfo/{number}");
            self.epolls.insert((process, number.to_owned()), place);
        }
        if target == Path::new(INOTIFY) && self.queues.insert((process, number.to_owned())) {
            self.totals.kernel_memory(EVENTS);
        }
    }

    /// Counts the watches of the instances. What else a request has is measured although
    /// these take too long.
    fn watches(&mut self) {
        let (end, mut piece) = (processor_time() + MAX_WATCH_TIME, vec![0; PIECE]);
        for path in self.epolls.values() {
            // One that is gone watches nothing.
            let Ok(mut text) = File::open(path) else { continue };
            loop {
                let watches = match text.read(&mut piece) {
                    Ok(0) => break,
                    Ok(length) => {
                        // One watch of a piece may be missed, at its end.
                        let read = piece.get(..length).unwrap_or_default();
                        memmem::find_iter(read, WATCHED).count()
                    }
                    Err(error) if is_gone(&error) => break,
                    Err(_) => return self.totals.blind(),
                };
                if self.totals.watches(watches as u64).is_err() {
                    return;
                }
                if processor_time() > end {
                    // With few watches, it is others who make the kernel slow.
                    if self.totals.has_many_watches() {
                        self.totals.blind();
                    }
                    return;
                }
            }
        }
    }

    fn file(&mut self, path: &str, about: &Metadata) -> Result<(), Excess> {
        if self.open.scratch.contains(&about.dev()) {
            return Ok(());
        }
        let bytes = BLOCK.saturating_mul(about.blocks());
        if about.dev() != self.open.volume && is_memory(path) {
            self.open.memory.insert(about.ino());
            self.totals.memory_file(bytes);
            return Ok(());
        }
        self.open.files.insert(about.ino());
        self.totals.file(bytes)
    }
}

fn buffers(has_own_uid: bool) -> io::Result<BTreeMap<u64, u64>> {
    let mut all = if has_own_uid { BTreeMap::new() } else { socket_buffers()? };
    all.extend(netlink_buffers()?);
    Ok(all)
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

impl From<Excess> for ScanError {
    fn from(_: Excess) -> Self {
        Self::Full
    }
}

/// CPU time of this thread, the meter's only one, in microseconds.
fn processor_time() -> i64 {
    let used = getrusage(UsageWho::RUSAGE_THREAD);
    used.map_or(0, |used| (used.user_time() + used.system_time()).num_microseconds())
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        os::{
            fd::OwnedFd,
            unix::{net::UnixStream, process::CommandExt},
        },
        process::{Command, Stdio},
        thread,
    };

    use nix::{
        mount::{MsFlags, mount},
        sched::{CloneFlags, unshare},
        sys::signal::{Signal, killpg},
        unistd::Pid,
    };

    use super::*;
    use crate::{skip::lacks_root, spawner::meter::Measurement, wire::message::RequestLimits};

    fn measured(worker: Pid) -> Measurement {
        changed(worker, |subject| subject)
    }

    /// A measurement of a subject that differs in a field.
    fn changed(worker: Pid, change: fn(Subject<'_>) -> Subject<'_>) -> Measurement {
        let (root, workers) = (File::open("/").unwrap().into(), [worker]);
        let subject = change(Subject::of(&root, &workers));
        let mut totals = Totals::new(RequestLimits::default());
        let processes = processes::members(&subject).unwrap();
        count(&subject, &processes, BTreeSet::new(), &mut totals);
        totals.reading(0).measurement()
    }

    /// The table of netlink sockets is missing in the mounts of a thread.
    fn without_table(worker: Pid) -> Measurement {
        let measured = thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            let none: Option<&str> = None;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
            mount(none, "/proc/self/net", Some("tmpfs"), MsFlags::empty(), none).unwrap();
            measured(worker)
        });
        measured.join().unwrap()
    }

    /// Measures a shell that has a socket.
    fn with_socket<T>(measure: impl FnOnce(Pid) -> T) -> T {
        let (socket, _other) = UnixStream::pair().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec 3<&0; sleep 60 & echo; wait"]).process_group(0);
        shell.stdin(OwnedFd::from(socket)).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        shell.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let worker = Pid::from_raw(shell.id().cast_signed());
        let found = measure(worker);
        killpg(worker, Signal::SIGKILL).unwrap();
        shell.wait().unwrap();
        found
    }

    #[test]
    fn a_request_with_sockets_cannot_be_measured_without_their_table() {
        if lacks_root() {
            return;
        }
        let found = with_socket(|worker| (measured(worker), without_table(worker)));
        assert_eq!(found, (Measurement::WithinLimits, Measurement::Unknown));
    }

    #[test]
    fn a_request_with_sockets_cannot_be_measured_if_nobody_may_list_them() {
        let hidden =
            |worker| changed(worker, |subject| Subject { has_hidden_sockets: true, ..subject });
        let found = with_socket(|worker| (measured(worker), hidden(worker)));
        assert_eq!(found, (Measurement::WithinLimits, Measurement::Unknown));
    }
}
