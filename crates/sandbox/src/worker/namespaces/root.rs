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
use crate::worker::{
    Job, Tenant, WorkerContext,
    read_paths::{ATTEMPTS, ReadPath},
};
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
        WorkerContext { root: self.root.as_fd(), ..self.outer.below() }
    }
}

/// Replaces all mounts of this process by those that the tenant may see.
pub(super) fn arrange<'s>(job: &mut Job<'s>) -> io::Result<InnerContext<'s>> {
    let context = job.context;
    propagate("/", MsFlags::MS_PRIVATE)?;
    let work = Source::open(context.root_path)?;
    let accounts = Accounts::read(job.tenant);
    make(job)?;
    accounts.apply()?;
    work.bind(below(context.root_path), MsFlags::empty())?;
    enter()?;
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = open(context.root_path, flags, Mode::empty())?;
    Ok(InnerContext { outer: context, root })
}

/// Makes the new root the working directory. All paths to read are of one version: those
/// that are replaced meanwhile are resolved again. The kernel refuses to mount a file that
/// was removed after it was opened.
fn make(job: &mut Job<'_>) -> io::Result<()> {
    for _ in 1..ATTEMPTS {
        match attempt(job) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        job.find_paths().map_err(io::Error::other)?;
    }
    let further = further(job, Part::or_gone)?;
    job.context.roots.enter(further, job.context.root_path)
}

/// Returns false if a path to read was replaced while it was opened.
fn attempt(job: &Job<'_>) -> io::Result<bool> {
    let further = further(job, Part::named)?;
    if job.replaced().is_some() {
        return Ok(false);
    }
    // The new root may be mounted over the directory of workspaces, which always
    // exists.
    job.context.roots.enter(further, job.context.root_path)?;
    Ok(true)
}

/// Makes a part of a path to read.
type ToPart = fn(&ReadPath, &Tenant) -> io::Result<Part>;

/// Additional paths of this worker that the image does not include: paths to
/// read, and caches.
fn further(job: &Job<'_>, part: ToPart) -> io::Result<Vec<(PathBuf, Part)>> {
    let mut parts: Vec<(PathBuf, Part)> = Vec::new();
    let mut read_paths: Vec<&ReadPath> = job.read_paths.iter().collect();
    // Sorted: an outer path mounted later would hide an inner one.
    read_paths.sort_unstable_by(|a, b| a.real.cmp(&b.real));
    let is_there = |parts: &[(PathBuf, Part)], path: &Path| {
        job.context.roots.has(path) || parts.iter().any(|(outer, _)| path.starts_with(outer))
    };
    let mounts = if read_paths.is_empty() { BTreeSet::new() } else { mount_points()? };
    for path in read_paths {
        let ReadPath { name, asked, real, .. } = path;
        let part = part(path, job.tenant).map_err(about(name))?;
        if matches!(part, Part::Copied(_)) {
            parts.push((real.clone(), part));
        } else if !is_there(&parts, real) {
            parts.push((real.clone(), part));
            // Mounts below are bound separately, because only the top of a tree
            // becomes read-only.
            let below = mounts.iter().filter(|point| point.starts_with(real) && *point != real);
            for point in below {
                parts.push((point.clone(), Part::of(point)?));
            }
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

/// Adds a path to an error, which keeps its kind.
fn about(path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Makes the working directory the root directory. The move covers the old root, which cannot
/// be reached any more.
fn enter() -> io::Result<()> {
    // This changes nothing, and fails without the capability for the other call.
    if chroot("/").is_ok() {
        let nowhere = None::<&str>;
        mount(Some("."), "/", nowhere, MsFlags::MS_MOVE, nowhere)?;
        chroot(".")?;
    } else {
        // Slower: the kernel looks at every thread of the node, and waits for all processors.
        pivot_root(".", ".")?;
        // The old root is mounted over the new one now.
        umount2(".", MntFlags::MNT_DETACH)?;
    }
    Ok(chdir("/")?)
}
