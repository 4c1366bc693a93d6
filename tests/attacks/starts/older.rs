//! Kernels with an older Landlock, or with none at all.

use nix::libc;

use super::{Fact, Stage, around, check, fault};
use crate::{emulate, setting::Setting, supervisor::NO_ISOLATION};

pub(super) const FACTS: &[Fact] = &[
    ("an_older_landlock_is_enforced_and_logged", distinct_users),
    ("the_landlock_tier_needs_landlock_signal_scopes", one_user),
    ("a_disabled_landlock_counts_as_missing", switched_off),
];

/// The first version, one without ports (added in version 4) and one without
/// signal scopes (added in version 6).
const OLDER: [i32; 3] = [1, 3, 5];
const SCOPES_SIGNALS: i32 = 6;

const LANDLOCK_CREATE_RULESET: i64 = 444;

fn of_version(version: i32) -> String {
    format!("{}{version}", emulate::OLD_LANDLOCK)
}

/// Checks that the supervisor serves and logs the version of Landlock.
fn serves(setting: Setting, version: i32) -> Result<(), String> {
    let stage = Stage::new(setting);
    stage.add("reads", "cat /etc/hostname >&2; echo '{said: served}'");
    let supervisor = stage.start(stage.under(&of_version(version)))?;
    let text = supervisor.text();
    check(text.contains(&format!("\"landlock\":{version},")), || text)?;
    let said = stage.ask_once("reads")?;
    check(said == "served", || said)
}

fn distinct_users() -> Result<(), String> {
    for version in OLDER {
        for setting in [Setting::Uid, Setting::Namespaces] {
            serves(setting, version).map_err(|why| format!("{setting}, {version}: {why}"))?;
        }
    }
    Ok(())
}

fn one_user() -> Result<(), String> {
    for version in OLDER {
        let stage = Stage::new(Setting::Landlock);
        let (code, text) = stage.refusal(stage.under(&of_version(version)))?;
        let is_told = text.contains(&format!("this kernel has version {version}"));
        check(code == Some(NO_ISOLATION) && is_told, || format!("{version}: {code:?}: {text}"))?;
    }
    serves(Setting::Landlock, SCOPES_SIGNALS)
}

/// The kernel parameter `lsm=` without Landlock: its system calls exist but fail.
fn switched_off() -> Result<(), String> {
    let off = fault(LANDLOCK_CREATE_RULESET, libc::EOPNOTSUPP, None);
    for setting in [Setting::Uid, Setting::Namespaces] {
        let stage = Stage::new(setting);
        let (code, text) = stage.refusal(stage.under(&off))?;
        let is_told = text.contains("--accept-no-landlock");
        check(code == Some(NO_ISOLATION) && is_told, || format!("{setting}, {code:?}: {text}"))?;
        stage.add("reads", "cat /etc/hostname >&2; echo '{said: served}'");
        let mut accepting = stage.options.command();
        accepting.arg("--accept-no-landlock");
        let _supervisor = stage.start(around(&accepting, &off))?;
        let said = stage.ask_once("reads").map_err(|why| format!("{setting}: {why}"))?;
        check(said == "served", || format!("{setting}: {said}"))?;
    }
    Ok(())
}
