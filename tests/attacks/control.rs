//! Control runs: every attack once without confinement, where it must succeed.
//!
//! An attack that fails here would also fail in every tier, so its failure there
//! would prove nothing about the sandbox. Each run has its own stage: new
//! process, mount, IPC and UTS namespaces, and file systems in memory. The kernel
//! removes all of it when the stage's first process ends.

mod attacker;
mod measure;
mod run;
mod stage;

use std::{
    env,
    ops::RangeInclusive,
    process::{Command, Stdio},
    sync::Arc,
};

use libtest_mimic::{Completion, Failed, Trial};
use nix::{
    sched::{CloneFlags, unshare},
    sys::{prctl, signal::Signal, wait::waitpid},
};
use serde::{Deserialize, Serialize};

use crate::{
    arena::first_user,
    attack::{Attack, Lacking},
    helper,
    outcome::{Outcome, Way},
    place::{self, Places},
    raw, table,
};

/// Blocks of UIDs for control runs that run at the same time. The arenas use the lower
/// ones.
pub(crate) const PLACES: RangeInclusive<u32> = 9..=10;

/// The result of a run.
#[derive(Debug, Serialize, Deserialize)]
enum Verdict {
    /// The attack worked, except in these ways, which this machine does not
    /// support.
    Worked(Vec<String>),
    /// This machine supports none of the attack's ways.
    Lacking(Vec<String>),
    Failed(String),
}

/// The control run of an attack, in one of the places; also in one of the busy ones, if
/// given.
pub(crate) fn trial(
    attack: &'static Attack,
    places: Arc<Places>,
    busy: Option<Arc<Places>>,
) -> Trial {
    let run = move || place::within(busy.as_deref(), || places.within(|| conclude(attack)));
    Trial::ignorable_test(format!("control::{}", attack.name), run)
}

/// Runs the attack in a separate process, because a process with several threads
/// cannot enter new namespaces as a whole.
fn conclude(attack: &Attack) -> Result<Completion, Failed> {
    let mut command = Command::new(env::current_exe()?);
    command.args([
        helper::VERB,
        helper::CONTROL,
        attack.name,
        &first_user(place::own()).to_string(),
    ]);
    let output = command.stdin(Stdio::null()).output()?;
    let verdict = serde_json::from_slice(&output.stdout).map_err(|error| {
        format!("no verdict: {error}, {}", String::from_utf8_lossy(&output.stderr))
    })?;
    match verdict {
        Verdict::Worked(lacking) => {
            for way in lacking {
                eprintln!("skipped: control::{}: {way}", attack.name);
            }
            Ok(Completion::Completed)
        }
        Verdict::Lacking(ways) => Ok(Completion::ignored_with(ways.join("; "))),
        Verdict::Failed(why) => Err(why.into()),
    }
}

/// Creates the namespaces, runs the attack in them and waits until they end.
pub(crate) fn main() {
    let words: Vec<_> = env::args().skip(3).collect();
    let [name, first_uid] = words.as_slice() else { panic!("expected an attack and a UID") };
    let attack = table::all().find(|attack| attack.name == name).expect("a known attack");
    let first_uid = first_uid.parse().expect("a UID");
    let kinds = [
        CloneFlags::CLONE_NEWPID,
        CloneFlags::CLONE_NEWNS,
        CloneFlags::CLONE_NEWIPC,
        CloneFlags::CLONE_NEWUTS,
    ];
    if let Err(error) = unshare(kinds.into_iter().collect()) {
        return tell(&Verdict::Lacking(vec![format!("no right to make namespaces: {error}")]));
    }
    let first = raw::fork(|| {
        prctl::set_pdeathsig(Signal::SIGKILL).expect("to end with the test");
        tell(&run::run(attack, first_uid));
    });
    waitpid(first.expect("a first process"), None).expect("its end");
}

fn tell(verdict: &Verdict) {
    println!("{}", serde_json::to_string(verdict).expect("a verdict as JSON"));
}

/// Fails unless each way of an attack worked or is unsupported by this machine.
fn judge(outcome: &Outcome, known: &[Lacking]) -> Verdict {
    let (mut lacking, mut failed) = (Vec::new(), Vec::new());
    for Way { name, result } in outcome.ways() {
        let Err(error) = result else { continue };
        let reason = known.iter().find(|(way, errno, _)| {
            // The standard library names errors by number, nix by name.
            let number = format!("os error {}", *errno as i32);
            name.starts_with(way)
                && (error.contains(&number) || error.starts_with(&format!("{errno:?}")))
        });
        match reason {
            Some((_, _, reason)) => lacking.push(format!("{name}: {reason}")),
            None => failed.push(format!("{name}: {error}")),
        }
    }
    if !failed.is_empty() {
        Verdict::Failed(format!("refused although not confined: {}", failed.join("; ")))
    } else if outcome.is_done() {
        Verdict::Worked(lacking)
    } else {
        Verdict::Lacking(lacking)
    }
}
