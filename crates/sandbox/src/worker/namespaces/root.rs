//! A root file system with only the image and one workspace.

use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{OFlag, open},
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::stat::Mode,
    unistd::{chdir, chroot, pivot_root},
};

use super::{
    accounts::Accounts,
    mounts::{below, propagate},
    part::{Part, Source},
};
use crate::worker::{Job, WorkerContext, read_paths::ReadPath};
use crate::{kernel::policy::mount_points, wire::shared::SharedCaches};

/// The context inside the namespaces: the directory of workspaces is opened
/// again.
#[derive(Debug)]
pub(super) struct InnerContext<'s> {
    outer: &'s WorkerContext<'s>,
    root: OwnedFd,
}

impl InnerContext<'_> {
    pub(super) fn context(&self) -> WorkerContext<'_> {
        WorkerContext { root: self.root.as_fd(), ..*self.outer }
    }
}

/// Replaces all mounts of this process by those that the tenant may see.
pub(super) fn arrange<'s>(job: &Job<'s>) -> io::Result<InnerContext<'s>> {
    let context = job.context;
    propagate("/", MsFlags::MS_PRIVATE)?;
    let work = Source::open(context.root_path)?;
    let further = further(job)?;
    let accounts = Accounts::read(job.tenant);
    // The new root may be mounted over the directory of workspaces, which always
    // exists.
    context.roots.enter(further, context.root_path)?;
    accounts.apply()?;
    work.bind(below(context.root_path), MsFlags::empty())?;
    enter()?;
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = open(context.root_path, flags, Mode::empty())?;
    Ok(InnerContext { outer: context, root })
}

/// Additional paths of this worker that the image does not include: paths to
/// read, and caches.
fn further(job: &Job<'_>) -> io::Result<Vec<(PathBuf, Part)>> {
    let mut parts: Vec<(PathBuf, Part)> = Vec::new();
    let mut read_paths: Vec<&ReadPath> = job.read_paths.iter().collect();
    // Sorted: an outer path mounted later would hide an inner one.
    read_paths.sort_unstable_by(|a, b| a.real.cmp(&b.real));
    let is_there = |parts: &[(PathBuf, Part)], path: &Path| {
        job.context.roots.has(path) || parts.iter().any(|(outer, _)| path.starts_with(outer))
    };
    let mounts = if read_paths.is_empty() { BTreeSet::new() } else { mount_points()? };
    for ReadPath { asked, real } in read_paths {
        let part = Part::named(real, job.tenant)?;
        if matches!(part, Part::Copied(_)) {
            parts.push((real.clone(), part));
        } else if !is_there(&parts, real) {
            parts.push((real.clone(), part));
            // Mounts below are bound separately, because only the top of a tree
            // becomes read-only.
            let below = mounts.iter().filter(|point| point.starts_with(real) && *point != real);
            parts.extend(below.map(|point| (point.clone(), Part::of(point))));
        }
        if asked != real && !is_there(&parts, asked) {
            parts.push((asked.clone(), Part::Link(real.clone())));
        }
    }
    for path in job.tenant.shared.iter().flat_map(SharedCaches::paths) {
        let source = Source::open(&path)?;
        parts.push((path, Part::Shared(source)));
    }
    Ok(parts)
}

/// Makes the working directory the root directory and detaches the old root.
fn enter() -> io::Result<()> {
    if pivot_root(".", ".").is_ok() {
        // The old root is mounted over the new one now.
        umount2(".", MntFlags::MNT_DETACH)?;
    } else {
        // Default container profiles deny pivot_root(2) even if mounting is
        // allowed. The move covers the old root, which cannot be reached any
        // more.
        let nowhere = None::<&str>;
        mount(Some("."), "/", nowhere, MsFlags::MS_MOVE, nowhere)?;
        chroot(".")?;
    }
    Ok(chdir("/")?)
}
