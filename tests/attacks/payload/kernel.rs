//! Attacks through kernel features that no tenant needs.

use std::{
    fs,
    net::UdpSocket,
    os::fd::{AsRawFd, IntoRawFd},
};

use nix::{
    errno::Errno,
    libc,
    sched::CloneFlags,
    sys::{
        prctl,
        socket::{AddressFamily, SockFlag, SockType, socket},
        wait::{WaitStatus, waitpid},
    },
    unistd::pipe,
};

use crate::{
    outcome::{Outcome, any, apart, reaches, tried},
    raw::{self, call, pointer, pointer_mut},
    targets::Targets,
};

/// A `struct sock_filter` that accepts every system call.
pub(crate) const ACCEPT_CALLS: [u64; 1] = [6 | 0x7fff_0000 << 32];

fn one(number: i64, arguments: &[u64]) -> Outcome {
    tried(call(number, arguments))
}

fn flags(flags: CloneFlags) -> u64 {
    flags.bits().cast_unsigned().into()
}

pub(crate) fn settings(_: &Targets) -> Outcome {
    let paths = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sysrq-trigger",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ];
    let write = |path| (path, tried(fs::OpenOptions::new().write(true).open(path)));
    any(paths.map(write))
}

pub(crate) fn namespaces(_: &Targets) -> Outcome {
    let all = [
        ("user", CloneFlags::CLONE_NEWUSER),
        ("user and mount", CloneFlags::CLONE_NEWUSER.union(CloneFlags::CLONE_NEWNS)),
        ("network", CloneFlags::CLONE_NEWNET),
        ("processes", CloneFlags::CLONE_NEWPID),
        ("cgroup", CloneFlags::CLONE_NEWCGROUP),
    ];
    any(all.map(|(name, kind)| (name, apart(|| one(libc::SYS_unshare, &[flags(kind)])))))
}

pub(crate) fn clone_namespaces(_: &Targets) -> Outcome {
    let child = libc::SIGCHLD.cast_unsigned().into();
    let wanted = flags(CloneFlags::CLONE_NEWUSER);
    // If the call creates a child, the child ends at once.
    let clone = |flags: u64| match call(libc::SYS_clone, &[flags, 0, 0, 0, 0]) {
        Ok(0) => raw::leave(0),
        other => tried(other),
    };
    let arguments = [wanted, 0, 0, 0, child, 0, 0, 0];
    let third = match call(libc::SYS_clone3, &[pointer(&arguments), 64]) {
        Ok(0) => raw::leave(0),
        other => tried(other),
    };
    any([("clone", clone(wanted | child)), ("clone3", third)])
}

/// Gives a thread descriptors of its own, which the process does not show.
pub(crate) fn own_descriptors(_: &Targets) -> Outcome {
    const UNSHARE: u64 = 2;
    // No descriptor has these numbers, and a thread needs more flags than this one.
    let (numbers, thread) = ([1 << 30, 1 << 30], flags(CloneFlags::CLONE_THREAD));
    any([
        ("unshare", one(libc::SYS_unshare, &[flags(CloneFlags::CLONE_FILES)])),
        ("close_range", one(libc::SYS_close_range, &[numbers[0], numbers[1], UNSHARE])),
        ("clone", reaches(libc::SYS_clone, &[thread, 0, 0, 0, 0], Errno::EINVAL)),
    ])
}

pub(crate) fn mounts(_: &Targets) -> Outcome {
    let (tmpfs, here) = (c"tmpfs".to_bytes_with_nul(), c".".to_bytes_with_nul());
    let there = c"mounted".to_bytes_with_nul();
    fs::create_dir("mounted").expect("a directory");
    let mount = [pointer(tmpfs), pointer(there), pointer(tmpfs), 0, 0];
    let open = |path| fs::File::open(path).map(|file| file.into_raw_fd().cast_unsigned().into());
    let fd = open(".").expect("the current directory");
    // Some tenants may not open this file. `setns` must be refused for any
    // descriptor.
    let namespace = open("/proc/self/ns/uts").unwrap_or(fd);
    any([
        ("mount", one(libc::SYS_mount, &mount)),
        ("umount2", one(libc::SYS_umount2, &[pointer(there), 2])),
        ("fsopen", one(libc::SYS_fsopen, &[pointer(tmpfs), 0])),
        ("open_tree", one(libc::SYS_open_tree, &[fd, pointer(here), 1])),
        ("chroot", apart(|| one(libc::SYS_chroot, &[pointer(here)]))),
        // Neither path is the root of a mount, so an allowed call fails.
        (
            "pivot_root",
            reaches(libc::SYS_pivot_root, &[pointer(here), pointer(here)], Errno::EINVAL),
        ),
        ("setns", one(libc::SYS_setns, &[namespace, 0])),
    ])
}

/// Reads the list of mounts, and changes mounts and files by new calls.
pub(crate) fn new_calls(_: &Targets) -> Outcome {
    const STATMOUNT: i64 = 457;
    const LISTMOUNT: i64 = 458;
    const OPEN_TREE_ATTR: i64 = 467;
    const FILE_SETATTR: i64 = 469;
    // `LSMT_ROOT`: the mount of the root directory. struct mnt_id_req: size, spare, mount,
    // parameter.
    let request = [24_u64, u64::MAX, 0];
    let (ids, about) = ([0_u64; 64], [0_u8; 1024]);
    let here = pointer(c".".to_bytes_with_nul());
    // An empty struct file_attr: no flags. The descriptor of the current directory is -100.
    let (attributes, at) = ([0_u64; 3], -100_i64);
    any([
        ("listmount", one(LISTMOUNT, &[pointer(&request), pointer(&ids), 64, 0])),
        // No mount has this number, so an allowed call fails.
        (
            "statmount",
            reaches(
                STATMOUNT,
                &[pointer(&[24_u64, 1 << 40, 1]), pointer(&about), 1024, 0],
                Errno::ENOENT,
            ),
        ),
        // Without `OPEN_TREE_CLONE`, it only opens the directory.
        ("open_tree_attr", one(OPEN_TREE_ATTR, &[at.cast_unsigned(), here, 0, 0, 0])),
        // A size of zero is invalid, so an allowed call fails.
        (
            "file_setattr",
            reaches(
                FILE_SETATTR,
                &[at.cast_unsigned(), here, pointer(&attributes), 0, 0],
                Errno::EINVAL,
            ),
        ),
    ])
}

pub(crate) fn programs_in_kernel(_: &Targets) -> Outcome {
    // union bpf_attr: an array of one element with keys and values of 4 bytes.
    let array = [2_u32, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // struct perf_event_attr: its size, and the software clock as the event.
    let mut event = [0_u64; 16];
    event[0] = 1 | 112 << 32;
    let ring = [0_u64; 16];
    // aio_context_t: none yet.
    let context = [0_u64];
    any([
        ("bpf", one(libc::SYS_bpf, &[0, pointer(&array), 72])),
        ("perf", one(libc::SYS_perf_event_open, &[pointer(&event), 0, u64::MAX, u64::MAX, 0])),
        ("io_uring", one(libc::SYS_io_uring_setup, &[1, pointer(&ring)])),
        ("aio", one(libc::SYS_io_setup, &[1, pointer(&context)])),
        ("userfaultfd", one(libc::SYS_userfaultfd, &[1])),
        ("fanotify", one(libc::SYS_fanotify_init, &[0x200, 0])),
    ])
}

/// Rules, programs and parts of files whose memory in the kernel no measurement sees.
pub(crate) fn hidden_memory(_: &Targets) -> Outcome {
    // struct landlock_ruleset_attr: reading files.
    let ruleset = [4_u64, 0, 0];
    // struct sock_filter: accept everything; struct sock_fprog: one of them.
    let accept = [6_u64 | 0xffff << 32];
    let program = [1, pointer(&accept)];
    let attach = |option: i32| {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
        let (socket, level) = (socket.as_raw_fd().unsigned_abs(), libc::SOL_SOCKET.unsigned_abs());
        let (option, size) = (option.unsigned_abs().into(), 16);
        let arguments = [socket.into(), level.into(), option, pointer(&program), size];
        one(libc::SYS_setsockopt, &arguments)
    };
    let stream = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None);
    let stream = stream.expect("a socket");
    // struct tcp_zerocopy_receive: nothing of nowhere.
    let (mut pages, mut size) = ([0_u64; 2], 16_u32);
    let receive = [
        stream.as_raw_fd().unsigned_abs().into(),
        libc::IPPROTO_TCP.unsigned_abs().into(),
        libc::TCP_ZEROCOPY_RECEIVE.unsigned_abs().into(),
        pointer_mut(&mut pages),
        pointer_mut(&mut size),
    ];
    // A file of 4096 bytes, and a pipe for one of them.
    let name = pointer(c"file".to_bytes_with_nul());
    let file = call(libc::SYS_memfd_create, &[name, 0]).expect("a file").cast_unsigned();
    call(libc::SYS_ftruncate, &[file, 4096]).expect("a length");
    let (_read, write) = pipe().expect("a pipe");
    let write: u64 = write.as_raw_fd().unsigned_abs().into();
    any([
        ("landlock", one(libc::SYS_landlock_create_ruleset, &[pointer(&ruleset), 8, 0])),
        ("filter", attach(libc::SO_ATTACH_FILTER)),
        ("reserve", attach(libc::SO_RESERVE_MEM)),
        ("zerocopy", attach(libc::SO_ZEROCOPY)),
        ("receive", one(libc::SYS_getsockopt, &receive)),
        ("listener", apart(listener)),
        ("splice", one(libc::SYS_splice, &[file, 0, write, 0, 1, 0])),
        ("sendfile", one(libc::SYS_sendfile, &[write, file, 0, 1])),
    ])
}

/// Installs a filter of system calls and opens its listener, which holds it.
fn listener() -> Outcome {
    const FILTER: u64 = 1;
    const NEW_LISTENER: u64 = 8;
    prctl::set_no_new_privs().expect("no new privileges");
    let program = [1, pointer(&ACCEPT_CALLS)];
    one(libc::SYS_seccomp, &[FILTER, NEW_LISTENER, pointer(&program)])
}

/// A socket that the last process to close it waits for, which may be the supervisor.
pub(crate) fn lingering_socket(_: &Targets) -> Outcome {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
    let descriptor = socket.as_raw_fd().unsigned_abs().into();
    let (level, option) = (libc::SOL_SOCKET.unsigned_abs(), libc::SO_LINGER.unsigned_abs());
    // struct linger: on, and its time in seconds.
    let linger = [1_u64 | 3600 << 32];
    let arguments = [descriptor, level.into(), option.into(), pointer(&linger), 8];
    one(libc::SYS_setsockopt, &arguments)
}

pub(crate) fn machine(_: &Targets) -> Outcome {
    const SYNC: u64 = 0x8000_0100;
    let text = pointer(c"evil".to_bytes_with_nul());
    any([
        // An empty module is invalid, so an allowed call fails.
        ("init_module", reaches(libc::SYS_init_module, &[0, 0, text], Errno::ENOEXEC)),
        ("kexec_load", one(libc::SYS_kexec_load, &[0, 0, 0, 0])),
        ("swapoff", reaches(libc::SYS_swapoff, &[text], Errno::ENOENT)),
        ("acct", one(libc::SYS_acct, &[0])),
        ("syslog", one(libc::SYS_syslog, &[10, 0, 0])),
        ("sethostname", one(libc::SYS_sethostname, &[text, 4])),
        // Without a time and a time zone, the call does not change the clock.
        ("settimeofday", one(libc::SYS_settimeofday, &[0, 0])),
        ("quotactl", one(libc::SYS_quotactl, &[SYNC, 0, 0, 0])),
    ])
}

pub(crate) fn oddities(_: &Targets) -> Outcome {
    const NO_RANDOM: u64 = 0x0004_0000;
    let all = [
        ("personality", one(libc::SYS_personality, &[NO_RANDOM])),
        ("memfd_secret", one(libc::SYS_memfd_secret, &[0])),
        // The descriptor does not exist, so an allowed call fails.
        (
            "process_madvise",
            reaches(libc::SYS_process_madvise, &[u64::MAX, 0, 0, 0, 0], Errno::EBADF),
        ),
        ("vmsplice", reaches(libc::SYS_vmsplice, &[u64::MAX, 0, 0, 0], Errno::EBADF)),
        ("move_pages", one(libc::SYS_move_pages, &[0, 0, 0, 0, 0, 0])),
        ("lookup_dcookie", one(libc::SYS_lookup_dcookie, &[0, 0, 0])),
    ];
    #[cfg(target_arch = "x86_64")]
    let all = all.into_iter().chain([
        ("iopl", one(libc::SYS_iopl, &[3])),
        ("modify_ldt", one(libc::SYS_modify_ldt, &[0, 0, 0])),
        ("uselib", one(libc::SYS_uselib, &[0])),
    ]);
    any(all)
}

/// Puts characters into a terminal. An allowed call fails with `ENOTTY` if the
/// file is not a terminal.
pub(crate) fn terminal(_: &Targets) -> Outcome {
    const STUFF: u64 = 0x5412;
    const LINUX: u64 = 0x541c;
    const WIDE: u64 = 1 << 32;
    let character = pointer(b"x");
    let attempt = |request: u64| match call(libc::SYS_ioctl, &[0, request, character]) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Outcome::refused("filtered"),
        other => Outcome::done(format!("{other:?}")),
    };
    any([
        ("stuff", attempt(STUFF)),
        ("stuff, wide", attempt(STUFF | WIDE)),
        ("linux", attempt(LINUX)),
        ("linux, wide", attempt(LINUX | WIDE)),
    ])
}

/// Makes system calls by their x32 and 32-bit numbers.
#[cfg(target_arch = "x86_64")]
pub(crate) fn other_numbers(_: &Targets) -> Outcome {
    const X32: i64 = 0x4000_0000;
    const GETPID_32: u32 = 20;
    let child = raw::fork(|| {
        let is_real = raw::int80(GETPID_32) == std::process::id().cast_signed();
        raw::leave(i32::from(!is_real));
    });
    let gate = match child.and_then(|child| waitpid(child, None)) {
        Ok(WaitStatus::Exited(_, 0)) => Outcome::done("32-bit calls are served"),
        other => Outcome::refused(format!("{other:?}")),
    };
    any([("x32", one(X32 | libc::SYS_getpid, &[])), ("int 0x80", gate)])
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn other_numbers(_: &Targets) -> Outcome {
    Outcome::refused("this architecture has no other system call numbers")
}
