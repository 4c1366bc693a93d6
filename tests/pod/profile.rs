//! The seccomp profile of a container.

use serde_json::{Value, json};

/// System calls that container runtimes deny by default to a process without
/// `CAP_SYS_ADMIN`.
const DENIED: [&str; 42] = [
    "acct",
    "add_key",
    "bpf",
    "clock_adjtime",
    "clock_settime",
    "create_module",
    "delete_module",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "ioperm",
    "iopl",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mbind",
    "mount",
    "mount_setattr",
    "move_mount",
    "move_pages",
    "name_to_handle_at",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "quotactl",
    "reboot",
    "request_key",
    "set_mempolicy",
    "setns",
    "settimeofday",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "unshare",
    "userfaultfd",
    "vhangup",
];

/// Flags of `clone` that create namespaces.
const NAMESPACES: u64 = 0x7e02_0000;

/// Error numbers.
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// A profile that denies what `RuntimeDefault` denies.
pub(crate) fn runtime_default() -> Value {
    let refuse = |names: &[&str], error: u32| json!({"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": error});
    let mut clone = refuse(&["clone"], EPERM);
    // The filter can only compare under a mask for equality, so each flag has a rule.
    let flags = (0..u64::BITS).map(|bit| 1 << bit).filter(|flag| NAMESPACES & flag != 0);
    let each = flags.map(|flag: u64| {
        clone["args"] =
            json!([{"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}]);
        clone.clone()
    });
    let mut rules = vec![refuse(&DENIED, EPERM), refuse(&["clone3"], ENOSYS)];
    rules.extend(each);
    json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": rules,
    })
}
