//! Attacks that exceed the limits of a request with many small parts.

use std::{
    fs::{self, File, Permissions},
    io::{self, IoSlice, Read, Write},
    os::{
        fd::AsRawFd,
        linux::net::SocketAddrExt,
        unix::{
            fs::PermissionsExt,
            net::{SocketAddr, UnixListener, UnixStream},
            process::CommandExt,
        },
    },
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    fcntl::{OFlag, openat},
    libc,
    sys::{
        memfd::{MFdFlags, memfd_create},
        prctl,
        signal::{Signal, kill},
        socket::{ControlMessage, MsgFlags, sendmsg},
        stat::Mode,
        wait::waitpid,
    },
    unistd::{chdir, mkdir, setsid},
};

use super::pid;
use crate::{
    outcome::Outcome,
    raw::{call, fork, pointer},
    targets::Targets,
};

/// Number and sizes of the parts. Each part is far below an arena's limits, and
/// all parts together are far above them.
const PIECES: usize = 12;
const MEMORY: usize = 40 << 20;
const FILE: usize = 20 << 20;
const ENTRIES: usize = 9000;

/// Nested directories, too many for the length of any path.
const LEVELS: usize = 1000;

/// Time in which the request must be ended. If it passes, the excess has worked, as it does
/// in each control run.
const WAIT: Duration = Duration::from_secs(20);

fn wait() -> Outcome {
    thread::sleep(WAIT);
    Outcome::done("no limit was enforced")
}

/// Memory that is written to, so that the kernel really allocates it.
fn memory(bytes: usize) -> Vec<u8> {
    let mut memory = vec![0; bytes];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    memory
}

fn fill(file: impl Write) {
    fill_and(file, || {});
}

/// Fills a file and calls `act` before each piece.
fn fill_and(mut file: impl Write, act: impl Fn()) {
    const PIECE: usize = 1 << 16;
    let piece = vec![1; PIECE];
    for _ in 0..FILE / PIECE {
        act();
        file.write_all(&piece).expect("a piece");
    }
}

fn nameless() -> File {
    let file = File::options().read(true).write(true).create_new(true).open("nameless");
    let file = file.expect("a file");
    fs::remove_file("nameless").expect("a removed file");
    fill(&file);
    file
}

pub(crate) fn none(_: &Targets) -> Outcome {
    let _memory = memory(MEMORY);
    fs::create_dir("many").expect("a directory");
    (0..ENTRIES / 2).for_each(|n| fs::write(format!("many/{n}"), "").expect("a file"));
    fill(File::create("file").expect("a file"));
    let _nameless = nameless();
    thread::sleep(Duration::from_millis(1200));
    Outcome::done("within limits")
}

pub(crate) fn processes(_: &Targets) -> Outcome {
    for _ in 0..PIECES {
        let hog = || {
            let _memory = memory(MEMORY);
            wait();
        };
        fork(hog).expect("a process");
    }
    wait()
}

/// Leftover processes count as well while the request waits for their end.
pub(crate) fn left_memory(_: &Targets) -> Outcome {
    let (mut ready, tell) = io::pipe().expect("a pipe");
    let child = fork(|| {
        let _ = setsid();
        for _ in 0..PIECES {
            let hog = || {
                let _memory = memory(MEMORY);
                (&tell).write_all(b".").expect("a word");
                let until = Instant::now() + WAIT;
                while Instant::now() < until {
                    eprintln!("here");
                    thread::sleep(Duration::from_millis(100));
                }
            };
            fork(hog).expect("a process");
        }
    });
    waitpid(child.expect("a process"), None).expect("its end");
    // The request waits only for a moment, so the excess must be there before.
    ready.read_exact(&mut [0; PIECES]).expect("all parts");
    Outcome::done("left behind")
}

pub(crate) fn shared_memory(_: &Targets) -> Outcome {
    let zero = File::open("/dev/zero").expect("zeros");
    let number = |number: i32| u64::from(number.unsigned_abs());
    for _ in 0..PIECES {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let arguments = [0, MEMORY as u64, number(access), number(kind), u64::MAX, 0];
        let place = call(libc::SYS_mmap, &arguments).expect("memory").cast_unsigned();
        // The kernel writes to the memory, so that it is really allocated.
        let read = [number(zero.as_raw_fd()), place, MEMORY as u64];
        call(libc::SYS_read, &read).expect("zeros");
    }
    wait()
}

pub(crate) fn memory_files(_: &Targets) -> Outcome {
    let _held: Vec<File> = (0..2 * PIECES).map(|_| memory_file(|| {})).collect();
    wait()
}

/// Pairs of sockets, full in both directions.
pub(crate) fn socket_buffers(_: &Targets) -> Outcome {
    let pairs: Vec<_> = (0..800).map(|_| UnixStream::pair().expect("a pair")).collect();
    for mut end in pairs.iter().flat_map(|(here, there)| [here, there]) {
        end.set_nonblocking(true).expect("a mode");
        while end.write(&[1; 4096]).is_ok() {}
    }
    wait()
}

/// Connections that nobody accepts, full, and closed by their clients.
pub(crate) fn pending_connections(_: &Targets) -> Outcome {
    const LISTENERS: u32 = 20;
    const CONNECTIONS: u32 = 100;
    let mut listeners = Vec::new();
    for number in 0..LISTENERS {
        let name = format!("attack-{}-{number}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).expect("an address");
        match UnixListener::bind_addr(&address) {
            Ok(listener) => listeners.push(listener),
            Err(error) => return Outcome::refused(error.to_string()),
        }
        for _ in 0..CONNECTIONS {
            let mut client = UnixStream::connect_addr(&address).expect("a connection");
            client.set_nonblocking(true).expect("a mode");
            while client.write(&[1; 4096]).is_ok() {}
        }
    }
    wait()
}

/// Sockets full of answers that nobody reads. The kernel returns each message of a kind that
/// does not exist.
pub(crate) fn netlink_answers(_: &Targets) -> Outcome {
    const ROUTES: [u64; 3] = [16, 2, 0];
    const SIZE: u32 = 60_000;
    // struct nlmsghdr: length, type and flags (`NLM_F_REQUEST`).
    let mut message = vec![0_u8; SIZE as usize];
    message[..4].copy_from_slice(&SIZE.to_ne_bytes());
    message[4..6].copy_from_slice(&60_000_u16.to_ne_bytes());
    message[6..8].copy_from_slice(&1_u16.to_ne_bytes());
    for _ in 0..2500 {
        let made = call(libc::SYS_socket, &ROUTES).expect("a socket").cast_unsigned();
        for _ in 0..3 {
            let sent = [made, pointer(&message[..]), u64::from(SIZE), 0, 0, 0];
            call(libc::SYS_sendto, &sent).expect("a sent message");
        }
    }
    wait()
}

/// Queues full of events that nobody reads.
pub(crate) fn events(_: &Targets) -> Outcome {
    const ALL: u64 = 0xfff;
    const QUEUES: usize = 60;
    const RENAMES: usize = 8192;
    fs::create_dir("watched").expect("a directory");
    let path = c"watched".to_bytes_with_nul();
    for _ in 0..QUEUES {
        let watched = call(libc::SYS_inotify_init1, &[0]).and_then(|queue| {
            call(libc::SYS_inotify_add_watch, &[queue.cast_unsigned(), pointer(path), ALL])
        });
        if let Err(error) = watched {
            return Outcome::refused(error.to_string());
        }
    }
    let names = ["a", "b"].map(|name| format!("watched/{}", name.repeat(250)));
    fs::write(&names[0], "").expect("a file");
    for number in 0..RENAMES {
        fs::rename(&names[number % 2], &names[(number + 1) % 2]).expect("a new name");
    }
    wait()
}

pub(crate) fn first_thread_gone(_: &Targets) -> Outcome {
    for _ in 0..PIECES {
        let hog = || {
            thread::spawn(|| {
                let _memory = memory(MEMORY);
                wait()
            });
            let _ = call(libc::SYS_exit, &[0]);
        };
        fork(hog).expect("a process");
    }
    wait()
}

fn signal_all(signal: Signal) {
    // Reaches nothing unless another process has this UID, for example one
    // that measures the request.
    let _ = kill(pid(-1), signal);
}

/// Signals every other process that it may, without a pause.
fn rage(signal: Signal) -> Outcome {
    let until = Instant::now() + WAIT;
    while Instant::now() < until {
        signal_all(signal);
    }
    Outcome::done("no limit was enforced")
}

/// Fills memory that the kernel's limit for each process does not count, and
/// sends signals.
fn memory_and(signal: Signal) -> Outcome {
    let files = (0..2 * PIECES).map(|_| memory_file(|| signal_all(signal)));
    let _held: Vec<File> = files.collect();
    rage(signal)
}

fn memory_file(act: impl Fn()) -> File {
    let file = memfd_create(c"x", MFdFlags::empty()).expect("a file in memory");
    let file = File::from(file);
    fill_and(&file, act);
    file
}

pub(crate) fn memory_and_kill(_: &Targets) -> Outcome {
    memory_and(Signal::SIGKILL)
}

pub(crate) fn memory_and_stop(_: &Targets) -> Outcome {
    memory_and(Signal::SIGSTOP)
}

fn fill_files() {
    (0..PIECES).for_each(|n| fill(File::create(format!("piece-{n}")).expect("a file")));
}

pub(crate) fn files(_: &Targets) -> Outcome {
    fill_files();
    wait()
}

pub(crate) fn files_elsewhere(_: &Targets) -> Outcome {
    let home = crate::helper::variable("HOME").expect("HOME");
    mkdir(Path::new(&home).join("d").as_path(), Mode::S_IRWXU).expect("a directory");
    chdir(Path::new(&home).join("d").as_path()).expect("to enter the directory");
    fill_files();
    wait()
}

pub(crate) fn files_and_kill(_: &Targets) -> Outcome {
    for number in 0..PIECES {
        let file = File::create(format!("piece-{number}")).expect("a file");
        fill_and(file, || signal_all(Signal::SIGKILL));
    }
    rage(Signal::SIGKILL)
}

pub(crate) fn removed_files(_: &Targets) -> Outcome {
    let _held: Vec<File> = (0..PIECES).map(|_| nameless()).collect();
    wait()
}

pub(crate) fn closed_directory(_: &Targets) -> Outcome {
    fs::create_dir_all("closed/inner").expect("directories");
    let inner = File::open("closed/inner").expect("a directory");
    fs::set_permissions("closed", Permissions::from_mode(0o000)).expect("a mode");
    for number in 0..PIECES {
        let flags = OFlag::O_CREAT | OFlag::O_WRONLY;
        let file = openat(&inner, format!("{number}").as_str(), flags, Mode::S_IRUSR);
        fill(File::from(file.expect("a file")));
    }
    wait()
}

pub(crate) fn undumpable(targets: &Targets) -> Outcome {
    // A seccomp filter, if there is one, denies this.
    let _ = prctl::set_dumpable(false);
    removed_files(targets)
}

pub(crate) fn entries(_: &Targets) -> Outcome {
    for number in 0..ENTRIES {
        fs::create_dir_all(format!("{}", number / 1000)).expect("a directory");
        fs::write(format!("{}/{number}", number / 1000), "").expect("a file");
    }
    wait()
}

pub(crate) fn deep_entries(_: &Targets) -> Outcome {
    let files = ENTRIES / LEVELS;
    for _ in 0..LEVELS {
        (0..files).for_each(|number| fs::write(number.to_string(), "").expect("a file"));
        mkdir("directory", Mode::S_IRWXU).expect("a directory");
        chdir("directory").expect("to enter the directory");
    }
    wait()
}

/// Hides more and more: what others free at the same moment hides the growth of the volume,
/// and all arenas are on the same one.
pub(crate) fn mapped_files(_: &Targets) -> Outcome {
    (0..PIECES).for_each(|_| map_nameless());
    let until = Instant::now() + WAIT;
    while Instant::now() < until {
        thread::sleep(WAIT / 40);
        map_nameless();
    }
    Outcome::done("no limit was enforced")
}

fn map_nameless() {
    let file = nameless();
    let number = |number: i32| u64::from(number.unsigned_abs());
    let (access, kind) = (number(libc::PROT_READ), number(libc::MAP_SHARED));
    let arguments = [0, 4096, access, kind, number(file.as_raw_fd()), 0];
    call(libc::SYS_mmap, &arguments).expect("a mapping");
}

pub(crate) fn files_in_flight(_: &Targets) -> Outcome {
    let (here, _there) = UnixStream::pair().expect("a pair");
    for _ in 0..PIECES {
        let file = nameless();
        let files = [file.as_raw_fd()];
        let carried = [ControlMessage::ScmRights(&files)];
        let sent = sendmsg::<()>(
            here.as_raw_fd(),
            &[IoSlice::new(b"x")],
            &carried,
            MsgFlags::empty(),
            None,
        );
        sent.expect("a sent file");
    }
    wait()
}

/// Without `CAP_SYS_PTRACE`, nobody may inspect a process whose program is
/// unreadable.
pub(crate) fn unreadable_program(_: &Targets) -> Outcome {
    fs::copy("/bin/sleep", "sleep").expect("a program");
    fs::set_permissions("sleep", Permissions::from_mode(0o111)).expect("a mode");
    for _ in 0..PIECES {
        let mut command = Command::new("./sleep");
        command.arg("60").stdin(Stdio::from(nameless())).stdout(Stdio::null());
        fork(|| drop(command.exec())).expect("a process");
    }
    wait()
}
