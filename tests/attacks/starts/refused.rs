//! Isolation that is not to be had, or was not asked for in so many words.

use super::{Fact, Stage, check};
use crate::{emulate, setting::Setting, supervisor::NO_ISOLATION};

pub(super) const FACTS: &[Fact] = &[
    ("no_isolation_has_to_be_accepted", no_isolation),
    ("distinct_users_alone_have_to_be_accepted", users_alone),
    ("one_user_for_all_takes_landlock", one_user),
    ("distinct_users_take_the_right_to_become_them", no_setuid),
    ("distinct_users_take_the_right_to_change_groups", no_setgid),
    ("distinct_users_have_to_be_mapped", unmapped),
];

/// Nothing is served, for want of isolation and with this reason.
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
    // What was accepted for distinct users is not for one.
    stage.options.more.push("--accept-no-landlock".to_owned());
    is_refused(&stage, Some(emulate::NO_LANDLOCK), "Landlock version 6 is needed")
}

fn no_setuid() -> Result<(), String> {
    let kept = format!("{}CAP_SETGID+CAP_KILL", emulate::CAPABILITIES);
    is_refused(&Stage::new(Setting::Uid), Some(&kept), "SETUID")
}

fn no_setgid() -> Result<(), String> {
    let kept = format!("{}CAP_SETUID+CAP_KILL", emulate::CAPABILITIES);
    is_refused(&Stage::new(Setting::Uid), Some(&kept), "SETGID")
}

/// A Pod with users of its own has 65536 of them.
fn unmapped() -> Result<(), String> {
    let mut stage = Stage::new(Setting::UserNamespace);
    (stage.options.first_uid, stage.options.last_uid) = (70_000, 70_009);
    is_refused(&stage, None, "70000")
}
