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

mod client;
mod kernel;
mod spawner;
mod wire;
mod worker;

pub use self::{
    client::{
        Abilities, Bounds, Cache, Caches, Command, Excerpt, Lease, Link, Network, NoLease,
        NotProven, NotRun, NotStarted, NotUnpacked, OUTPUT_TARGET, Output, Redactor, SPAWNER,
        Setup, Shortfall, Spawner, SpawnerGone, SpawnerProcess, Termination, Unconfined, Unpacked,
        Unpacking, Usage,
    },
    kernel::privilege::{NotDropped, drop_privileges},
    spawner::spawner_main,
    wire::{exceeded::ExceededLimit, shortage::Need, tier::Tier},
    worker::look_up,
};
