//! The seccomp filter: denies system calls that no tenant needs and that could
//! bypass other restrictions.

mod assemble;
mod calls;
mod files;
mod sockets;

use nix::libc;
use seccompiler::{BpfProgram, sock_filter};
use thiserror::Error;

use self::{
    assemble::{Action, CallRule, Compare, Condition, assemble},
    calls::{DENIED, DENIED_HERE, GUARD, ROOT, SETXATTRAT},
    files::{ioctls, leases, space},
    sockets::{pairs, received_pages, socket_options, sockets_of, stream_pairs},
};
use crate::wire::tier::Tier;

/// The kernel rejected the filter.
#[derive(Debug, Error)]
#[error(
    "seccomp: {0}: let the container's seccomp profile allow seccomp(2), and use a kernel with \
     CONFIG_SECCOMP_FILTER"
)]
pub(crate) struct NotInstalled(seccompiler::Error);

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
pub(crate) const MSG_FASTOPEN: u32 = 0x2000_0000;

/// Denies internet sockets, in addition to other filters.
pub(crate) fn forbid_internet() -> Result<(), NotInstalled> {
    install(&no_internet())
}

/// Denies what workers or the spawner need and commands must not have, in addition to other
/// filters.
pub(crate) fn restrict_command() -> Result<(), NotInstalled> {
    install(&program(hidden_memory().chain(scheduling()).collect()))
}

/// Memory of the kernel that no measurement sees: further rules of Landlock, and attributes of
/// files, which on a volume in memory also take its inodes. ACLs are attributes too.
fn hidden_memory() -> impl Iterator<Item = CallRule> {
    let calls = [
        libc::SYS_landlock_create_ruleset,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        SETXATTRAT,
    ];
    calls.into_iter().map(|call| rule(call, &[], NOT_SUPPORTED))
}

/// A crowd would leave the processors on which it is kept. The other calls are allowed only for
/// the calling process: in all tiers, others have its UID too, if only the one that is about to
/// kill it.
fn scheduling() -> impl Iterator<Item = CallRule> {
    let stranger = |argument| (argument, Compare::HasAny(u32::MAX), EPERM);
    let policies =
        [libc::SYS_sched_setattr, libc::SYS_sched_setparam, libc::SYS_sched_setscheduler];
    let policies = policies.map(|call| rule(call, &[stranger(0)], Action::Allow));
    // Nor for a group or a UID.
    let priorities =
        [(libc::SYS_setpriority, PRIO_PROCESS), (libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS)];
    let priorities = priorities.map(|(call, process)| {
        rule(call, &[stranger(1), (0, Compare::Equals(process), Action::Allow)], EPERM)
    });
    let affinity = rule(libc::SYS_sched_setaffinity, &[], EPERM);
    policies.into_iter().chain(priorities).chain([affinity])
}

/// Denies what empties a file without the right to write to it: Landlock has no right for that
/// before version 3 (Linux 6.2). A filter cannot read the flags of `openat2`, so it fails as on
/// kernels without it.
pub(crate) fn forbid_truncation() -> Result<(), NotInstalled> {
    install(&program(files::truncation()))
}

/// Denies Unix sockets except pairs of streams, and inotify, in addition to other
/// filters: for tenants whose groups open sockets and directories of others.
pub(crate) fn forbid_sockets() -> Result<(), NotInstalled> {
    install(&no_sockets())
}

fn no_sockets() -> BpfProgram {
    let family = [(0, Compare::Equals(libc::AF_UNIX.unsigned_abs()), EPERM)];
    let rules = [rule(libc::SYS_socket, &family, Action::Allow), stream_pairs()];
    program(rules.into_iter().chain(no_watches()).collect())
}

fn no_internet() -> BpfProgram {
    let conditions = [libc::AF_INET, libc::AF_INET6]
        .map(|family| (0, Compare::Equals(family.unsigned_abs()), EACCES));
    program(vec![rule(libc::SYS_socket, &conditions, Action::Allow)])
}

fn program(rules: Vec<CallRule>) -> BpfProgram {
    assemble(rules, ARCHITECTURE, X32)
}

/// Restricts this process and its descendants permanently.
fn install(program: &[sock_filter]) -> Result<(), NotInstalled> {
    seccompiler::apply_filter(program).map_err(NotInstalled)
}

/// The filter of a tier, in two parts. The kernel compiles each anew for every process that
/// installs it.
#[derive(Debug)]
pub(crate) struct Filter {
    /// For the spawner, whose children inherit it.
    common: Option<BpfProgram>,
    /// For each worker: the calls that the spawner needs, or a process between it and a worker.
    late: Option<BpfProgram>,
}

/// Properties of a spawner that decide which calls workers need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spawner {
    /// It starts workers in cgroups.
    pub(crate) starts_in_cgroups: bool,
    /// Its UID is 0, and not only its capabilities are those of root.
    pub(crate) is_root: bool,
}

impl Filter {
    /// The filter of a tier with such a spawner.
    pub(crate) fn of(tier: Tier, spawner: Spawner) -> Self {
        let needed: &[_] = match tier {
            Tier::Namespaces => ROOT,
            Tier::Landlock => GUARD,
            Tier::Uid | Tier::None => &[],
        };
        // The spawner creates namespaces with a process.
        let init = (tier == Tier::Namespaces).then_some(libc::SYS_clone);
        let start = spawner.starts_in_cgroups.then_some(libc::SYS_clone3);
        // A worker then makes itself dumpable to raise its OOM score.
        let score = (!spawner.is_root).then_some(libc::SYS_prctl);
        let needed = needed.iter().copied().chain(init).chain(start).chain(score);
        let late: Vec<u32> = needed.map(number).collect();
        Self::split(tier, |call| late.contains(&call))
    }

    /// The filter of a tier whose workers can be traced before they install it.
    pub(crate) fn of_workers(tier: Tier) -> Self {
        Self::split(tier, |_call| true)
    }

    fn split(tier: Tier, is_late: impl Fn(u32) -> bool) -> Self {
        let (late, common): (Vec<_>, Vec<_>) =
            rules(tier).into_iter().partition(|rule| is_late(rule.number));
        let program = |rules: Vec<_>| (!rules.is_empty()).then(|| program(rules));
        Self { common: program(common), late: program(late) }
    }

    /// Restricts this process and its descendants permanently, as far as they need no more.
    pub(crate) fn install_common(&self) -> Result<(), NotInstalled> {
        self.common.as_deref().map_or(Ok(()), install)
    }

    /// Restricts this process and its descendants permanently in all else.
    pub(crate) fn install_late(&self) -> Result<(), NotInstalled> {
        self.late.as_deref().map_or(Ok(()), install)
    }
}

/// All rules of a tier, but for those of [`restrict_command`]. There are more if tenants and the
/// supervisor share a UID: against Unix sockets except socket pairs of streams, because file
/// modes cannot protect plugins' sockets, and inotify, which would reveal names of other
/// workspaces.
fn rules(tier: Tier) -> Vec<CallRule> {
    if tier == Tier::None {
        return Vec::new();
    }
    let denied = [ROOT, DENIED, DENIED_HERE].into_iter().flatten();
    let mut rules: Vec<CallRule> = denied.map(|call| rule(*call, &[], EPERM)).collect();
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
                // Processes with cookies of their own keep the other thread of a core idle.
                (0, Compare::Equals(libc::PR_SCHED_CORE.unsigned_abs()), INVALID),
            ],
            Action::Allow,
        ),
        // The descriptor of a listener holds filters, also those of a thread that has ended,
        // and no measurement sees them. Kernels before 5.0 know no such flag.
        rule(libc::SYS_seccomp, &[(1, Compare::HasAny(NEW_LISTENER), INVALID)], Action::Allow),
        ioctls(),
        space(),
        leases(),
        rule(libc::SYS_sendto, &[(3, Compare::HasAny(MSG_FASTOPEN), EPERM)], Action::Allow),
        rule(libc::SYS_sendmsg, &[(2, Compare::HasAny(MSG_FASTOPEN), EPERM)], Action::Allow),
        rule(libc::SYS_sendmmsg, &[(3, Compare::HasAny(MSG_FASTOPEN), EPERM)], Action::Allow),
        // Limits of another process can kill it, and neither Landlock nor the
        // rules for signals cover them.
        rule(libc::SYS_prlimit64, &[(0, Compare::HasAny(u32::MAX), EPERM)], Action::Allow),
        sockets_of(tier),
        socket_options(),
        received_pages(),
    ]);
    if tier.has_own_uids() {
        rules.push(pairs());
    } else {
        rules.extend(no_watches().chain([stream_pairs()]));
    }
    rules
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
    let conditions = conditions.iter().map(condition).collect();
    CallRule { number: number(call), conditions, otherwise }
}

/// Numbers of system calls are small and positive.
fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
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

#[cfg(test)]
mod tests;
