//! The supervisor's side: start the spawner, lease a UID and a workspace, unpack,
//! run commands, capture their output.

mod bounds;
mod capture;
mod excerpt;
mod job;
mod lease;
mod link;
mod passing;
mod redact;
mod run;
mod start;
mod stderr;
mod trial;
mod unpack;

pub use self::{
    bounds::{Bounds, Cache, Caches, Network},
    excerpt::Excerpt,
    job::Unconfined,
    lease::{Lease, NoLease},
    link::{Link, SpawnerGone},
    redact::Redactor,
    run::{Command, End, NotRun, Output, Usage},
    start::{Abilities, NotStarted, Process, SPAWNER, Setup, Spawner},
    stderr::OUTPUT_TARGET,
    trial::NotProven,
    unpack::{NotUnpacked, Unpacked, Unpacking},
};
