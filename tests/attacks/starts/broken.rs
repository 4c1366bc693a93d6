//! Sandbox setup steps that fail, and steps that report success but do nothing.

use std::{fs, time::Duration};

use nix::{
    libc,
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    Fact, OF_THE_FIRST, OF_THE_TRIAL, Stage, around, check, fault, killed::DAEMON, tenants,
};
use crate::{arena::USERS, emulate, setting::Setting, waiting::until};

pub(super) const FACTS: &[Fact] = &[
    ("a_failed_setup_step_prevents_serving", each_step),
    ("a_denied_mount_prevents_serving_in_namespaces", no_mounts),
    ("an_unchanged_uid_is_detected", lying_setuid),
    ("an_unchanged_gid_is_detected", lying_setgid),
    ("remaining_supplementary_groups_are_detected", lying_setgroups),
    ("an_ineffective_landlock_is_detected", lying_landlock),
    ("an_ineffective_seccomp_filter_is_detected", lying_filter),
    ("a_failed_sweep_after_init_prevents_generate", no_sweep),
    ("a_leftover_process_is_found_without_process_limits", no_limits),
    ("a_setup_step_failing_after_the_start_fails_only_its_request", one_request),
];

/// Longest time until the supervisor quarantines a UID.
const QUARANTINE: Duration = Duration::from_secs(30);

/// System calls that only workers make: call, first argument if it matters, and
/// text of the error.
const STEPS: [(i64, Option<u32>, &str); 9] = [
    // The supervisor tests with the same call that Landlock is available.
    (libc::SYS_landlock_restrict_self, None, "Landlock is refused"),
    (libc::SYS_landlock_create_ruleset, None, "Landlock is refused"),
    (libc::SYS_landlock_add_rule, None, "Landlock is refused"),
    (libc::SYS_close_range, None, "close_range(2) fails"),
    // The first archive would be refused.
    (libc::SYS_openat2, None, "openat2(2) fails"),
    (libc::SYS_signalfd4, None, "signalfd4(2) fails"),
    (libc::SYS_setsid, None, "create a session"),
    (libc::SYS_prctl, Some(1), "set the parent death signal"),
    (libc::SYS_fchdir, None, "enter the workspace"),
];

fn each_step() -> Result<(), String> {
    let stage = Stage::new(Setting::Uid);
    let users = [
        (libc::SYS_setresuid, Some(stage.user(OF_THE_TRIAL)), "switch to the leased UID"),
        (libc::SYS_setresgid, Some(stage.user(OF_THE_TRIAL)), "switch to the leased UID"),
    ];
    for (call, argument, step) in STEPS.into_iter().chain(users) {
        for error in [libc::EPERM, libc::ENOMEM] {
            let (code, text) = stage
                .refusal(stage.under(&fault(call, error, argument)))
                .map_err(|why| format!("{step}: {why}"))?;
            // The spawner calls `setsid` before any worker and tolerates only EPERM,
            // so another error is reported without this step.
            let is_told = text.contains(step) || call == libc::SYS_setsid;
            check(code.is_some_and(|code| code > 0) && is_told, || {
                format!("expected a failure to {step}, got {code:?}: {text}")
            })?;
        }
    }
    Ok(())
}

/// System calls that a profile of a container or an old kernel may deny, all or those with
/// this first argument.
const MOUNTS: [(i64, Option<u32>); 5] = [
    (libc::SYS_clone, Some(NEW_NAMESPACES)),
    (libc::SYS_unshare, None),
    (libc::SYS_open_tree, None),
    (libc::SYS_mount, None),
    (libc::SYS_move_mount, None),
];

/// The flags with which the spawner creates a process in namespaces of its own: PID, mount,
/// IPC and UTS, and SIGCHLD.
const NEW_NAMESPACES: u32 = 0x2c02_0011;

fn no_mounts() -> Result<(), String> {
    let mut stage = Stage::new(Setting::Namespaces);
    let how = "cannot create namespaces";
    for (call, argument) in MOUNTS {
        for error in [libc::EPERM, libc::ENOSYS] {
            let (code, text) = stage.refusal(stage.under(&fault(call, error, argument)))?;
            check(code.is_some_and(|code| code > 0) && text.contains(how), || {
                format!("expected an error with {how:?}, got {code:?}: {text}")
            })?;
        }
    }
    stage.options.isolation = "auto";
    for (call, argument) in MOUNTS {
        let supervisor = stage.start(stage.under(&fault(call, libc::EPERM, argument)))?;
        let text = supervisor.text();
        check(text.contains("\"isolation\":\"uid\""), || format!("{call}: {text}"))?;
    }
    Ok(())
}

/// Beginning of the trial's error.
const ESCAPED: &str = "the sandbox does not hold: a request could ";

/// Makes a call report success without an effect, and expects an error with `how`.
fn is_noticed(stage: &Stage, call: i64, argument: Option<u32>, how: &str) -> Result<(), String> {
    let (code, text) = stage.refusal(stage.under(&fault(call, 0, argument)))?;
    check(code.is_some_and(|code| code > 0) && text.contains(how), || {
        format!("expected an error with {how:?}, got {code:?}: {text}")
    })
}

fn lying_setuid() -> Result<(), String> {
    let stage = Stage::new(Setting::Uid);
    let user = Some(stage.user(OF_THE_TRIAL));
    is_noticed(&stage, libc::SYS_setresuid, user, "verify that no privilege is left")
}

fn lying_setgid() -> Result<(), String> {
    let stage = Stage::new(Setting::Uid);
    let user = Some(stage.user(OF_THE_TRIAL));
    is_noticed(&stage, libc::SYS_setresgid, user, "verify that no privilege is left")
}

fn lying_setgroups() -> Result<(), String> {
    let how = "verify that no privilege is left";
    is_noticed(&Stage::new(Setting::Uid), libc::SYS_setgroups, None, how)
}

/// Checks all tiers, for calls that each of them relies on.
fn is_noticed_everywhere(call: i64, how: [&str; 3]) -> Result<(), String> {
    let settings = [Setting::Uid, Setting::Landlock, Setting::Namespaces];
    settings.into_iter().zip(how).try_for_each(|(setting, how)| {
        is_noticed(&Stage::new(setting), call, None, how).map_err(|why| format!("{setting}: {why}"))
    })
}

fn lying_landlock() -> Result<(), String> {
    let how = [ESCAPED, "signals can leave the Landlock domain", ESCAPED];
    is_noticed_everywhere(libc::SYS_landlock_restrict_self, how)
}

fn lying_filter() -> Result<(), String> {
    is_noticed_everywhere(libc::SYS_seccomp, [ESCAPED; 3])
}

/// The trial succeeds, and then no process can switch to one UID. Even the cleanup
/// of that UID fails, so it must never be leased again.
fn one_request() -> Result<(), String> {
    let stage = Stage::new(Setting::Uid);
    stage.add("user", "touch \"$TMPDIR/ran\"; echo \"{said: \\\"$(id -u)\\\"}\"");
    let user = stage.user(OF_THE_FIRST);
    let broken = fault(libc::SYS_setresuid, libc::EPERM, Some(user));
    let supervisor = stage.start(stage.under(&broken))?;
    let first = stage.ask_once("user");
    check(first.as_ref().is_err_and(|error| error.contains("switch to the leased UID")), || {
        format!("expected the step in the error, got {first:?}")
    })?;
    for _ in 0..2 * USERS {
        let said = stage.ask_once("user")?;
        check(said != user.to_string() && said != "0", || format!("UID {said} is leased"))?;
    }
    check(supervisor.text().contains("is not leased again"), || {
        format!("expected a quarantine: {}", supervisor.text())
    })
}

/// A process that `init` left must not run at the same time as `generate`.
fn no_sweep() -> Result<(), String> {
    const INIT: &str =
        "init: {command: [sh, -c, '(setsid sleep 300 >/dev/null 2>&1 &); sleep 0.2']}, ";
    let stage = Stage::new(Setting::Uid);
    stage.add("left", "echo '{said: ran}'");
    let path = stage.directory.path().join("plugins.d/left.yaml");
    let text = fs::read_to_string(&path).expect("a definition");
    let text = text.replace("spec: {", &format!("spec: {{{INIT}"));
    fs::write(path, text).expect("a definition");
    // `u32::MAX` is -1: the signal goes to all processes that may be signalled.
    let refused = fault(libc::SYS_kill, libc::EPERM, Some(u32::MAX));
    let _supervisor = stage.start(stage.under(&refused))?;
    let answer = stage.ask_once("left");
    for process in tenants(&stage) {
        // It may have ended by itself.
        let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
    }
    check(answer.is_err(), || format!("generate ran while a process of init was left: {answer:?}"))
}

/// Process limits have no effect here and the signal is not sent. Only the list of
/// processes can then show that one is left.
fn no_limits() -> Result<(), String> {
    let stage = Stage::new(Setting::Uid);
    stage.add("daemon", &format!("{DAEMON}echo \"{{said: \\\"$(id -u)\\\"}}\""));
    let unsent = stage.under(&fault(libc::SYS_kill, 0, Some(u32::MAX)));
    let supervisor = stage.start(around(&unsent, emulate::NO_PROCESS_LIMIT))?;
    let is_told = supervisor.text().contains("does not enforce limits of processes");
    check(is_told, || "the log does not mention process limits".to_owned())?;
    let said = stage.ask_once("daemon")?;
    let is_told = until(QUARANTINE, || supervisor.text().contains("is not leased again"));
    let left = tenants(&stage);
    for process in &left {
        // It may have ended by itself.
        let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
    }
    check(left.iter().any(|process| process.uid.to_string() == said), || {
        format!("the daemon with UID {said} is gone: {left:?}")
    })?;
    check(is_told, || {
        format!("UID {said} is not quarantined although these processes are left: {left:?}")
    })
}
