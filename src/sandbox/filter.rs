//! System calls that no tenant needs, and that would be a way around the rest.

mod assemble;

use nix::libc;
use seccompiler::BpfProgram;
use thiserror::Error;

use self::assemble::{Compare, Rule, Test, Verdict, assemble};

/// Which sockets a tenant may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sockets {
    /// Internet and Unix.
    All,
    /// Internet, and Unix only in connected pairs: where everybody is the same
    /// user, no file mode keeps a tenant from the plugins' sockets.
    NoUnix,
}

/// The kernel does not take the filter.
#[derive(Debug, Error)]
#[error("seccomp: {0}")]
pub(super) struct NotInstalled(seccompiler::Error);

/// Calls that always fail.
const DENIED: &[libc::c_long] = &[
    // Mounts and roots, by the old interface and the new.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_setns,
    libc::SYS_unshare,
    // Programs in the kernel, and ways of asking it for work in bulk.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Keys outlive processes and belong to users.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // The machine.
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
    // Files by other means than their paths.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_memfd_secret,
    // Shared memory, semaphores and queues stay when their user is gone.
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
    // Oddities with a history.
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

/// `AUDIT_ARCH_…` of this machine.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// From here on numbers are those of x32, which names every call a second time.
const X32: u32 = 0x4000_0000;

/// Namespaces of all kinds.
const NEW_NAMESPACES: u32 = 0x7e02_0000;

/// Sends data with the opening packet, past Landlock's check of the port.
const MSG_FASTOPEN: u32 = 0x2000_0000;

/// Takes internet sockets away, whatever another filter allows.
pub(super) fn forbid_internet() -> Result<(), NotInstalled> {
    seccompiler::apply_filter(&no_internet()).map_err(NotInstalled)
}

fn no_internet() -> BpfProgram {
    let tests = [libc::AF_INET, libc::AF_INET6]
        .map(|family| (0, Compare::Equals(family.unsigned_abs()), EACCES));
    assemble(vec![rule(libc::SYS_socket, &tests, Verdict::Allow)], ARCHITECTURE, X32)
}

/// Restricts this process and all that come of it, for good.
pub(super) fn install(sockets: Sockets) -> Result<(), NotInstalled> {
    seccompiler::apply_filter(&program(sockets)).map_err(NotInstalled)
}

fn program(sockets: Sockets) -> BpfProgram {
    let denied = DENIED.iter().chain(DENIED_HERE).map(|call| rule(*call, &[], EPERM));
    let mut rules: Vec<Rule> = denied.collect();
    rules.extend([
        rule(libc::SYS_clone, &[(0, Compare::HasAny(NEW_NAMESPACES), EPERM)], Verdict::Allow),
        // Its flags are in memory, where a filter cannot look. Libraries fall back.
        rule(libc::SYS_clone3, &[], Verdict::Fail(ENOSYS)),
        rule(libc::SYS_prctl, &[(0, Compare::Equals(SET_CHILD_SUBREAPER), EPERM)], Verdict::Allow),
        rule(
            libc::SYS_ioctl,
            &[(1, Compare::Equals(TIOCSTI), EPERM), (1, Compare::Equals(TIOCLINUX), EPERM)],
            Verdict::Allow,
        ),
        rule(libc::SYS_sendto, &[(3, Compare::HasAny(MSG_FASTOPEN), EPERM)], Verdict::Allow),
        rule(libc::SYS_sendmsg, &[(2, Compare::HasAny(MSG_FASTOPEN), EPERM)], Verdict::Allow),
        rule(libc::SYS_sendmmsg, &[(3, Compare::HasAny(MSG_FASTOPEN), EPERM)], Verdict::Allow),
        sockets_of(sockets),
    ]);
    assemble(rules, ARCHITECTURE, X32)
}

/// Families and protocols that Landlock has rules for, or that reach nobody.
fn sockets_of(sockets: Sockets) -> Rule {
    let unix = match sockets {
        Sockets::All => Verdict::Allow,
        Sockets::NoUnix => EPERM,
    };
    let family = |family: i32, verdict| (0, Compare::Equals(family.unsigned_abs()), verdict);
    let protocol = |number: i32| (2, Compare::Equals(number.unsigned_abs()), NO_PROTOCOL);
    let mut tests = vec![
        family(libc::AF_UNIX, unix),
        // Other ways to speak TCP, whose ports Landlock does not see.
        protocol(libc::IPPROTO_MPTCP),
        protocol(libc::IPPROTO_SCTP),
        protocol(libc::IPPROTO_DCCP),
        protocol(libc::IPPROTO_UDPLITE),
        protocol(IPPROTO_SMC),
    ];
    // The kind shares its argument with flags; raw and packet sockets need a
    // capability anyway, which no tenant has.
    tests.push((1, Compare::Equals(libc::SOCK_RAW.unsigned_abs()), EPERM));
    for allowed in [libc::AF_INET, libc::AF_INET6] {
        tests.push(family(allowed, Verdict::Allow));
    }
    // Resolvers ask for addresses of interfaces (protocol 0, NETLINK_ROUTE).
    tests.push((2, Compare::HasAny(u32::MAX), EPERM));
    tests.push(family(libc::AF_NETLINK, Verdict::Allow));
    rule(libc::SYS_socket, &tests, EPERM)
}

fn rule(call: libc::c_long, tests: &[(u8, Compare, Verdict)], otherwise: Verdict) -> Rule {
    let test = |(argument, compare, verdict): &(u8, Compare, Verdict)| Test {
        argument: *argument,
        compare: *compare,
        verdict: *verdict,
    };
    // Numbers of calls are small and positive.
    let number = u32::try_from(call).unwrap_or(u32::MAX);
    Rule { number, tests: tests.iter().map(test).collect(), otherwise }
}

const EPERM: Verdict = Verdict::Fail(1);
/// What connecting to a port that is not allowed ends with, too.
const EACCES: Verdict = Verdict::Fail(13);
const ENOSYS: u16 = 38;
/// What a kernel without the protocol says; programs then use plain TCP.
const NO_PROTOCOL: Verdict = Verdict::Fail(93);
const SET_CHILD_SUBREAPER: u32 = 36;
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
/// TCP over shared memory (Linux 6.11); too new for libc.
const IPPROTO_SMC: i32 = 256;
