//! System calls that tenants do not need.

use nix::libc;

/// System calls that always fail, and that make the root of a request in tier
/// `namespaces`.
pub(super) const ROOT: &[libc::c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
];

/// Calls of a guard in tier `landlock`, and of the spawner there: it asks the kernel for the
/// buffers of sockets each time it measures a request.
pub(super) const GUARD: &[libc::c_long] = &[libc::SYS_prctl, libc::SYS_socket];

/// System calls that always fail.
pub(super) const DENIED: &[libc::c_long] = &[
    // Mounts, by the new interface.
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    // The list of mounts, which Landlock hides in /proc.
    STATMOUNT,
    LISTMOUNT,
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
pub(super) const DENIED_HERE: &[libc::c_long] = &[
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
pub(super) const DENIED_HERE: &[libc::c_long] = &[libc::SYS_nfsservctl];

/// New calls, with the same number on all architectures (Linux 6.8, 6.13, 6.15 and
/// 6.17). Not in the `libc` crate yet.
const STATMOUNT: libc::c_long = 457;
const LISTMOUNT: libc::c_long = 458;
pub(super) const SETXATTRAT: libc::c_long = 463;
const OPEN_TREE_ATTR: libc::c_long = 467;
const FILE_SETATTR: libc::c_long = 469;
