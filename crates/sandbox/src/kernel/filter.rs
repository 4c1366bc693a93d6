//! The seccomp filter: denies system calls that no tenant needs and that could
//! bypass other restrictions.

mod assemble;
mod files;
mod sockets;

use nix::libc;
use seccompiler::BpfProgram;
use thiserror::Error;

use self::{
    assemble::{Action, CallRule, Compare, Condition, assemble},
    files::{ioctls, space},
    sockets::{socket_programs, sockets_of, stream_pairs},
};

/// Tiers with and without a separate UID for each tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TenantUid {
    /// The tenant has its own UID, so the kernel's rules between UIDs apply.
    Own,
    /// All tenants and the supervisor share a UID. The filter therefore denies
    /// more: Unix sockets except socket pairs of streams, because file modes
    /// cannot protect plugins' sockets; changing the priority of other
    /// processes; and inotify, which would reveal names of other workspaces.
    Shared,
}

/// The kernel rejected the filter.
#[derive(Debug, Error)]
#[error("seccomp: {0}")]
pub(crate) struct NotInstalled(seccompiler::Error);

/// System calls that always fail.
const DENIED: &[libc::c_long] = &[
    // Mounts and root directories, by the old and the new interface.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    // The list of mounts, which Landlock hides in /proc.
    STATMOUNT,
    LISTMOUNT,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_unshare,
    // Code in the kernel, and interfaces that submit work to it in bulk.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // All containers of a node share the number of contexts (`fs.aio-max-nr`).
    libc::SYS_io_setup,
    // Keys survive processes and belong to a UID.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Access to other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Administration of the machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    // Access to files without a path.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    // Flags of files such as `immutable`. The filter also refuses the ioctl for them.
    FILE_SETATTR,
    libc::SYS_memfd_secret,
    // System V IPC objects and message queues survive the processes of their
    // UID.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Rarely used calls with a history of vulnerabilities.
    libc::SYS_personality,
    libc::SYS_vmsplice,
    libc::SYS_lookup_dcookie,
];

#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[libc::c_long] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
    libc::SYS_nfsservctl,
];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[libc::c_long] = &[libc::SYS_nfsservctl];

/// New calls, with the same number on all architectures (Linux 6.8, 6.13, 6.15 and
/// 6.17). Not in the `libc` crate yet.
const STATMOUNT: libc::c_long = 457;
const LISTMOUNT: libc::c_long = 458;
const SETXATTRAT: libc::c_long = 463;
const OPEN_TREE_ATTR: libc::c_long = 467;
const FILE_SETATTR: libc::c_long = 469;

/// `AUDIT_ARCH_…` of this machine.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// `inotify_init` of this machine; newer architectures have none.
const INOTIFY_INIT: libc::c_long = 253;

/// First number of the x32 interface, in which every system call exists again.
const X32: u32 = 0x4000_0000;

/// Flags for namespaces of all kinds.
const NEW_NAMESPACES: u32 = 0x7e02_0000;

/// Flags of threads. A pass reads the number of descriptors once for all threads of a process.
const SHARED_DESCRIPTORS: u32 = 0x400;
const THREAD: u32 = 0x1_0000;

/// Flag of `seccomp`: return a descriptor that reports system calls.
const NEW_LISTENER: u32 = 8;

/// Sends data with the SYN packet and thereby bypasses Landlock's check of the
/// port.
const MSG_FASTOPEN: u32 = 0x2000_0000;

/// Denies internet sockets, in addition to other filters.
pub(crate) fn forbid_internet() -> Result<(), NotInstalled> {
    seccompiler::apply_filter(&no_internet()).map_err(NotInstalled)
}

/// Denies what workers need and commands must not have, because it takes memory of the kernel
/// that no measurement sees: further rules of Landlock, and attributes of files, which on a
/// volume in memory also take its inodes. ACLs are attributes too.
pub(crate) fn forbid_hidden_memory() -> Result<(), NotInstalled> {
    let calls = [
        libc::SYS_landlock_create_ruleset,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        SETXATTRAT,
    ];
    let unsupported = calls.map(|call| rule(call, &[], NOT_SUPPORTED)).into();
    seccompiler::apply_filter(&assemble(unsupported, ARCHITECTURE, X32)).map_err(NotInstalled)
}

/// Denies what empties a file without the right to write to it: Landlock has no right for that
/// before version 3 (Linux 6.2). A filter cannot read the flags of `openat2`, so it fails as on
/// kernels without it.
pub(crate) fn forbid_truncation() -> Result<(), NotInstalled> {
    let program = assemble(files::truncation(), ARCHITECTURE, X32);
    seccompiler::apply_filter(&program).map_err(NotInstalled)
}

/// Denies Unix sockets except pairs of streams, and inotify, in addition to other
/// filters: for tenants whose groups open sockets and directories of others.
pub(crate) fn forbid_sockets() -> Result<(), NotInstalled> {
    seccompiler::apply_filter(&no_sockets()).map_err(NotInstalled)
}

fn no_sockets() -> BpfProgram {
    let family = [(0, Compare::Equals(libc::AF_UNIX.unsigned_abs()), EPERM)];
    let rules = [rule(libc::SYS_socket, &family, Action::Allow), stream_pairs()];
    assemble(rules.into_iter().chain(no_watches()).collect(), ARCHITECTURE, X32)
}

fn no_internet() -> BpfProgram {
    let conditions = [libc::AF_INET, libc::AF_INET6]
        .map(|family| (0, Compare::Equals(family.unsigned_abs()), EACCES));
    assemble(vec![rule(libc::SYS_socket, &conditions, Action::Allow)], ARCHITECTURE, X32)
}

/// Restricts this process and its descendants permanently.
pub(crate) fn install(users: TenantUid) -> Result<(), NotInstalled> {
    seccompiler::apply_filter(&program(users)).map_err(NotInstalled)
}

fn program(users: TenantUid) -> BpfProgram {
    let denied = DENIED.iter().chain(DENIED_HERE).map(|call| rule(*call, &[], EPERM));
    let mut rules: Vec<CallRule> = denied.collect();
    rules.extend([
        rule(
            libc::SYS_clone,
            &[
                (0, Compare::HasAny(NEW_NAMESPACES), EPERM),
                // A thread with descriptors of its own would hide their number.
                (0, Compare::HasAny(SHARED_DESCRIPTORS), Action::Allow),
                (0, Compare::HasAny(THREAD), EPERM),
            ],
            Action::Allow,
        ),
        rule(
            libc::SYS_close_range,
            &[(2, Compare::HasAny(libc::CLOSE_RANGE_UNSHARE), INVALID)],
            Action::Allow,
        ),
        // Its flags are in memory, which a filter cannot read. Libraries fall
        // back to `clone`.
        rule(libc::SYS_clone3, &[], Action::Fail(ENOSYS)),
        // A byte of a file in a pipe or socket holds up to 2 MiB of memory, a whole folio,
        // also when the file is gone, and no measurement sees it. Programs copy instead.
        rule(libc::SYS_splice, &[], INVALID),
        rule(libc::SYS_sendfile, &[], INVALID),
        rule(
            libc::SYS_prctl,
            &[
                (0, Compare::Equals(SET_CHILD_SUBREAPER), EPERM),
                // A process that is not dumpable cannot be measured.
                (0, Compare::Equals(SET_DUMPABLE), EPERM),
                // A table of up to 1 GiB that no measurement sees. Kernels before 6.16 have none.
                (0, Compare::Equals(FUTEX_HASH), INVALID),
            ],
            Action::Allow,
        ),
        // The descriptor of a listener holds filters, also those of a thread that has ended,
        // and no measurement sees them. Kernels before 5.0 know no such flag.
        rule(libc::SYS_seccomp, &[(1, Compare::HasAny(NEW_LISTENER), INVALID)], Action::Allow),
        ioctls(),
        space(),
        rule(libc::SYS_sendto, &[(3, Compare::HasAny(MSG_FASTOPEN), EPERM)], Action::Allow),
        rule(libc::SYS_sendmsg, &[(2, Compare::HasAny(MSG_FASTOPEN), EPERM)], Action::Allow),
        rule(libc::SYS_sendmmsg, &[(3, Compare::HasAny(MSG_FASTOPEN), EPERM)], Action::Allow),
        // Limits of another process can kill it, and neither Landlock nor the
        // rules for signals cover them.
        rule(libc::SYS_prlimit64, &[(0, Compare::HasAny(u32::MAX), EPERM)], Action::Allow),
        sockets_of(users),
        socket_programs(),
    ]);
    if users == TenantUid::Shared {
        rules.extend(strangers());
    }
    assemble(rules, ARCHITECTURE, X32)
}

/// Calls that affect other processes of the same UID and that Landlock does not
/// cover. They are allowed only for the calling process.
fn strangers() -> impl Iterator<Item = CallRule> {
    let own =
        |call, argument| rule(call, &[(argument, Compare::HasAny(u32::MAX), EPERM)], Action::Allow);
    let scheduling = [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
    ];
    let scheduling = scheduling.map(|call| own(call, 0));
    let others = |call, process: u32| {
        let stranger = [(1, Compare::HasAny(u32::MAX), EPERM)];
        let conditions = [stranger[0], (0, Compare::Equals(process), Action::Allow)];
        rule(call, &conditions, EPERM)
    };
    // Allowed for the calling process only, not for a group or a UID.
    let priorities = [
        others(libc::SYS_setpriority, PRIO_PROCESS),
        others(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS),
    ];
    scheduling.into_iter().chain(priorities).chain(no_watches()).chain([stream_pairs()])
}

/// Names in directories of others are not reported. Queues are refused too: all processes of
/// a UID on the node have 128 together.
fn no_watches() -> impl Iterator<Item = CallRule> {
    let old = if cfg!(target_arch = "x86_64") { Some(INOTIFY_INIT) } else { None };
    let calls = [libc::SYS_inotify_add_watch, libc::SYS_inotify_init1].into_iter().chain(old);
    calls.map(|call| rule(call, &[], EPERM))
}

fn rule(call: libc::c_long, conditions: &[(u8, Compare, Action)], otherwise: Action) -> CallRule {
    let condition = |(argument, compare, action): &(u8, Compare, Action)| Condition {
        argument: *argument,
        compare: *compare,
        action: *action,
    };
    // Numbers of system calls are small and positive.
    let number = u32::try_from(call).unwrap_or(u32::MAX);
    CallRule { number, conditions: conditions.iter().map(condition).collect(), otherwise }
}

const EPERM: Action = Action::Fail(1);
/// Error of a file system or a kernel that cannot do this.
const INVALID: Action = Action::Fail(22);
/// Landlock returns the same error for a port that is not allowed.
const EACCES: Action = Action::Fail(13);
const ENOSYS: u16 = 38;
/// Error of a kernel whose Landlock is switched off, and of a file system that cannot do this;
/// programs then do without.
const NOT_SUPPORTED: Action = Action::Fail(95);
const SET_CHILD_SUBREAPER: u32 = 36;
const SET_DUMPABLE: u32 = 4;
/// Not in the `libc` crate yet.
const FUTEX_HASH: u32 = 78;
const PRIO_PROCESS: u32 = 0;
const IOPRIO_WHO_PROCESS: u32 = 1;
