//! Kernels with an older Landlock, or with none.

use nix::libc;

use super::{Fact, Stage, around, check, fault};
use crate::{emulate, setting::Setting, supervisor::NO_ISOLATION};

pub(super) const FACTS: &[Fact] = &[
    ("an_older_landlock_is_enforced_as_far_as_it_goes", distinct_users),
    ("one_user_for_all_takes_a_landlock_that_scopes_signals", one_user),
    ("a_landlock_that_is_switched_off_is_none", switched_off),
];

/// The first one; before ports, which came with the fourth; and before scopes of
/// signals, which came with the sixth.
const OLDER: [i32; 3] = [1, 3, 5];
const SCOPES_SIGNALS: i32 = 6;

const LANDLOCK_CREATE_RULESET: i64 = 444;

fn of_version(version: i32) -> String {
    format!("{}{version}", emulate::OLD_LANDLOCK)
}

/// Serves, and says how much there is of it.
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
        let is_told = text.contains(&format!("this kernel has {version}"));
        check(code == Some(NO_ISOLATION) && is_told, || format!("{version}: {code:?}: {text}"))?;
    }
    serves(Setting::Landlock, SCOPES_SIGNALS)
}

/// `lsm=` without it: the calls are there and refuse to work.
fn switched_off() -> Result<(), String> {
    let off = fault(LANDLOCK_CREATE_RULESET, libc::EOPNOTSUPP, None);
    let stage = Stage::new(Setting::Uid);
    let (code, text) = stage.refusal(stage.under(&off))?;
    let is_told = text.contains("--accept-no-landlock");
    check(code == Some(NO_ISOLATION) && is_told, || format!("{code:?}: {text}"))?;
    let mut accepting = stage.options.command();
    accepting.arg("--accept-no-landlock");
    stage.start(around(&accepting, &off)).map(drop)
}
