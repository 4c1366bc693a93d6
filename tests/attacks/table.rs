//! Lists every attack, the promise of each tier, and the evidence of success.

mod files;
mod processes;
mod reach;
mod resources;

use crate::{
    attack::{
        Attack,
        Expected::{self, Residual},
    },
    setting::Setting::{self, FirstLandlock, UidAlone},
};

/// Returns all attacks.
pub(crate) fn all() -> impl Iterator<Item = &'static Attack> {
    [
        files::FILES,
        files::TREES,
        processes::PROCESSES,
        processes::LEFTOVERS,
        reach::SOCKETS,
        reach::NETWORK,
        reach::KERNEL,
        resources::RESOURCES,
        resources::EXCESSES,
    ]
    .into_iter()
    .flatten()
}

/// For attacks that separate UIDs do not stop without Landlock.
const ALONE: &[(Setting, Expected)] = &[(UidAlone, Residual)];

/// For attacks that also work with a Landlock that has neither ports nor scopes.
const FILES_ONLY: &[(Setting, Expected)] = &[(UidAlone, Residual), (FirstLandlock, Residual)];
