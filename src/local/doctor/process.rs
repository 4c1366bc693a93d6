//! What this process may do.

use cmp_procfs::{Fields, IdRange};

use super::Finding;

/// Capabilities that matter here: their numbers and names.
const CAPABILITIES: [(u32, &str); 7] = [
    (0, "CHOWN"),
    (1, "DAC_OVERRIDE"),
    (5, "KILL"),
    (6, "SETGID"),
    (7, "SETUID"),
    (18, "SYS_CHROOT"),
    (21, "SYS_ADMIN"),
];

/// `KILL` among them.
const KILL: u64 = 1 << 5;

/// `SETUID` and `SETGID`, without which a process has no users to lease.
const USERS: u64 = 1 << 6 | 1 << 7;

pub(super) fn look() -> Vec<Finding> {
    let Ok(status) = Fields::own_status() else {
        return vec![Finding::failure("/proc is not mounted").remedy("mount it")];
    };
    let field = |name: &str| {
        let values = status.value(name);
        values.and_then(|values| values.split_whitespace().nth(1)).unwrap_or("unknown").to_owned()
    };
    let capabilities = status.bits("CapEff").unwrap_or_default();
    let mut findings = vec![
        Finding::note(format!("uid {}, gid {}", field("Uid"), field("Gid"))),
        Finding::note(format!("capabilities: {}", names(capabilities))),
    ];
    if capabilities & USERS == USERS && capabilities & KILL == 0 {
        let lost = "capability KILL is missing: if the spawner is killed, commands may survive it";
        findings.push(Finding::warning(lost).remedy("capabilities: {add: [SETUID, SETGID, KILL]}"));
    }
    findings.push(match status.value("NoNewPrivs").unwrap_or_default() {
        "1" => Finding::fine("no new privileges (allowPrivilegeEscalation: false)"),
        _ => Finding::note("new privileges are possible here; requests never have them"),
    });
    findings.push(match status.value("Seccomp").unwrap_or_default() {
        "2" => Finding::fine("a seccomp profile of the container; requests have one of their own"),
        _ => Finding::note("no seccomp profile of the container; requests have one of their own"),
    });
    findings.extend(user_namespace());
    findings
}

fn names(capabilities: u64) -> String {
    let has = |(number, _): &&(u32, &str)| capabilities & (1 << number) != 0;
    let known: Vec<_> = CAPABILITIES.iter().filter(has).map(|(_, name)| *name).collect();
    let others = capabilities.count_ones() as usize - known.len();
    match (known.join(", "), others) {
        (known, 0) if known.is_empty() => "none".to_owned(),
        (known, 0) => known,
        (known, others) if known.is_empty() => format!("{others} that are not needed"),
        (known, others) => format!("{known}, and {others} that are not needed"),
    }
}

/// `hostUsers: false`, or not.
fn user_namespace() -> Option<Finding> {
    match cmp_procfs::id_map("/proc/self/uid_map").ok()?.as_slice() {
        [IdRange { inside: 0, outside: 0, .. }] => Some(
            Finding::note("root here is root of the node")
                .remedy("hostUsers: false, where the cluster has it"),
        ),
        [IdRange { count, .. }] => {
            Some(Finding::fine(format!("a user namespace of {count} users (hostUsers: false)")))
        }
        _ => Some(Finding::fine("a user namespace of several ranges")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_named_and_the_rest_is_counted() {
        assert_eq!(names(0), "none");
        assert_eq!(names(1 << 6 | 1 << 7), "SETGID, SETUID");
        assert_eq!(names(1 << 21 | 1 << 30), "SYS_ADMIN, and 1 that are not needed");
        assert_eq!(names(1 << 30), "1 that are not needed");
    }
}
