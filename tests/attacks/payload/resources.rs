//! Attacks that use too much of a resource.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::fd::AsRawFd,
    thread,
    time::{Duration, Instant},
};

use nix::{errno::Errno, libc, sys::prctl};

use crate::{
    outcome::{Outcome, any, reaches, tried},
    payload::kernel::ACCEPT_CALLS,
    raw::{call, pointer},
    targets::Targets,
};

/// More than an arena's limit for each process.
const MEMORY: usize = 400 << 20;

/// More than an arena's limit for each file.
const FILE: u64 = 64 << 20;

/// Threads, and filters of each. Together they are more than an arena's limit for a request,
/// because each counts as one of the greatest length.
const THREADS: usize = 60;
const FILTERS: usize = 60;

/// Time in which the request must be ended.
const WAIT: Duration = Duration::from_secs(20);

/// More than any limit on descriptors.
const DESCRIPTORS: usize = 5000;

pub(crate) fn memory(_: &Targets) -> Outcome {
    let mut memory: Vec<u8> = Vec::new();
    tried(memory.try_reserve_exact(MEMORY).map(|()| memory.resize(MEMORY, 1)))
}

pub(crate) fn file(_: &Targets) -> Outcome {
    tried(File::create("large").and_then(|file| file.set_len(FILE)))
}

pub(crate) fn memory_file(_: &Targets) -> Outcome {
    let made = call(libc::SYS_memfd_create, &[pointer(c"x".to_bytes_with_nul()), 0]);
    tried(made.and_then(|fd| call(libc::SYS_ftruncate, &[fd.cast_unsigned(), FILE])))
}

pub(crate) fn processor(_: &Targets) -> Outcome {
    let until = Instant::now() + Duration::from_mins(1);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    Outcome::done("a minute has passed")
}

pub(crate) fn output(_: &Targets) -> Outcome {
    let piece = [b'x'; 4096];
    loop {
        if let Err(error) = io::stdout().write_all(&piece) {
            return Outcome::refused(error.to_string());
        }
    }
}

pub(crate) fn errors(_: &Targets) -> Outcome {
    let piece = [b'x'; 4096];
    // More than the supervisor keeps. The command then ends with success.
    tried((0..4096).try_for_each(|_| io::stderr().write_all(&piece)))
}

pub(crate) fn descriptors(_: &Targets) -> Outcome {
    let open = (0..DESCRIPTORS).map(|_| File::open("/dev/null")).collect::<Result<Vec<_>, _>>();
    tried(open)
}

pub(crate) fn disk(_: &Targets) -> Outcome {
    let piece = vec![1; 8 << 20];
    tried((0..8).try_for_each(|number| fs::write(format!("piece-{number}"), &piece)))
}

pub(crate) fn deleted_file(_: &Targets) -> Outcome {
    let piece = vec![1; 8 << 20];
    let write = || {
        let mut file = File::create("deleted")?;
        fs::remove_file("deleted")?;
        file.write_all(&piece)?;
        Ok::<_, io::Error>(file)
    };
    tried((0..8).map(|_| write()).collect::<Result<Vec<_>, _>>())
}

/// Space that nobody writes: reserving it fills a volume at once. A length of zero, or no
/// argument at all, is invalid, so an allowed call fails.
pub(crate) fn reserved_space(_: &Targets) -> Outcome {
    let file = File::create("reserved").expect("a file");
    let file = file.as_raw_fd().cast_unsigned().into();
    let allocate = |mode| reaches(libc::SYS_fallocate, &[file, mode, 0, 0], Errno::EINVAL);
    let ask = |request| reaches(libc::SYS_ioctl, &[file, request, 0], Errno::EFAULT);
    any([
        ("reserve", allocate(0)),
        ("keep size", allocate(1)),
        ("zero", allocate(0x10)),
        ("zero and keep size", allocate(0x11)),
        ("insert", allocate(0x20)),
        ("unshare", allocate(0x40)),
        ("write zeroes", allocate(0x80)),
        ("reserve by its older name", ask(0x4030_5828)),
        ("reserve, wide", ask(0x4030_582a | 1 << 32)),
        ("zero by its older name", ask(0x4030_5839)),
    ])
}

/// Filters of system calls that only some threads have.
pub(crate) fn thread_filters(_: &Targets) -> Outcome {
    prctl::set_no_new_privs().expect("no new privileges");
    (0..THREADS).for_each(|_| drop(thread::spawn(hold_filters)));
    thread::sleep(WAIT);
    Outcome::done("no limit was enforced")
}

fn hold_filters() {
    let program = [1, pointer(&ACCEPT_CALLS)];
    for _ in 0..FILTERS {
        call(libc::SYS_seccomp, &[1, 0, pointer(&program)]).expect("a filter");
    }
    thread::sleep(WAIT);
}
