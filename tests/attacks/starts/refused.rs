//! Isolation that is not available, or weak isolation without its explicit flag.

use std::process::Command;

use super::{Fact, Stage, check};
use crate::{emulate, setting::Setting, supervisor::NO_ISOLATION};

pub(super) const FACTS: &[Fact] = &[
    ("no_isolation_needs_its_flag", no_isolation),
    ("uid_without_landlock_needs_its_flag", users_alone),
    ("the_landlock_tier_needs_landlock", one_user),
    ("tiers_without_uids_need_visible_processes", hidden_processes),
    ("the_uid_tier_needs_setuid", no_setuid),
    ("the_uid_tier_needs_setgid", no_setgid),
    ("the_uid_tier_needs_mapped_uids", unmapped),
];

/// Checks that the supervisor refuses to serve without isolation and logs `reason`.
fn is_refused(stage: &Stage, emulation: Option<&str>, reason: &str) -> Result<(), String> {
    let command = emulation.map_or_else(|| stage.options.command(), |name| stage.under(name));
    let (code, text) = stage.refusal(command)?;
    check(code == Some(NO_ISOLATION) && text.contains(reason), || {
        format!("expected {NO_ISOLATION} for {reason:?}, got {code:?}: {text}")
    })
}

fn no_isolation() -> Result<(), String> {
    let mut stage = Stage::new(Setting::Uid);
    stage.options.isolation = "none";
    is_refused(&stage, None, "add --accept-no-isolation")
}

fn users_alone() -> Result<(), String> {
    let stage = Stage::new(Setting::Uid);
    is_refused(&stage, Some(emulate::NO_LANDLOCK), "--accept-no-landlock")
}

fn one_user() -> Result<(), String> {
    let mut stage = Stage::new(Setting::Uid);
    stage.options.isolation = "landlock";
    // The flag is for the tier `uid` only, so it must not help here.
    stage.options.more.push("--accept-no-landlock".to_owned());
    is_refused(&stage, Some(emulate::NO_LANDLOCK), "the kernel was built without Landlock")
}

/// The command with a `/proc` of its own that hides processes.
fn with_hidepid(stage: &Stage, how: &str) -> Command {
    let script = format!("mount -t proc -o hidepid={how} proc /proc && exec \"$0\" \"$@\"");
    let plain = stage.options.command();
    let mut command = Command::new("unshare");
    let variables = plain.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.env_clear().envs(variables).args(["--mount", "sh", "-c", &script]);
    command.arg(plain.get_program()).args(plain.get_args());
    command
}

fn hidden_processes() -> Result<(), String> {
    let mut stage = Stage::new(Setting::Landlock);
    stage.options.more.push("--accept-no-isolation".to_owned());
    for how in ["1", "2"] {
        for isolation in ["landlock", "none"] {
            stage.options.isolation = isolation;
            let (code, text) = stage.refusal(with_hidepid(&stage, how))?;
            check(
                code == Some(NO_ISOLATION) && text.contains("without the option hidepid"),
                || format!("hidepid={how}, {isolation}: got {code:?}: {text}"),
            )?;
        }
    }
    (stage.options.isolation, stage.options.setting) = ("uid", Setting::Uid);
    stage.start(with_hidepid(&stage, "2")).map(drop)
}

fn no_setuid() -> Result<(), String> {
    let kept = format!("{}CAP_SETGID+CAP_KILL", emulate::CAPABILITIES);
    is_refused(&Stage::new(Setting::Uid), Some(&kept), "SETUID")
}

fn no_setgid() -> Result<(), String> {
    let kept = format!("{}CAP_SETUID+CAP_KILL", emulate::CAPABILITIES);
    is_refused(&Stage::new(Setting::Uid), Some(&kept), "SETGID")
}

/// A Pod with `hostUsers: false` has 65536 UIDs.
fn unmapped() -> Result<(), String> {
    let mut stage = Stage::new(Setting::UserNamespace);
    (stage.options.first_uid, stage.options.last_uid) = (70_000, 70_009);
    is_refused(&stage, None, "70000")
}
