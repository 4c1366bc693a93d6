//! Every attack, the promise of each tier, and the evidence of a success.

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

/// All of them.
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

/// What users of their own do not stop without Landlock.
const ALONE: &[(Setting, Expected)] = &[(UidAlone, Residual)];

/// And with a Landlock that knows neither ports nor scopes.
const FILES_ONLY: &[(Setting, Expected)] = &[(UidAlone, Residual), (FirstLandlock, Residual)];
