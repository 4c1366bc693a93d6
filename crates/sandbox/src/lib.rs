//! Runs commands under leased UIDs, confined by the kernel.
//!
//! Three kinds of processes share the work. The *supervisor* talks to the
//! network and has no privilege. The *spawner* can switch to other UIDs and
//! parses nothing that a tenant wrote. A *worker* has a leased UID and handles
//! the tenant's bytes: it unpacks an archive or becomes a command. The
//! supervisor sends orders to the spawner, and plans directly to workers.
//!
//! A [`Lease`] is two UIDs, one for commands and one to kill them, and a directory
//! that no other request has. Dropping it ends a request: the spawner kills every
//! process of the first UID, removes the directory, and only then leases both again.

mod client;
mod kernel;
mod readable;
#[cfg(test)]
mod skip;
mod spawner;
mod visible;
mod wire;
mod worker;

pub use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

pub use self::{
    client::{
        Abilities, AskPass, AskPassPlace, Bounds, Caches, Command, Consumption, Excerpt,
        FIRST_OUTPUT, Health, Lease, Link, LockedDirectory, Network, NoLease, NotProven, NotRun,
        NotStarted, NotUnpacked, OUTPUT_TARGET, Ordered, Output, Redactor, RequestUsage, Room,
        SPAWNER, Setup, SharedRepository, Shortfall, Spawner, SpawnerGone, SpawnerProcess,
        TRIAL_PATH, Termination, Unconfined, UnfitPaths, Unpack, Unpacked, Unpacking, Usage,
        ends_as_credential, suggests_credential,
    },
    kernel::{
        file_size::{RAISE_FILE_SIZE, most_file_size, raise_file_size},
        full::is_full,
        heap::{give_back_free_memory, give_back_large_buffers},
        no_process::{MORE_PROCESSES, with_remedy},
        noexec::is_noexec,
        policy::{covers_ports, home_above, refuses_moves, refuses_truncation},
        privilege::{NotDropped, as_user, drop_privileges},
        signals::prepare_signals,
        unwritable::directory_remedy,
    },
    readable::{Closing, Readable},
    spawner::{
        CACHES, HOME_PATH, PRIVATE, SUPERVISOR_CGROUP, WORKSPACES, most_leases, spawner_main,
    },
    visible::{CleanPath, Place, Sight, look},
    wire::{
        account::{Account, PASSWD},
        arguments::MAX_ARGUMENT,
        ask_pass::ANSWERS,
        descriptors::refuse_descriptors,
        exceeded::ExceededLimit,
        file_memory::memory_of_files,
        last_part::{AlmostFull, LastPart, Marks},
        plan::Cache,
        refusal::{Attempt, KernelLimit, Observed, Refusal},
        shortage::Need,
        skeleton::{HomePart, Skeleton},
        tier::{Demand, Tier},
        usage::TotalLimits,
    },
    worker::{
        CURRENT_FILES, DEFINITIONS, Malformed, REPOSITORY, SCRATCH_PATHS, SCRATCH_ROOM, WRITTEN,
        closed_by_mode, look_up, opened_words, script_words, until_not_again,
    },
};
