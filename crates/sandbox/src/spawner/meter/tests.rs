//! Measures directories and processes of the test itself.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{Read, Write},
    os::unix::{
        fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Instant,
};

use nix::{
    fcntl::{OFlag, openat},
    libc,
    sys::{
        signal::{Signal, killpg},
        stat::{Mode, mkdirat},
    },
};

use super::*;
use crate::{skip::skip, spawner::rise::Rise};

const NONE: RequestLimits = RequestLimits::NONE;
const MIB: u64 = 1 << 20;

/// A directory of workspaces with one workspace.
struct TestRoot {
    directory: tempfile::TempDir,
    handle: OwnedFd,
}

impl TestRoot {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("w")).unwrap();
        let handle = File::open(directory.path()).unwrap().into();
        Self { directory, handle }
    }

    fn workspace(&self) -> std::path::PathBuf {
        self.directory.path().join("w")
    }

    fn subject<'s>(&'s self, workers: &'s [Pid]) -> Subject<'s> {
        Subject { workspace: "w", ..Subject::of(&self.handle, workers) }
    }

    fn walk(&self, limits: RequestLimits) -> Measurement {
        let mut totals = Totals::new(limits);
        let _ = TreeWalk::workspace(&self.subject(&[]), &mut totals);
        totals.reading(0).measurement()
    }

    /// The lowest limits that the walk does not exceed: bytes and files.
    fn size(&self) -> (u64, u64) {
        let within = |limits| self.walk(limits) == Measurement::WithinLimits;
        let bytes = least(|disk| within(RequestLimits { disk: Some(disk), ..NONE }));
        (bytes, least(|files| within(RequestLimits { files: Some(files), ..NONE })))
    }
}

fn least(is_enough: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, 1 << 40);
    while low + 1 < high {
        let middle = u64::midpoint(low, high);
        if is_enough(middle) { high = middle } else { low = middle }
    }
    high
}

fn write(path: &Path, bytes: usize) {
    fs::write(path, vec![1; bytes]).unwrap();
}

fn blocks(path: &Path) -> u64 {
    512 * fs::symlink_metadata(path).unwrap().blocks()
}

#[test]
fn everything_in_a_tree_counts_except_targets_of_links() {
    let root = TestRoot::new();
    let top = root.workspace();
    fs::create_dir_all(top.join("a/b")).unwrap();
    fs::create_dir_all(top.join("c")).unwrap();
    write(&top.join("a/b/file"), 100_000);
    write(&top.join("c/file"), 5_000);
    write(&root.directory.path().join("outside"), 900_000);
    symlink("../outside", top.join("link")).unwrap();
    symlink("..", top.join("up")).unwrap();
    let entries = ["a", "a/b", "c", "a/b/file", "c/file", "link", "up"];
    let bytes: u64 = entries.iter().map(|path| blocks(&top.join(path))).sum();
    assert_eq!(root.size(), (bytes.max(1), entries.len() as u64));
}

#[test]
fn a_file_with_several_names_counts_once() {
    let root = TestRoot::new();
    let top = root.workspace();
    write(&top.join("one"), 1 << 20);
    let one = root.size().0;
    fs::create_dir(top.join("d")).unwrap();
    let directory = blocks(&top.join("d"));
    fs::hard_link(top.join("one"), top.join("d/two")).unwrap();
    assert_eq!(root.size(), (one + directory, 3));
}

#[test]
fn a_closed_directory_is_opened_to_its_owner() {
    let root = TestRoot::new();
    let top = root.workspace();
    fs::create_dir_all(top.join("a/b")).unwrap();
    write(&top.join("a/b/file"), 1 << 20);
    for path in ["a/b", "a", "."] {
        fs::set_permissions(top.join(path), Permissions::from_mode(0o000)).unwrap();
    }
    assert_eq!(
        root.walk(RequestLimits { disk: Some(MIB / 2), ..NONE }),
        Measurement::Exceeded(ExceededLimit::Disk)
    );
    let mode = |path: &str| fs::metadata(top.join(path)).unwrap().mode() & 0o7777;
    assert_eq!([mode("."), mode("a"), mode("a/b")], [0o700; 3]);
}

#[test]
fn a_readable_directory_keeps_its_mode() {
    let root = TestRoot::new();
    let inner = root.workspace().join("inner");
    fs::create_dir(&inner).unwrap();
    fs::set_permissions(&inner, Permissions::from_mode(0o555)).unwrap();
    assert_eq!(root.size().1, 1);
    assert_eq!(fs::metadata(&inner).unwrap().mode() & 0o7777, 0o555);
}

#[test]
fn deep_trees_need_few_descriptors() {
    let root = TestRoot::new();
    // Built with relative paths, because the whole path is longer than
    // PATH_MAX.
    let mut at: OwnedFd = File::open(root.workspace()).unwrap().into();
    for _ in 0..5_000 {
        mkdirat(&at, "d", Mode::S_IRWXU).unwrap();
        let beside = openat(&at, "file", OFlag::O_CREAT | OFlag::O_WRONLY, Mode::S_IRWXU);
        drop(beside.unwrap());
        at = openat(&at, "d", OFlag::O_DIRECTORY, Mode::empty()).unwrap();
    }
    let began = Instant::now();
    assert_eq!(root.walk(RequestLimits { files: Some(10_000), ..NONE }), Measurement::WithinLimits);
    println!("10,000 entries in 5,000 levels: {:?}", began.elapsed());
    assert_eq!(
        root.walk(RequestLimits { files: Some(9_999), ..NONE }),
        Measurement::Exceeded(ExceededLimit::Files)
    );
    // The tempfile crate would need a descriptor for each level.
    let parent: OwnedFd = File::open(root.directory.path()).unwrap().into();
    crate::worker::remove::contents(&parent, "w", &mut || Ok(())).unwrap();
}

#[test]
fn a_missing_workspace_counts_as_empty() {
    let root = TestRoot::new();
    fs::remove_dir(root.workspace()).unwrap();
    assert_eq!(root.walk(RequestLimits { files: Some(1), ..NONE }), Measurement::WithinLimits);
}

/// A stand-in for a worker: its child runs a script and then waits to be
/// killed.
struct Shell(Child);

impl Shell {
    fn new(root: &TestRoot, script: &str, input: Stdio) -> Self {
        // A background process gets no standard input, so descriptor 3 keeps it
        // open.
        let script = format!("exec 3<&0; ( {script}; echo done; exec sleep 60 ) & wait");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(root.workspace()).process_group(0);
        let mut child = shell.stdin(input).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        Self(child)
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id().cast_signed())
    }

    fn measure(&self, root: &TestRoot, limits: RequestLimits) -> Measurement {
        measure(&root.subject(&[self.pid()]), limits).measurement()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        killpg(self.pid(), Signal::SIGKILL).unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn deleted_open_files_count() {
    let root = TestRoot::new();
    let fill = "exec 5>f; head -c 1048576 /dev/zero >&5; rm f";
    let shell = Shell::new(&root, fill, Stdio::null());
    let disk = |disk| {
        shell.measure(&root, RequestLimits { disk: Some(disk), file_size: Some(MIB), ..NONE })
    };
    assert_eq!(disk(MIB / 2), Measurement::Exceeded(ExceededLimit::Disk));
    assert_eq!(disk(2 * MIB), Measurement::WithinLimits);
}

#[test]
fn a_deleted_file_that_is_mapped_takes_no_more_than_the_volume_has_grown() {
    let root = TestRoot::new();
    if Rise::begin(&root.handle).growth().is_none() {
        return skip("needs a temporary directory on ext4, tmpfs or XFS");
    }
    let hide = "f = open('f', 'w+b'); f.truncate(1 << 20); m = mmap.mmap(f.fileno(), 1 << 20); \
                os.remove('f'); os.closerange(3, 99)";
    let Some(shell) = python(&root, hide) else { return };
    let (workers, limits) = ([shell.pid()], RequestLimits { disk: Some(MIB), ..NONE });
    let found = [None, Some(MIB + 1), Some(MIB)].map(|growth| {
        let subject = Subject { growth, ..root.subject(&workers) };
        measure(&subject, limits).measurement()
    });
    assert_eq!(found, [Measurement::Hidden, Measurement::Hidden, Measurement::WithinLimits]);
}

#[test]
fn memory_of_processes_is_added_up() {
    let root = TestRoot::new();
    let shell = Shell::new(&root, ":", Stdio::null());
    let memory = |memory| shell.measure(&root, RequestLimits { memory: Some(memory), ..NONE });
    assert_eq!(memory(1), Measurement::Exceeded(ExceededLimit::Memory));
    assert_eq!(memory(1 << 40), Measurement::WithinLimits);
}

#[test]
fn files_in_memory_count_as_memory() {
    let root = TestRoot::new();
    let mut options = OpenOptions::new();
    let options = options.write(true).read(true).custom_flags(libc::O_TMPFILE);
    let Ok(mut file) = options.open("/dev/shm") else {
        return skip("needs /dev/shm");
    };
    file.write_all(&vec![1; 64 << 20]).unwrap();
    let shell = Shell::new(&root, ":", file.into());
    let memory = |memory| shell.measure(&root, RequestLimits { memory: Some(memory), ..NONE });
    assert_eq!(memory(64 * MIB), Measurement::Exceeded(ExceededLimit::Memory));
    assert_eq!(memory(80 * MIB), Measurement::WithinLimits);
}

/// Runs Python below a shell. The script must print "done" and wait.
fn python(root: &TestRoot, script: &str) -> Option<Shell> {
    if Command::new("python3").arg("-c").output().is_err() {
        skip("needs python3");
        return None;
    }
    let script = format!("{script}; print('done', flush=True); time.sleep(60)");
    Some(Shell::new(
        root,
        &format!("python3 -c \"import mmap, os, time; {script}\""),
        Stdio::null(),
    ))
}

/// Asserts that the memory of a script is between these numbers of MiB.
fn assert_memory(script: &str, (least, most): (u64, u64)) {
    let root = TestRoot::new();
    let Some(shell) = python(&root, script) else { return };
    let file_size = Some(MIB);
    let memory = |memory| {
        let limits = RequestLimits { memory: Some(memory * MIB), file_size, ..NONE };
        shell.measure(&root, limits)
    };
    assert_eq!(memory(least), Measurement::Exceeded(ExceededLimit::Memory), "{script}");
    assert_eq!(memory(most), Measurement::WithinLimits, "{script}");
}

#[test]
fn shared_memory_that_was_dropped_counts() {
    let fill = "m = mmap.mmap(-1, 256 << 20); [m.write(bytes(1 << 20)) for _ in range(256)]";
    assert_memory(&format!("{fill}; m.madvise(mmap.MADV_DONTNEED)"), (255, 400));
}

#[test]
fn a_file_in_memory_that_is_mapped_and_closed_counts() {
    let fill = "f = os.memfd_create('x'); os.truncate(f, 256 << 20); m = mmap.mmap(f, 256 << 20)";
    // Python keeps a descriptor of its own, so all are closed.
    assert_memory(&format!("{fill}; os.closerange(3, 99)"), (255, 400));
}

#[test]
fn page_tables_count() {
    // One page in every 2 MiB needs a whole page of tables.
    let touch = "m = mmap.mmap(-1, 32 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000); \
                 m.madvise(15); [m.__getitem__(at << 21) for at in range(16 << 10)]";
    assert_memory(touch, (63, 300));
}

#[test]
fn many_pipes_and_sockets_count() {
    let open = "import resource, socket; hard = resource.getrlimit(7)[1]; \
                resource.setrlimit(7, (hard, hard)); \
                pipes = [os.pipe() for _ in range(500)]; \
                sockets = [socket.socketpair() for _ in range(200)]";
    assert_memory(open, (4, 200));
    let fill = "import socket; ends = [end for _ in range(200) for end in socket.socketpair()]; \
                [(end.setblocking(False), end.send(bytes(150000))) for end in ends]";
    assert_memory(fill, (55, 200));
}

#[test]
fn watches_of_epoll_count_once_for_all_threads() {
    let watch = "import resource, select, threading; hard = resource.getrlimit(7)[1]; \
                 resource.setrlimit(7, (hard, hard)); \
                 ends = [os.pipe()[0] for _ in range(500)]; \
                 polls = [select.epoll() for _ in range(400)]; \
                 [poll.register(end, 1) for poll in polls for end in ends]; \
                 [threading.Thread(target=time.sleep, args=(60,)).start() for _ in range(4)]";
    assert_memory(watch, (40, 150));
}

#[test]
fn answers_of_netlink_that_wait_count() {
    // The kernel returns a message of a kind that does not exist.
    let ask = "import socket; parts = ((60000, 4), (60000, 2), (1, 2)); \
               message = b''.join(n.to_bytes(size, 'little') for n, size in parts); \
               ends = [socket.socket(16, 3, 0) for _ in range(400)]; \
               [end.send(message + bytes(59992)) for end in ends for _ in range(3)]";
    assert_memory(ask, (70, 200));
}

#[test]
fn queues_of_inotify_count_once_for_all_threads() {
    let open = "import ctypes, threading; make = ctypes.CDLL(None).inotify_init; \
                queues = [make() for _ in range(8)]; \
                [threading.Thread(target=time.sleep, args=(60,)).start() for _ in range(4)]";
    assert_memory(open, (64, 100));
}

#[test]
fn a_directory_that_moves_all_the_time_is_counted_at_most_once() {
    let root = TestRoot::new();
    let top = root.workspace();
    let [here, there] = ["a", "b"].map(|name| top.join(name));
    for directory in [&here, &there] {
        fs::create_dir(directory).unwrap();
    }
    fs::create_dir_all(here.join("moved/inner")).unwrap();
    (0..100).for_each(|number| write(&here.join(format!("moved/inner/{number}")), 1));
    let is_over = AtomicBool::new(false);
    let count = || {
        let mut totals = Totals::new(RequestLimits { files: Some(1000), ..NONE });
        TreeWalk::workspace(&root.subject(&[]), &mut totals).unwrap();
        assert_eq!(totals.reading(0).measurement(), Measurement::WithinLimits);
        totals.reading(0).gauge().unwrap().files
    };
    let counts: Vec<u64> = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fs::rename(here.join("moved"), there.join("moved")).unwrap();
                fs::rename(there.join("moved"), here.join("moved")).unwrap();
            }
        });
        let counts = (0..200).map(|_| count()).collect();
        is_over.store(true, Ordering::Relaxed);
        counts
    });
    // The directory itself may be seen under both names.
    assert!(counts.iter().all(|count| *count <= 105), "{counts:?}");
    assert!(counts.iter().any(|count| *count >= 104), "{counts:?}");
}

#[test]
fn five_thousand_files_can_be_measured() {
    let root = TestRoot::new();
    let began = Instant::now();
    let limits = RequestLimits { memory: Some(1 << 40), disk: Some(1 << 40), ..NONE };
    assert_eq!(measure(&root.subject(&[]), limits).measurement(), Measurement::WithinLimits);
    println!("no files: {:?}", began.elapsed());
    for directory in 0..50 {
        let path = root.workspace().join(directory.to_string());
        fs::create_dir(&path).unwrap();
        (0..100).for_each(|number| write(&path.join(number.to_string()), 100));
    }
    let began = Instant::now();
    let looked = measure(&root.subject(&[]), limits);
    println!("5,000 files: {:?}", began.elapsed());
    assert_eq!(looked.measurement(), Measurement::WithinLimits);
}
