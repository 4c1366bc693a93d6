//! The supervisor's side of the sandbox: starts the spawner, leases UIDs and
//! workspaces, sends archives, runs commands and captures their output.

mod ask_pass;
mod bounds;
mod capture;
mod consumption;
mod credential_name;
mod excerpt;
mod handle;
mod health;
mod heartbeat;
mod late_usage;
mod lease;
mod limit_watch;
mod link;
mod locked;
mod output;
mod output_pipe;
mod redact;
mod room;
mod run;
mod setup;
mod socket;
mod start;
mod stderr;
mod trial;
mod unpack;

pub use self::{
    ask_pass::{AskPass, AskPassPlace},
    bounds::{Bounds, Caches, Network},
    consumption::{Consumption, RequestUsage},
    credential_name::{ends_as_credential, suggests_credential},
    excerpt::Excerpt,
    handle::{SpawnerGone, Unconfined},
    health::Health,
    lease::{Lease, NoLease, SharedRepository},
    link::Link,
    locked::LockedDirectory,
    output::{Output, Termination, Usage},
    redact::Redactor,
    room::{FIRST_OUTPUT, Room},
    run::{Command, NotRun, Ordered},
    setup::{Setup, UnfitPaths},
    start::{Abilities, NotStarted, SPAWNER, Shortfall, Spawner, SpawnerProcess},
    stderr::OUTPUT_TARGET,
    trial::{NotProven, TRIAL_PATH},
    unpack::{NotUnpacked, Unpack, Unpacked, Unpacking},
};
