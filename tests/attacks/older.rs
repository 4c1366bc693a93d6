//! An older Landlock: what a kernel of its time would not know is refused.
//!
//! A process outside is told of each call (seccomp's user notification) and
//! answers in the kernel's place, or lets the kernel do what an older one would
//! have done as well.

use std::{env, fs::File, io, os::unix::fs::FileExt, process};

use nix::{
    libc,
    sys::wait::waitpid,
    unistd::{pipe, read, write},
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::raw;

const CREATE_RULESET: i64 = 444;
const RESTRICT_SELF: i64 = 446;

/// What asks for the version, as the only flag there was at first.
const VERSION: u64 = 1;

/// Rights of files by version, and since when there are ports and scopes.
const FILES: [u64; 7] = [0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff, 0xffff, 0xffff];
const PORTS: usize = 4;
const SCOPES: usize = 6;

/// Since when restricting takes flags.
const FLAGS: usize = 7;

/// As the kernel's headers have them.
const RET_TRACE: u32 = 0x7ff0_0000;
const RET_USER_NOTIF: u32 = 0x7fc0_0000;
const NOTIF_RECV: u64 = 0xc050_2100;
const NOTIF_SEND: u64 = 0xc018_2101;
const CONTINUE: u32 = 1;

/// What a program asks the kernel for.
#[repr(C)]
#[derive(Default)]
struct Asked {
    id: u64,
    pid: u32,
    _flags: u32,
    call: i32,
    _machine: u32,
    _at: u64,
    arguments: [u64; 6],
}

/// What it is told.
#[repr(C)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// Has this process, and what it becomes, know Landlock in one version.
pub(crate) fn know(version: usize) {
    let (number, tell_number) = pipe().expect("a pipe");
    let (ready, tell_ready) = pipe().expect("a pipe");
    let own = process::id();
    // Nobody's child: the program has others and counts them.
    let child = raw::fork(|| {
        let _ = raw::fork(|| {
            let mut bytes = [0; 8];
            read(&number, &mut bytes).expect("a number");
            let listener = take(own, i64::from_ne_bytes(bytes)).expect("the listener");
            write(&tell_ready, b"x").expect("a word");
            serve(listener, version);
        });
    });
    waitpid(child.expect("a child"), None).expect("its end");
    let listener = listen().expect("a listener");
    write(&tell_number, &listener.to_ne_bytes()).expect("a word");
    drop(tell_ready);
    read(&ready, &mut [0]).expect("somebody who answers");
}

/// Sends the calls of Landlock to whoever listens.
fn listen() -> io::Result<i64> {
    let rules = [CREATE_RULESET, RESTRICT_SELF].map(|call| (call, Vec::new())).into();
    let machine = env::consts::ARCH.try_into().expect("a known machine");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Trace(0), machine);
    let mut program: BpfProgram = filter.expect("a filter").try_into().expect("a program");
    for instruction in &mut program {
        if instruction.k == RET_TRACE {
            instruction.k = RET_USER_NOTIF;
        }
    }
    // A length of two bytes, and where it is.
    let described = [program.len() as u64, raw::pointer(program.as_slice())];
    let (filter, new_listener) = (1, 8);
    raw::call(libc::SYS_seccomp, &[filter, new_listener, raw::pointer(&described)])
}

/// Takes a descriptor of another process.
fn take(pid: u32, number: i64) -> io::Result<u64> {
    let process = raw::call(libc::SYS_pidfd_open, &[pid.into(), 0])?;
    let taken =
        raw::call(libc::SYS_pidfd_getfd, &[process.unsigned_abs(), number.unsigned_abs(), 0])?;
    Ok(taken.unsigned_abs())
}

/// Answers for as long as there is anybody to ask.
fn serve(listener: u64, version: usize) {
    let fd = i32::try_from(listener).expect("a descriptor");
    loop {
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let waited = raw::call(libc::SYS_ppoll, &[raw::pointer_mut(&mut poll), 1, 0, 0, 0]);
        if waited.is_err() || poll.revents & libc::POLLIN == 0 {
            return;
        }
        let mut asked = Asked::default();
        if raw::call(libc::SYS_ioctl, &[listener, NOTIF_RECV, raw::pointer_mut(&mut asked)])
            .is_err()
        {
            // Who asked was killed meanwhile.
            continue;
        }
        let (value, error, flags) = match answer(&asked, version) {
            Ok(Some(value)) => (value, 0, 0),
            Ok(None) => (0, 0, CONTINUE),
            Err(error) => (0, -error, 0),
        };
        let mut answer = Answer { id: asked.id, value, error, flags };
        let _ = raw::call(libc::SYS_ioctl, &[listener, NOTIF_SEND, raw::pointer_mut(&mut answer)]);
    }
}

/// An answer of an older kernel's, or `None` if it is the same today.
fn answer(asked: &Asked, version: usize) -> Result<Option<i64>, i32> {
    let [first, size, flags, ..] = asked.arguments;
    if i64::from(asked.call) == RESTRICT_SELF {
        // The second argument is that of the flags.
        return if size != 0 && version < FLAGS { Err(libc::EINVAL) } else { Ok(None) };
    }
    if (first, size, flags) == (0, 0, VERSION) {
        return Ok(Some(i64::try_from(version).unwrap_or_default()));
    }
    if flags != 0 {
        return Err(libc::EINVAL);
    }
    let [files, ports, scopes] =
        attributes(asked.pid, first, size).map_err(|_unreadable| libc::EFAULT)?;
    if (ports != 0 && version < PORTS) || (scopes != 0 && version < SCOPES) {
        // Behind the end of what it knows it wants zeros.
        return Err(libc::E2BIG);
    }
    if files & !FILES[version - 1] != 0 { Err(libc::EINVAL) } else { Ok(None) }
}

fn attributes(pid: u32, address: u64, size: u64) -> io::Result<[u64; 3]> {
    let mut words = [0; 3];
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    for (word, at) in words.iter_mut().zip((0..size).step_by(8)) {
        let mut bytes = [0; 8];
        memory.read_exact_at(&mut bytes, address + at)?;
        *word = u64::from_ne_bytes(bytes);
    }
    Ok(words)
}
