//! Attacks on other processes, and on the limits of the attacker's own process.

use std::{fs, os::fd::AsRawFd, path::Path};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    libc,
    sys::{
        ptrace,
        resource::{Resource, getrlimit, setrlimit},
        signal::{SigSet, SigmaskHow, Signal, kill, killpg, pthread_sigmask},
    },
    unistd::{Gid, Pid, Uid, chdir, getpgid, setgroups, setresgid, setresuid, setuid},
};

use super::pid;
use crate::{
    helper,
    outcome::{Outcome, any, apart, list as names, reaches, read, tried},
    raw::{self, call, pointer, pointer_mut},
    targets::Targets,
};

/// Widens a C `int` to an argument of a system call.
fn int(number: i32) -> u64 {
    number.cast_unsigned().into()
}

/// Processes that a tenant must not reach.
fn others(targets: &Targets) -> [(&'static str, i32); 3] {
    [("victim", targets.victim), ("supervisor", targets.supervisor), ("spawner", targets.spawner)]
}

fn each(targets: &Targets, attempt: impl Fn(i32) -> Outcome) -> Outcome {
    any(others(targets).map(|(name, pid)| (name, attempt(pid))))
}

pub(crate) fn kill_all(_: &Targets) -> Outcome {
    tried(kill(pid(-1), Signal::SIGKILL))
}

pub(crate) fn stop_all(_: &Targets) -> Outcome {
    tried(kill(pid(-1), Signal::SIGSTOP))
}

pub(crate) fn signal(targets: &Targets) -> Outcome {
    each(targets, |number| {
        any([
            ("kill", tried(kill(pid(number), None))),
            ("killpg", tried(killpg(group(number), None))),
            ("tgkill", tried(call(libc::SYS_tgkill, &[int(number), int(number), 0]))),
            ("pidfd", pidfd_signal(number)),
            ("queue", queue(number)),
        ])
    })
}

/// The process group of `number`. In some tiers, the victim does not lead its
/// group.
fn group(number: i32) -> Pid {
    // 0 is a group of another PID namespace, and would stand for the attacker's own.
    let group = getpgid(Some(pid(number))).ok().filter(|group| group.as_raw() != 0);
    group.unwrap_or(pid(number))
}

fn pidfd_signal(number: i32) -> Outcome {
    let sent = call(libc::SYS_pidfd_open, &[int(number), 0])
        .and_then(|fd| call(libc::SYS_pidfd_send_signal, &[fd.cast_unsigned(), 0, 0, 0]));
    tried(sent)
}

fn queue(number: i32) -> Outcome {
    // siginfo_t whose si_code is SI_QUEUE.
    let mut about = [0_i32; 32];
    about[2] = -1;
    tried(call(libc::SYS_rt_sigqueueinfo, &[int(number), 0, pointer(&about)]))
}

/// Lets the kernel send SIGKILL to a process when a pipe becomes readable.
pub(crate) fn signal_by_input(targets: &Targets) -> Outcome {
    const SET_SIGNAL: i32 = 10;
    each(targets, |number| {
        let (read, write) = nix::unistd::pipe().expect("a pipe");
        let fd = int(read.as_raw_fd());
        let set = |command: i32, value: u64| call(libc::SYS_fcntl, &[fd, int(command), value]);
        // These calls always succeed. The kernel checks the right only when it
        // delivers the signal, so the proof is the victim's death.
        let prepared = set(libc::F_SETOWN, int(number))
            .and_then(|_| set(SET_SIGNAL, int(libc::SIGKILL)))
            .and_then(|_| {
                let flags = OFlag::O_ASYNC | OFlag::O_NONBLOCK;
                Ok(fcntl(&read, FcntlArg::F_SETFL(flags))?)
            });
        tried(prepared.and_then(|_| Ok(nix::unistd::write(&write, b"x")?)))
    })
}

pub(crate) fn trace(targets: &Targets) -> Outcome {
    each(targets, |number| {
        any([
            // A process can have only one tracer, until that tracer ends.
            ("seize", apart(|| tried(ptrace::seize(pid(number), ptrace::Options::empty())))),
            ("attach", apart(|| tried(ptrace::attach(pid(number))))),
        ])
    })
}

pub(crate) fn read_memory(targets: &Targets) -> Outcome {
    each(targets, |number| {
        let mut bytes = [0_u8; 8];
        let local = [pointer_mut(&mut bytes), 8];
        // Address 0 is never mapped. The kernel checks the address only after
        // the caller's rights.
        let remote = [0, 8];
        let arguments = [int(number), pointer(&local), 1, pointer(&remote), 1, 0];
        let read = reaches(libc::SYS_process_vm_readv, &arguments, Errno::EFAULT);
        let file = fs::File::open(format!("/proc/{number}/mem"));
        any([("vm_readv", read), ("mem", tried(file))])
    })
}

pub(crate) fn read_environment(targets: &Targets) -> Outcome {
    each(targets, |number| read(format!("/proc/{number}/environ")))
}

pub(crate) fn read_command_line(targets: &Targets) -> Outcome {
    each(targets, |number| {
        let file = |name: &str| read(format!("/proc/{number}/{name}"));
        any(["cmdline", "stat", "status", "maps", "comm", "cgroup"].map(|name| (name, file(name))))
    })
}

pub(crate) fn list(targets: &Targets) -> Outcome {
    let entries = match fs::read_dir("/proc") {
        Ok(entries) => entries,
        Err(error) => return Outcome::refused(error.to_string()),
    };
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    each(targets, |number| {
        if names.contains(&number.to_string().into()) {
            Outcome::done("the process is visible")
        } else {
            Outcome::refused("the process is not listed")
        }
    })
}

pub(crate) fn enter(targets: &Targets) -> Outcome {
    each(targets, |number| {
        let at = |name: &str| format!("/proc/{number}/{name}");
        any([
            ("root", names(at("root"))),
            ("cwd", names(at("cwd"))),
            ("chdir", tried(chdir(Path::new(&at("cwd"))))),
            ("exe", tried(fs::read_link(at("exe")))),
            ("fd", names(at("fd"))),
            ("ns", tried(fs::read_link(at("ns/mnt")))),
        ])
    })
}

pub(crate) fn take_descriptor(targets: &Targets) -> Outcome {
    each(targets, |number| {
        let taken = call(libc::SYS_pidfd_open, &[int(number), 0])
            .and_then(|fd| call(libc::SYS_pidfd_getfd, &[fd.cast_unsigned(), 0, 0]));
        let compared = call(libc::SYS_kcmp, &[int(number), int(number), 0, 0, 0]);
        any([("getfd", tried(taken)), ("kcmp", tried(compared))])
    })
}

/// A process can be ended by lower limits as well as by signals.
pub(crate) fn limit(targets: &Targets) -> Outcome {
    const DESCRIPTORS: u64 = 7;
    each(targets, |number| {
        let mut now = [0_u64; 2];
        let read = call(libc::SYS_prlimit64, &[int(number), DESCRIPTORS, 0, pointer_mut(&mut now)]);
        // The new limits equal the old ones. This proves the attack without harm.
        let set = read
            .and_then(|_| call(libc::SYS_prlimit64, &[int(number), DESCRIPTORS, pointer(&now), 0]));
        tried(set)
    })
}

pub(crate) fn slow_down(targets: &Targets) -> Outcome {
    const IO_OF_PROCESS: u64 = 1;
    const IO_IDLE: u64 = 3 << 13;
    each(targets, |number| {
        let both = [u64::MAX];
        let parameter = [0_i32];
        let number = int(number);
        let policy = [number, int(libc::SCHED_BATCH), pointer(&parameter)];
        any([
            ("nice", tried(call(libc::SYS_setpriority, &[0, number, 0]))),
            ("affinity", tried(call(libc::SYS_sched_setaffinity, &[number, 8, pointer(&both)]))),
            ("policy", tried(call(libc::SYS_sched_setscheduler, &policy))),
            ("io", tried(call(libc::SYS_ioprio_set, &[IO_OF_PROCESS, number, IO_IDLE]))),
        ])
    })
}

/// A crowd of processes that is kept on some processors would leave them.
pub(crate) fn processors(_: &Targets) -> Outcome {
    let all = [u64::MAX];
    tried(call(libc::SYS_sched_setaffinity, &[0, 8, pointer(&all)]))
}

pub(crate) fn slow_down_user(targets: &Targets) -> Outcome {
    const USER: u64 = 2;
    // If all processes have one UID, this slows down the supervisor as well.
    let victim = targets.victim_uid.into();
    tried(call(libc::SYS_setpriority, &[USER, victim, 19]))
}

pub(crate) fn inherited_descriptors(_: &Targets) -> Outcome {
    for fd in 3..1024 {
        let state = call(libc::SYS_fcntl, &[int(fd), int(libc::F_GETFD)]);
        if state.is_ok() {
            return Outcome::done(format!("descriptor {fd} is open"));
        }
    }
    Outcome::refused("only the standard descriptors are open")
}

#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
pub(crate) fn inherited_variables(_: &Targets) -> Outcome {
    let own = std::env::vars_os().find(|(name, _)| name.to_string_lossy().starts_with("CMP_"));
    own.map_or(Outcome::refused("no such variable"), |(name, _)| {
        Outcome::done(name.to_string_lossy())
    })
}

pub(crate) fn standard_input(_: &Targets) -> Outcome {
    let mut text = String::new();
    match std::io::Read::read_to_string(&mut std::io::stdin(), &mut text) {
        Ok(0) => Outcome::refused("standard input is empty"),
        Ok(_) => Outcome::done(text),
        Err(error) => Outcome::refused(error.to_string()),
    }
}

pub(crate) fn inherited_signals(_: &Targets) -> Outcome {
    let mut blocked = SigSet::empty();
    let read = pthread_sigmask(SigmaskHow::SIG_BLOCK, None, Some(&mut blocked));
    read.expect("a mask");
    let first = blocked.iter().next();
    first.map_or(Outcome::refused("no signal is blocked"), |signal| {
        Outcome::done(format!("{signal} is blocked"))
    })
}

pub(crate) fn core(_: &Targets) -> Outcome {
    tried(setrlimit(Resource::RLIMIT_CORE, 2, 2))
}

pub(crate) fn raise_limits(_: &Targets) -> Outcome {
    let raise = |resource| {
        let (_, hard) = getrlimit(resource).expect("a limit");
        tried(setrlimit(resource, hard, hard + 1))
    };
    any([
        ("processes", raise(Resource::RLIMIT_NPROC)),
        ("files", raise(Resource::RLIMIT_NOFILE)),
        ("data", raise(Resource::RLIMIT_DATA)),
        ("size", raise(Resource::RLIMIT_FSIZE)),
    ])
}

pub(crate) fn become_other(targets: &Targets) -> Outcome {
    let (root, victim) = (Uid::from_raw(0), Uid::from_raw(targets.victim_uid));
    let group = Gid::from_raw(0);
    let is_self = Uid::current() == victim;
    let other = if is_self { root } else { victim };
    any([
        ("setuid", apart(|| tried(setuid(root)))),
        ("setresuid", apart(|| tried(setresuid(root, root, root)))),
        ("victim", apart(|| tried(setresuid(other, other, other)))),
        ("setresgid", apart(|| tried(setresgid(group, group, group)))),
        ("setgroups", apart(|| tried(setgroups(&[group])))),
    ])
}

pub(crate) fn capabilities(_: &Targets) -> Outcome {
    const AMBIENT: u64 = 47;
    const RAISE: u64 = 2;
    // struct __user_cap_header_struct, version 3, and its data.
    let header = [0x2008_0522_u32, 0];
    // DAC_OVERRIDE, KILL, SETGID and SETUID, in all three sets.
    let wanted = [0xe2_u32, 0xe2, 0xe2, 0, 0, 0];
    let set = call(libc::SYS_capset, &[pointer(&header), pointer(&wanted)]);
    let mut now = [0_u32; 6];
    call(libc::SYS_capget, &[pointer(&header), pointer_mut(&mut now)]).expect("capabilities");
    let has = if now == [0; 6] { Err("no capability") } else { Ok(()) };
    let ambient = call(libc::SYS_prctl, &[AMBIENT, RAISE, 7, 0, 0]);
    any([("capset", tried(set)), ("has", tried(has)), ("ambient", tried(ambient))])
}

pub(crate) fn spare_self(_: &Targets) -> Outcome {
    tried(fs::write("/proc/self/oom_score_adj", "-1000"))
}

/// Back to the score of the supervisor, which needs no capability.
pub(crate) fn lower_own_score(_: &Targets) -> Outcome {
    tried(fs::write("/proc/self/oom_score_adj", "0"))
}

pub(crate) fn take_in_orphans(_: &Targets) -> Outcome {
    tried(nix::sys::prctl::set_child_subreaper(true))
}

/// The kernel's table for the locks of this process, of 64 MiB.
pub(crate) fn enlarge_futex_hash(_: &Targets) -> Outcome {
    const FUTEX_HASH: u64 = 78;
    const SET_SLOTS: u64 = 1;
    tried(call(libc::SYS_prctl, &[FUTEX_HASH, SET_SLOTS, 1 << 20, 0, 0]))
}

pub(crate) fn close_output(_: &Targets) -> Outcome {
    for fd in 0..3 {
        // This program no longer uses these descriptors.
        let _ = call(libc::SYS_close, &[int(fd)]);
    }
    raw::leave(0)
}

pub(crate) fn run_from_memory(_: &Targets) -> Outcome {
    let made = call(libc::SYS_memfd_create, &[pointer(c"x".to_bytes_with_nul()), 0]);
    let fd = match made {
        Ok(fd) => i32::try_from(fd).expect("a descriptor"),
        Err(error) => return Outcome::refused(error.to_string()),
    };
    let script = b"#!/bin/sh\nexit 7\n";
    let arguments = [int(fd), pointer(script), script.len() as u64];
    call(libc::SYS_write, &arguments).expect("a written script");
    match std::process::Command::new(format!("/proc/self/fd/{fd}")).status() {
        Ok(status) if status.code() == Some(7) => Outcome::done("the script ran"),
        Ok(status) => Outcome::refused(format!("the script did not run: {status}")),
        Err(error) => Outcome::refused(error.to_string()),
    }
}

/// Sets options of the process that would turn off its protection.
pub(crate) fn loosen(_: &Targets) -> Outcome {
    const SUBREAPER: u64 = 0x24;
    let option = |option: i32, value: u64| call(libc::SYS_prctl, &[int(option), value, 0, 0, 0]);
    // Neither of these two can be turned off again, so the attack succeeds only
    // if it finds them off.
    let turned_off = |(set, value): (i32, u64), get: i32| {
        let _ = option(set, value);
        match option(get, 0) {
            Ok(0) => Outcome::done("the option is off"),
            other => Outcome::refused(format!("the option is on: {other:?}")),
        }
    };
    any([
        ("no_new_privs", turned_off((libc::PR_SET_NO_NEW_PRIVS, 0), libc::PR_GET_NO_NEW_PRIVS)),
        ("seccomp", turned_off((libc::PR_SET_SECCOMP, 0), libc::PR_GET_SECCOMP)),
        ("keep capabilities", tried(option(libc::PR_SET_SECUREBITS, 1))),
        ("subreaper, wide", tried(call(libc::SYS_prctl, &[SUBREAPER | 1 << 32, 1]))),
    ])
}

/// Reads a variable that only another request was given.
pub(crate) fn other_variable(_: &Targets) -> Outcome {
    match helper::variable("ARGOCD_ENV_MARK") {
        Some(value) => Outcome::done(value),
        None => Outcome::refused("the variable is not set"),
    }
}
