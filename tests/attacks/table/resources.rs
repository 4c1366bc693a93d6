//! Attacks on memory, disk and CPU time.

use crate::{
    attack::{
        Attack,
        Expected::{self, Refused, TimedOut, Told, Works},
        Staging::{CutOff, Init},
    },
    evidence::{
        Evidence::{Floods, Makes, Runs, Takes},
        Resource::{Disk, Entries, Memory},
    },
    payload::{excess, resources},
    setting::Setting::Landlock,
};

pub(super) const RESOURCES: &[Attack] = &[
    Attack::new("rs_memory", resources::memory, Refused),
    Attack::new("rs_file", resources::file, FILE_SIZE).seen(Makes(&["repo/large"])),
    Attack::new("rs_memory_file", resources::memory_file, FILE_SIZE),
    Attack::new("rs_processor", resources::processor, TimedOut).staged(CutOff).seen(Runs),
    Attack::new("rs_output", resources::output, OUTPUT).seen(Floods),
    Attack::new("rs_errors", resources::errors, Works),
    Attack::new("rs_descriptors", resources::descriptors, Refused),
    Attack::new("rs_disk", resources::disk, Works).seen(Makes(&["repo/piece-0", "repo/piece-7"])),
    Attack::new("rs_deleted_file", resources::deleted_file, Works),
    Attack::new("rs_reserved_space", resources::reserved_space, Refused),
];

pub(super) const FILE_SIZE: Expected = Told("failed signal: file size limit exceeded");
const OUTPUT: Expected = Told("was stopped: it wrote more than");
const MEMORY: Expected = Told("--max-memory, or give the plugin a spec.limits.memory");
const DISK: Expected = Told("--max-disk, or give the plugin a spec.limits.disk");
const ENTRIES: Expected = Told("--max-files, or give the plugin a spec.limits.files");
const UNMEASURED: Expected = Told("could not be measured");

/// Attacks that exceed a limit of the request while no single process or file
/// exceeds its own limit.
pub(super) const EXCESSES: &[Attack] = &[
    Attack::new("ex_none", excess::none, Works),
    Attack::new("ex_processes", excess::processes, MEMORY).seen(Takes(Memory)).plain(),
    Attack::new("ex_processes_of_init", excess::processes, MEMORY)
        .staged(Init)
        .seen(Takes(Memory))
        .plain(),
    Attack::new("ex_shared_memory", excess::shared_memory, MEMORY).seen(Takes(Memory)).plain(),
    Attack::new("ex_memory_files", excess::memory_files, MEMORY).seen(Takes(Memory)).plain(),
    Attack::new("ex_socket_buffers", excess::socket_buffers, MEMORY).plain(),
    // This tier has no Unix sockets that wait for connections.
    Attack::new("ex_pending_connections", excess::pending_connections, MEMORY)
        .except(&[(Landlock, Refused)])
        .plain(),
    Attack::new("ex_netlink_answers", excess::netlink_answers, MEMORY).plain(),
    // The filter of this tier refuses queues.
    Attack::new("ex_events", excess::events, MEMORY).except(&[(Landlock, Refused)]).plain(),
    Attack::new("ex_thread_filters", resources::thread_filters, MEMORY).plain(),
    Attack::new("ex_first_thread_gone", excess::first_thread_gone, MEMORY)
        .seen(Takes(Memory))
        .plain(),
    Attack::new("ex_memory_and_kill", excess::memory_and_kill, MEMORY).seen(Takes(Memory)).plain(),
    Attack::new("ex_memory_and_stop", excess::memory_and_stop, MEMORY).seen(Takes(Memory)).plain(),
    Attack::new("ex_left_memory", excess::left_memory, MEMORY).seen(Takes(Memory)).plain(),
    Attack::new("ex_files", excess::files, DISK).seen(Takes(Disk)).plain(),
    Attack::new("ex_files_elsewhere", excess::files_elsewhere, DISK).seen(Takes(Disk)).plain(),
    Attack::new("ex_files_and_kill", excess::files_and_kill, DISK).seen(Takes(Disk)).plain(),
    Attack::new("ex_removed_files", excess::removed_files, DISK).seen(Takes(Disk)).plain(),
    Attack::new("ex_closed_directory", excess::closed_directory, DISK).seen(Takes(Disk)).plain(),
    Attack::new("ex_undumpable", excess::undumpable, DISK).seen(Takes(Disk)).plain(),
    Attack::new("ex_entries", excess::entries, ENTRIES).seen(Takes(Entries)).plain(),
    Attack::new("ex_deep_entries", excess::deep_entries, ENTRIES).seen(Takes(Entries)).plain(),
    Attack::new("ex_mapped_files", excess::mapped_files, UNMEASURED).seen(Takes(Disk)).plain(),
    Attack::new("ex_files_in_flight", excess::files_in_flight, UNMEASURED)
        .seen(Takes(Disk))
        .plain(),
    Attack::new("ex_unreadable_program", excess::unreadable_program, UNMEASURED)
        .seen(Takes(Disk))
        .plain(),
];
