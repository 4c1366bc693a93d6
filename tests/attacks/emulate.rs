//! Emulates kernels and container runtimes by removing features before the
//! program starts.

use std::{
    collections::{BTreeMap, HashSet},
    env,
    ffi::CString,
    fs,
    os::unix::ffi::OsStringExt,
};

use caps::{CapSet, Capability};
use nix::{
    libc,
    sched::{CloneFlags, unshare},
    sys::{prctl, wait::waitpid},
    unistd::{Gid, Uid, execv, getppid, pipe, read, setgroups, setresgid, setresuid},
};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::{older, raw};

/// Names of emulations. A number follows those that end in a colon.
pub(crate) const NO_LANDLOCK: &str = "no-landlock";
pub(crate) const NO_PROCESS_LIMIT: &str = "no-process-limit";
pub(crate) const OLD_LANDLOCK: &str = "landlock:";
pub(crate) const BASELINE: &str = "baseline";
pub(crate) const RESTRICTED: &str = "restricted:";
pub(crate) const USER_NAMESPACE: &str = "users:";

/// The names of the capabilities to keep follow, with `+` between them.
pub(crate) const CAPABILITIES: &str = "capabilities:";

/// A system call's number and an error number follow, then optionally an argument:
/// only calls with this first argument then fail. With error 0 the call reports
/// success although it did nothing.
pub(crate) const FAULT: &str = "fault:";

/// Supplementary group of the process, like `fsGroup` of a Pod.
const VOLUMES: u32 = 2000;

/// Landlock's system calls. A kernel without Landlock does not have them.
const LANDLOCK: [i64; 3] = [444, 445, 446];

const RLIMIT_NPROC: u64 = libc::RLIMIT_NPROC as u64;

/// Calls that a sandbox might use and that the seccomp profiles of containerd and
/// Docker deny to a process without the matching capability.
const RUNTIME_DENIES: [i64; 26] = [
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_sethostname,
    libc::SYS_quotactl,
];

/// Applies an emulation, then executes the program in the arguments.
pub(crate) fn main() {
    let mut words = env::args_os().skip(3);
    let emulation = words.next().and_then(|word| word.into_string().ok()).expect("an emulation");
    let program: Vec<_> =
        words.map(|word| CString::new(word.into_vec()).expect("a word without NUL")).collect();
    if emulation == NO_LANDLOCK {
        deny(LANDLOCK, libc::ENOSYS);
    } else if emulation == NO_PROCESS_LIMIT {
        // The call reports success but sets no limit, as on some kernels that only
        // emulate Linux.
        let processes = rule(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, RLIMIT_NPROC);
        filter([(libc::SYS_prlimit64, vec![processes])].into(), 0);
    } else if let Some(version) = emulation.strip_prefix(OLD_LANDLOCK) {
        older::know(version.parse().expect("a version"));
    } else if emulation == BASELINE {
        keep_capabilities(&[Capability::CAP_SETUID, Capability::CAP_SETGID, Capability::CAP_KILL]);
        contain();
    } else if let Some(names) = emulation.strip_prefix(CAPABILITIES) {
        let kept = names.split('+').map(|name| name.parse().expect("a capability"));
        keep_capabilities(&kept.collect::<Vec<_>>());
    } else if let Some(fault) = emulation.strip_prefix(FAULT) {
        break_call(fault);
    } else if let Some(uid) = emulation.strip_prefix(RESTRICTED) {
        change_user(uid.parse().expect("a UID"));
        keep_capabilities(&[]);
        contain();
    } else if let Some(first) = emulation.strip_prefix(USER_NAMESPACE) {
        enter_users(first);
        contain();
    }
    let path = program.first().expect("a program");
    let Err(error) = execv(path, &program);
    panic!("the program does not start: {error}");
}

/// `allowPrivilegeEscalation: false` and `seccompProfile: RuntimeDefault`.
fn contain() {
    prctl::set_no_new_privs().expect("no new privileges");
    deny(RUNTIME_DENIES, libc::EPERM);
    deny([libc::SYS_clone3], libc::ENOSYS);
    let flags = [CloneFlags::CLONE_NEWUSER, CloneFlags::CLONE_NEWNS, CloneFlags::CLONE_NEWPID];
    let rules = flags.map(|flag| {
        let value = u64::from(flag.bits().cast_unsigned());
        rule(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(value), value)
    });
    filter([(libc::SYS_clone, rules.to_vec())].into(), libc::EPERM);
}

fn deny<const N: usize>(calls: [i64; N], errno: i32) {
    filter(calls.into_iter().map(|call| (call, Vec::new())).collect(), errno);
}

fn break_call(fault: &str) {
    // A Pod's process has the group of its volumes.
    setgroups(&[Gid::from_raw(VOLUMES)]).expect("a further group");
    let numbers = fault.split(':').map(|number| number.parse::<u32>().expect("a number"));
    let numbers: Vec<_> = numbers.collect();
    let (call, error, argument) = match *numbers.as_slice() {
        [call, error] => (call, error, None),
        [call, error, argument] => (call, error, Some(argument)),
        _ => panic!("a call, an error and perhaps an argument"),
    };
    let rules = argument
        .map(|argument| rule(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, u64::from(argument)));
    filter([(i64::from(call), rules.into_iter().collect())].into(), error.cast_signed());
}

/// Matches calls whose argument at index `number` compares to `value` by `how`.
fn rule(number: u8, size: SeccompCmpArgLen, how: SeccompCmpOp, value: u64) -> SeccompRule {
    let condition = SeccompCondition::new(number, size, how, value).expect("a condition");
    SeccompRule::new(vec![condition]).expect("a rule")
}

fn filter(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) {
    let denied = SeccompAction::Errno(errno.cast_unsigned());
    let arch = env::consts::ARCH.try_into().expect("a known machine");
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, arch);
    let program: seccompiler::BpfProgram = filter.expect("a filter").try_into().expect("a program");
    seccompiler::apply_filter(&program).expect("an installed filter");
}

fn keep_capabilities(kept: &[Capability]) {
    let kept: HashSet<_> = kept.iter().copied().collect();
    if Uid::effective().is_root() {
        for other in caps::all().difference(&kept) {
            // A kernel may not know all of them.
            let _ = caps::drop(None, CapSet::Bounding, *other);
        }
    }
    caps::clear(None, CapSet::Inheritable).expect("nothing to inherit");
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, &kept).expect("fewer capabilities");
    }
}

fn change_user(uid: u32) {
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
    setgroups(&[]).expect("no groups");
    setresgid(group, group, group).expect("another group");
    setresuid(user, user, user).expect("another user");
}

/// Enters a user namespace. A process outside it has to write the maps, so a child
/// stays outside and writes them.
fn enter_users(first: &str) {
    let own = std::process::id();
    let (ready, entered) = pipe().expect("a pipe");
    let child = raw::fork(|| {
        let mut byte = [0];
        let _ = read(&ready, &mut byte);
        for map in ["gid_map", "uid_map"] {
            let path = format!("/proc/{own}/{map}");
            fs::write(path, format!("0 {first} 65536")).expect("a map");
        }
        let _ = getppid();
    });
    let child = child.expect("a child");
    unshare(CloneFlags::CLONE_NEWUSER).expect("a user namespace");
    nix::unistd::write(&entered, b"x").expect("a word");
    waitpid(child, None).expect("maps");
    change_user(0);
    keep_capabilities(&[Capability::CAP_SETUID, Capability::CAP_SETGID, Capability::CAP_KILL]);
}
