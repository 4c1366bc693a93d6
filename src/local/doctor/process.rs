//! Checks this process's privileges.

use std::{env, fs};

use cmp_procfs::{Fields, IdRange};
use cmp_sandbox::{RAISE_FILE_SIZE, most_file_size};

use super::Check;
use crate::{config, settings::FILE_SIZE};

/// Numbers of capabilities in `linux/capability.h`.
const KILL: u32 = 5;
const SETGID: u32 = 6;
const SETUID: u32 = 7;

/// Numbers and names of the capabilities that matter here.
const CAPABILITIES: [(u32, &str); 7] = [
    (0, "CHOWN"),
    (1, "DAC_OVERRIDE"),
    (KILL, "KILL"),
    (SETGID, "SETGID"),
    (SETUID, "SETUID"),
    (18, "SYS_CHROOT"),
    (21, "SYS_ADMIN"),
];

/// OOM score from which the supervisor is nearly as likely to be killed as a
/// request. Kubernetes gives up to 999 to Pods that request little memory, and
/// 1000 to those that request none.
const HIGH_SCORE: i32 = 500;

pub(super) fn look() -> Vec<Check> {
    let Ok(status) = Fields::own_status() else {
        return vec![Check::failure("/proc is not mounted").remedy("mount it")];
    };
    let field = |name: &str| {
        let values = status.value(name);
        values.and_then(|values| values.split_whitespace().nth(1)).unwrap_or("unknown").to_owned()
    };
    let capabilities = status.bits("CapEff").unwrap_or_default();
    let mut checks = vec![
        Check::note(format!("uid {}, gid {}", field("Uid"), field("Gid"))),
        Check::note(format!("capabilities: {}", names(capabilities))),
    ];
    let has = |number| has(capabilities, number);
    // Tier `uid` is possible.
    if has(SETUID) && has(SETGID) && !has(KILL) {
        let lost = "capability KILL is missing: if the spawner is killed, commands may survive it";
        checks.push(Check::warning(lost).remedy("capabilities: {add: [SETUID, SETGID, KILL]}"));
    }
    checks.push(match status.value("NoNewPrivs").unwrap_or_default() {
        "1" => Check::fine("no new privileges (allowPrivilegeEscalation: false)"),
        _ => Check::note(
            "allowPrivilegeEscalation is not false; requests never gain privileges anyway",
        ),
    });
    checks.push(match status.value("Seccomp").unwrap_or_default() {
        "2" => {
            Check::fine("the container has a seccomp profile; requests have an additional filter")
        }
        _ => Check::note("the container has no seccomp profile; requests have their own filter"),
    });
    checks.extend(user_namespace());
    checks.extend(oom_score());
    checks.extend(most_file_size().map(file_size));
    checks.extend(config::unread().iter().map(|variable| unread(variable)));
    checks.extend(other_flags());
    checks
}

/// Warns if the supervisor of this container has flags that this check was not given:
/// a command of `kubectl exec` gets the container's variables, and not its arguments.
fn other_flags() -> Option<Check> {
    let first = fs::read("/proc/1/cmdline").ok()?;
    let own = env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let missing = missing_flags(&String::from_utf8_lossy(&first), own);
    let text = format!("process 1 serves with flags that were not given here: {missing}");
    let remedy = "repeat them after `doctor`: otherwise this is about a supervisor without them";
    (!missing.is_empty()).then(|| Check::warning(text).remedy(remedy))
}

/// The names of flags in the arguments of a `serve`, each with a zero byte after it, that
/// are not among `own`. Values may be secret.
fn missing_flags(serve: &str, own: impl Iterator<Item = String>) -> String {
    let name = |argument: &str| argument.split('=').next().unwrap_or_default().to_owned();
    let own: Vec<_> = own.map(|argument| name(&argument)).collect();
    let mut arguments = serve.split('\0').skip(1);
    if arguments.next() != Some("serve") {
        return String::new();
    }
    let flags = arguments.filter(|argument| argument.starts_with("--")).map(name);
    flags.filter(|flag| !own.contains(flag)).collect::<Vec<_>>().join(", ")
}

/// Warns of an unknown variable.
fn unread(variable: &str) -> Check {
    Check::warning(format!("an unknown variable has no effect: {variable}"))
        .remedy("rename or remove it")
}

/// Checks how much the kernel prefers requests when it must kill a process.
fn oom_score() -> Option<Check> {
    let score = fs::read_to_string("/proc/self/oom_score_adj").ok()?;
    let score: i32 = score.trim().parse().ok()?;
    let text = format!(
        "if memory runs out, the kernel compares requests (OOM score 1000) with the supervisor ({score})"
    );
    Some(if score < HIGH_SCORE {
        Check::fine(text)
    } else {
        Check::note(format!("{text}: the difference is small, so the largest process is killed"))
            .remedy("give the Pod the QoS class Guaranteed: requests equal to limits, in every container")
    })
}

/// Warns of the container's limit for the size of each file.
fn file_size(limit: u64) -> Check {
    let limit = FILE_SIZE.say(limit);
    let text = format!("a file of a repository or a command may have {limit} (RLIMIT_FSIZE)");
    Check::warning(text).remedy(RAISE_FILE_SIZE)
}

fn has(capabilities: u64, number: u32) -> bool {
    capabilities & 1 << number != 0
}

fn names(capabilities: u64) -> String {
    let known = CAPABILITIES.iter().filter(|(number, _)| has(capabilities, *number));
    let known: Vec<_> = known.map(|(_, name)| *name).collect();
    let others = capabilities.count_ones() as usize - known.len();
    match (known.join(", "), others) {
        (known, 0) if known.is_empty() => "none".to_owned(),
        (known, 0) => known,
        (known, others) if known.is_empty() => format!("{others} that are not needed"),
        (known, others) => format!("{known}, and {others} that are not needed"),
    }
}

/// Checks for a user namespace (`hostUsers: false`).
fn user_namespace() -> Option<Check> {
    match cmp_procfs::id_map("/proc/self/uid_map").ok()?.as_slice() {
        [IdRange { inside: 0, outside: 0, .. }] => Some(
            Check::note("root in this container is root on the node")
                .remedy("set hostUsers: false if the cluster supports it"),
        ),
        [IdRange { count, .. }] => {
            Some(Check::fine(format!("a user namespace of {count} users (hostUsers: false)")))
        }
        _ => Some(Check::fine("a user namespace of several ranges")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_only_the_supervisor_has_are_named_without_values() {
        let own = || ["doctor", "--http", "off"].map(str::to_owned).into_iter();
        let serve = "/bin/cmp-supervisor\0serve\0--isolation=uid\0--http\0off\0--read\0/etc\0";
        assert_eq!(missing_flags(serve, own()), "--isolation, --read");
        assert_eq!(missing_flags("sleep\0--isolation=uid\0", own()), "");
        assert_eq!(missing_flags("", own()), "");
    }

    #[test]
    fn a_limit_of_file_sizes_is_a_warning_with_the_remedy() {
        let check = file_size(1 << 20);
        assert!(check.text.contains("may have 1Mi (RLIMIT_FSIZE)"), "{check:?}");
        assert!(check.remedy.unwrap().contains("ulimit -f"));
    }

    #[test]
    fn needed_capabilities_are_named_and_others_counted() {
        assert_eq!(names(0), "none");
        assert_eq!(names(1 << SETGID | 1 << SETUID), "SETGID, SETUID");
        assert_eq!(names(1 << 21 | 1 << 30), "SYS_ADMIN, and 1 that are not needed");
        assert_eq!(names(1 << 30), "1 that are not needed");
    }
}
