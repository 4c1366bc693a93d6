//! Commands that take too much.

use std::{
    fs::File,
    io::Write,
    process::{Command, ExitCode},
    thread,
    time::Duration,
};

use nix::sys::{
    memfd::{MFdFlags, memfd_create},
    socket::{AddressFamily, SockFlag, SockType, socketpair},
};

use super::PROGRAM;

/// First argument of this program as a plugin's command.
pub(super) const ROLE: &str = "payload";

/// Time for which a payload holds what it took.
const HOLD: Duration = Duration::from_secs(20);

const MIB: usize = 1 << 20;

/// Mebibytes of buffers that each process of a crowd fills, and of memory that the
/// first one takes: less than a measurement would notice.
const CROWD_BUFFERS: usize = 30;
const CROWD_FIRST: usize = 16;

/// Runs the payload with this name and argument.
pub(super) fn run(words: &[String]) -> ExitCode {
    let number = words.get(1).and_then(|word| word.parse().ok()).unwrap_or_default();
    match words.first().map(String::as_str) {
        Some("file") => file(number),
        Some("buffers") => buffers(number),
        Some("crowd") => crowd(number),
        Some("spin") => spin(number),
        _ => return ExitCode::FAILURE,
    }
    println!("kind: Survived");
    ExitCode::SUCCESS
}

/// Fills a file in memory, which no limit of a process covers.
fn file(mebibytes: usize) {
    let mut file = File::from(memfd_create(c"payload", MFdFlags::empty()).expect("a file"));
    let piece = vec![1; MIB];
    for _ in 0..mebibytes {
        file.write_all(&piece).expect("memory");
    }
    thread::sleep(HOLD);
}

/// Fills buffers of sockets, which nobody can measure from outside.
fn buffers(mebibytes: usize) {
    let mut filled = 0;
    let mut held = Vec::new();
    let piece = vec![1; MIB / 16];
    while filled < mebibytes * MIB {
        let pair = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_NONBLOCK);
        let (one, other) = pair.expect("sockets");
        while let Ok(written) = nix::unistd::write(&one, &piece) {
            filled += written;
        }
        held.push((one, other));
    }
    thread::sleep(HOLD);
}

/// Starts this many processes that fill buffers. The kernel kills this one first,
/// because it is the largest.
fn crowd(processes: usize) {
    let _own = vec![1_u8; CROWD_FIRST * MIB];
    let start = |_| {
        let arguments = [ROLE, "buffers", &CROWD_BUFFERS.to_string()];
        Command::new(PROGRAM).args(arguments).spawn().expect("a process")
    };
    let crowd: Vec<_> = (0..processes).map(start).collect();
    for mut process in crowd {
        process.wait().expect("a status");
    }
}

/// Keeps processors busy with this many threads until it is killed.
fn spin(threads: usize) -> ! {
    for _ in 0..threads {
        thread::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        });
    }
    loop {
        thread::park();
    }
}
