//! Runs a hostile plugin against all other tenants, in every tier that this
//! machine offers.
//!
//! Each attack runs as a plugin's command, through the real program and a real
//! request. It reports the ways that worked, and the report must match the promise
//! of the tier. Afterwards none of its processes and files may be left, no other
//! process may be hurt and no other file changed.
//!
//! The attacks are part of this program, which is also the plugin's command.

#![expect(clippy::expect_used, reason = "a test that cannot continue has failed")]
#![expect(clippy::panic, reason = "a test that cannot continue has failed")]
#![expect(clippy::print_stderr, reason = "prints the reason for each skipped test")]
#![expect(clippy::print_stdout, reason = "a plugin prints its answer")]

mod aftermath;
mod arena;
mod attack;
mod control;
mod emulate;
mod evidence;
mod helper;
mod older;
mod outcome;
mod payload;
mod place;
mod processes;
mod raw;
mod requests;
mod setting;
mod starts;
mod supervisor;
mod table;
mod targets;
mod victims;
mod waiting;

use std::{
    env, iter,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use libtest_mimic::{Arguments, Failed, Trial};
use nix::unistd::geteuid;

use crate::{arena::Arena, attack::Attack, place::Places, setting::Setting};

/// Fewest tests that run at a time. Most wait for processes, clocks or their arena.
const THREADS: usize = 6;

/// Busy attacks that run at a time, so that each gets to its limit before its timeout.
const BUSY: u32 = 2;

fn main() -> ExitCode {
    if env::args().nth(1).is_some_and(|word| word == helper::VERB) {
        return helper::main();
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert_with(threads);
    let busy = Arc::new(Places::new(0..BUSY));
    let arenas = open_all(&arguments);
    let controls = Arc::new(Places::new(control::PLACES));
    // Consecutive trials use different arenas, so that they need not wait for each
    // other.
    let trials = table::all().flat_map(|attack| {
        let arenas = arenas.iter().filter(|(setting, _)| attack.is_for(*setting));
        let busy = attack.is_busy().then(|| Arc::clone(&busy));
        let control = control::trial(attack, Arc::clone(&controls), busy.clone());
        let faced = arenas
            .map(move |(setting, arena)| trial(*setting, attack, arena.as_ref(), busy.clone()));
        faced.chain(as_root(iter::once(control)))
    });
    let trials = trials.chain(as_root(starts::all())).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    for arena in arenas.iter().filter_map(|(_, arena)| arena.as_ref()) {
        arena.lock().unwrap_or_else(PoisonError::into_inner).close();
    }
    conclusion.exit_code()
}

fn threads() -> usize {
    thread::available_parallelism().map_or(THREADS, |processors| processors.get().max(THREADS))
}

/// Opens all arenas at the same time, because each waits for processes of its own.
fn open_all(arguments: &Arguments) -> Vec<(Setting, Option<Arc<Mutex<Arena>>>)> {
    thread::scope(|scope| {
        let opened =
            Setting::ALL.map(|setting| (setting, scope.spawn(move || open(setting, arguments))));
        opened.map(|(setting, arena)| (setting, arena.join().expect("an arena"))).into()
    })
}

/// Opens an arena if a selected attack needs it and this machine offers its tier.
fn open(setting: Setting, arguments: &Arguments) -> Option<Arc<Mutex<Arena>>> {
    if !is_asked_for(setting, arguments) {
        return None;
    }
    let arena = Arena::open(setting).inspect_err(|reason| {
        eprintln!("skipped: all attacks on {setting}: {reason}");
    });
    Some(Arc::new(Mutex::new(arena.ok()?)))
}

/// True if a group of tests fails where this machine lacks something for it.
#[expect(clippy::disallowed_methods, reason = "the environment of tests, not of the product")]
fn are_all_wanted() -> bool {
    env::var_os("CMP_SUPERVISOR_TESTS").is_some_and(|value| value == "all")
}

/// A group of tests that needs root: ignored without, or failed if all are wanted.
fn as_root(group: impl Iterator<Item = Trial>) -> impl Iterator<Item = Trial> {
    let is_root = geteuid().is_root();
    group.map(move |trial| {
        if is_root {
            return trial;
        }
        let lacks_root = || Err(Failed::from("needs root, to become other users"));
        Trial::test(trial.name(), lacks_root).with_ignored_flag(!are_all_wanted())
    })
}

fn is_asked_for(setting: Setting, arguments: &Arguments) -> bool {
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let is_meant = |attack: &Attack| format!("{setting}::{}", attack.name).contains(filter);
    !arguments.list && table::all().any(is_meant)
}

/// Without an arena the trial is reported as ignored, not as passed. It fails if
/// all tests are required.
fn trial(
    setting: Setting,
    attack: &'static Attack,
    arena: Option<&Arc<Mutex<Arena>>>,
    busy: Option<Arc<Places>>,
) -> Trial {
    let name = format!("{setting}::{}", attack.name);
    let Some(arena) = arena.map(Arc::clone) else {
        let nowhere = || Err(Failed::from("this arena is not available: see `skipped:` above"));
        return Trial::test(name, nowhere).with_ignored_flag(!are_all_wanted());
    };
    // Only one attack runs in an arena at a time, so leftovers are known to be its
    // own.
    Trial::test(name, move || {
        let mut arena = arena.lock().unwrap_or_else(PoisonError::into_inner);
        place::within(busy.as_deref(), || arena.face(attack).map_err(Failed::from))
    })
}
