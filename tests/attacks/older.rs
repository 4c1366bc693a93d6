//! Emulates an older Landlock: features that its version lacks are refused.
//!
//! The kernel passes each Landlock call to a process outside (seccomp user
//! notification). That process refuses the call, answers it, or lets the kernel
//! run it if the older version supported it.

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

/// The flag that asks for the version. The first version has no other flag.
const VERSION: u64 = 1;

/// File access rights by version, and the first versions with ports and scopes.
const FILES: [u64; 7] = [0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff, 0xffff, 0xffff];
const PORTS: usize = 4;
const SCOPES: usize = 6;

/// First version in which `landlock_restrict_self` takes flags.
const FLAGS: usize = 7;

/// Values from the kernel's headers.
const RET_TRACE: u32 = 0x7ff0_0000;
const RET_USER_NOTIF: u32 = 0x7fc0_0000;
const NOTIF_RECV: u64 = 0xc050_2100;
const NOTIF_SEND: u64 = 0xc018_2101;
const CONTINUE: u32 = 1;

/// The system call of a program: `struct seccomp_notif`.
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

/// The answer to the program: `struct seccomp_notif_resp`.
#[repr(C)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// Limits this process, and the programs it executes, to one version of Landlock.
pub(crate) fn know(version: usize) {
    let (number, tell_number) = pipe().expect("a pipe");
    let (ready, tell_ready) = pipe().expect("a pipe");
    let own = process::id();
    // Orphan the answering process: the program counts its own children.
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

/// Redirects Landlock calls to a listener and returns its descriptor.
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
    // `struct sock_fprog`: the length (two bytes), then the address of the filter.
    let described = [program.len() as u64, raw::pointer(program.as_slice())];
    let (filter, new_listener) = (1, 8);
    raw::call(libc::SYS_seccomp, &[filter, new_listener, raw::pointer(&described)])
}

/// Duplicates a descriptor of another process into this one.
fn take(pid: u32, number: i64) -> io::Result<u64> {
    let process = raw::call(libc::SYS_pidfd_open, &[pid.into(), 0])?;
    let taken =
        raw::call(libc::SYS_pidfd_getfd, &[process.unsigned_abs(), number.unsigned_abs(), 0])?;
    Ok(taken.unsigned_abs())
}

/// Answers calls until no process under the filter is left.
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
            // The calling process was killed in the meantime.
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
        // The second argument holds the flags.
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
        // The kernel requires zeros in fields that its version does not have.
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
