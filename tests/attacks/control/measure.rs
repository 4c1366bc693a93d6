//! Measurements of a control run, by means that the product does not use.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt, path::Path};

use nix::sys::statvfs::statvfs;

use crate::{arena, evidence::Resource, processes};

/// Limit on a resource in an arena.
pub(super) fn limit(resource: Resource) -> u64 {
    arena::limit(match resource {
        Resource::Memory => "--max-memory",
        Resource::Disk => "--max-disk",
        Resource::Entries => "--max-files",
    })
}

/// Use of a resource by all processes of a UID, or on the stage's file system.
pub(super) fn used(resource: Resource, uid: u32, directory: &Path) -> u64 {
    let about = statvfs(directory).expect("a file system");
    match resource {
        Resource::Memory => memory(uid),
        Resource::Disk => (about.blocks() - about.blocks_free()) * about.fragment_size(),
        Resource::Entries => about.files() - about.files_free(),
    }
}

/// Sum of the mapped memory of a UID, where each process counts with its share of
/// common pages, and of its open files that exist only in memory. In bytes.
fn memory(uid: u32) -> u64 {
    let own = processes::all().into_iter().filter(|process| process.uid == uid);
    let mut files = BTreeMap::new();
    let mut mapped = 0;
    for process in own {
        let at = |name: &str| format!("/proc/{}/{name}", process.pid);
        // A process can outlive its first thread, so any thread may answer.
        let threads = fs::read_dir(at("task")).into_iter().flatten().flatten();
        let names = threads.filter_map(|thread| thread.file_name().into_string().ok());
        let mut shares = names.map(|thread| share(&thread));
        mapped += shares.find(|share| *share > 0).unwrap_or_default();
        for entry in fs::read_dir(at("fd")).into_iter().flatten().flatten() {
            let is_nameless =
                fs::read_link(entry.path()).is_ok_and(|to| to.starts_with("/memfd:x (deleted)"));
            if let Some(about) = fs::metadata(entry.path()).ok().filter(|_| is_nameless) {
                files.insert((about.dev(), about.ino()), about.blocks() * 512);
            }
        }
    }
    mapped + files.values().sum::<u64>()
}

fn share(thread: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{thread}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or_default();
    let kib: u64 = line.trim_end_matches("kB").trim().parse().unwrap_or_default();
    kib * 1024
}
