//! How a command is confined.
//!
//! Three kinds of process share the work. The *supervisor* talks to the network
//! and has no privilege. The *spawner* has the privilege to become another user
//! and parses nothing that a tenant wrote. A *worker* has a leased user's
//! identity and handles the tenant's bytes: it unpacks an archive, or becomes a
//! command. The supervisor sends orders to the spawner and plans, past it, to
//! workers.
//!
//! A [`Lease`] is a user and a directory that no other request has. Dropping it
//! is all that is needed to end a request: the spawner then ends every process
//! of the user, removes the directory, and only then leases the user again.

mod bounds;
mod canary;
mod capture;
mod channel;
mod excerpt;
mod excess;
mod filter;
mod fork;
mod job;
mod lease;
mod limits;
mod link;
mod message;
mod plan;
mod policy;
mod privilege;
mod run;
mod shared;
mod spawner;
mod start;
mod stderr;
mod tier;
mod trial;
mod unpack;
mod worker;

pub use bounds::{Bounds, Cache, Caches, Network};
pub use excerpt::Excerpt;
pub use excess::Excess;
pub use job::Unconfined;
pub use lease::{Lease, NoLease};
pub use link::{Link, SpawnerGone};
pub use privilege::{NotDropped, drop_privileges};
pub use run::{Command, End, NotRun, Output, Usage};
pub use start::{Abilities, NotStarted, Process, SPAWNER, Setup, Spawner, spawner_main};
pub use tier::Tier;
pub use trial::NotProven;
pub use unpack::{NotUnpacked, Unpacked, Unpacking};
pub use worker::look_up;
