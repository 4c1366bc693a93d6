//! A root file system with only the image and one workspace.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::symlink,
    },
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{OFlag, open},
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::stat::Mode,
    unistd::{chdir, chroot, pivot_root},
};

use rustix::{
    fs::{CWD, FileType, fstat},
    mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree},
};

use super::{accounts::Accounts, copies::Copy};
use crate::worker::{
    Job, Tenant, WorkerContext,
    modes::{self, Reader},
    read_paths::ReadPath,
};
use crate::{kernel::policy::mount_points, wire::shared::SharedCaches};

/// Options of `/tmp` and `/dev/shm` of a request.
const SCRATCH: &str = "size=64m,nr_inodes=10k,mode=1777";

/// Usually a link to `/run`, which is no part of the image. Paths to read are
/// often named through it.
const RUN: &str = "/var/run";

/// Options of the root itself, which has mount points only.
const FRAME: &str = "size=1m,mode=755";

/// Directory of the new root in which copies are made.
const COPIES: &str = ".copies";

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Names below `/dev` that lead to a process's own descriptors.
const DESCRIPTORS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

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
    let nowhere = None::<&str>;
    mount(nowhere, "/", nowhere, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nowhere)?;
    let work = Source::open(context.root_path)?;
    let image = image(context);
    let further = further(job, &image)?;
    let accounts = Accounts::read(job.tenant);
    // The new root is mounted over the directory of workspaces, which always
    // exists.
    scratch(context.root_path, FRAME)?;
    chdir(context.root_path)?;
    devices(Path::new("dev"))?;
    directory(Path::new("tmp"))?;
    scratch(Path::new("tmp"), SCRATCH)?;
    let proc = Path::new("proc");
    directory(proc)?;
    mount(Some("proc"), proc, Some("proc"), inert(), nowhere)?;
    context.masks.apply(proc)?;
    // After the mounts above: many of these paths are below `/tmp`.
    for (path, part) in image.into_iter().chain(further) {
        part.put(below(&path), Path::new(COPIES))?;
    }
    accounts.apply()?;
    work.bind(below(context.root_path), MsFlags::empty())?;
    enter()?;
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = open(context.root_path, flags, Mode::empty())?;
    Ok(InnerContext { outer: context, root })
}

/// The parts of the image. Parts inside another part are left out, unless they
/// are mounts: only the top of a tree becomes read-only when it is bound.
fn image(context: &WorkerContext<'_>) -> Vec<(PathBuf, Part)> {
    let mut paths: Vec<&Path> = context.policy.iter().flat_map(|policy| policy.image()).collect();
    paths.sort_unstable();
    let mut parts: Vec<(PathBuf, Part)> = Vec::new();
    for path in paths {
        if !parts.iter().any(|(outer, _)| path.starts_with(outer)) {
            parts.push((path.to_owned(), Part::of(path)));
        }
    }
    let mounts = context.policy.iter().flat_map(|policy| policy.readable_mounts());
    let inner = mounts
        .filter(|point| parts.iter().any(|(outer, _)| point.starts_with(outer) && *point != outer));
    let inner: Vec<_> = inner.map(|point| (point.to_owned(), Part::of(point))).collect();
    parts.extend(inner);
    if let Ok(target) = fs::read_link(RUN) {
        parts.push((RUN.into(), Part::Link(target)));
    }
    parts
}

/// Additional paths of this worker that the image does not include: paths to
/// read, and caches.
fn further(job: &Job<'_>, image: &[(PathBuf, Part)]) -> io::Result<Vec<(PathBuf, Part)>> {
    let mut parts = Vec::new();
    let mut read_paths: Vec<&ReadPath> = job.read_paths.iter().collect();
    // Sorted: an outer path mounted later would hide an inner one.
    read_paths.sort_unstable_by(|a, b| a.real.cmp(&b.real));
    let is_there = |parts: &[(PathBuf, Part)], path: &Path| {
        image.iter().chain(parts).any(|(outer, _)| path.starts_with(outer))
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

/// A path of the new root.
enum Part {
    Link(PathBuf),
    Bound(Source),
    Copied(Copy),
    /// A cache, mounted writable.
    Shared(Source),
    Gone,
}

impl Part {
    fn of(path: &Path) -> Self {
        match fs::read_link(path) {
            Ok(target) => Self::Link(target),
            Err(_) => Source::open(path).map_or(Self::Gone, Self::Bound),
        }
    }

    /// A path to read. If its mode closes it to the tenant, it is a copy.
    fn named(path: &Path, tenant: &Tenant) -> io::Result<Self> {
        let closed =
            tenant.user.and_then(|user| modes::itself(path, &Reader::alone(user.as_raw())));
        let part = match closed {
            Some(_) => Copy::read(path).map(Self::Copied),
            None => Source::open(path).map(Self::Bound),
        };
        match part {
            // Unmounted since it was resolved.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Gone),
            part => part,
        }
    }

    fn put(&self, target: &Path, volumes: &Path) -> io::Result<()> {
        match self {
            Self::Copied(copy) => copy.put(target, volumes),
            Self::Link(value) => {
                target.parent().map_or(Ok(()), directory)?;
                symlink(value, target)
            }
            Self::Bound(source) => source.bind(target, MsFlags::MS_RDONLY),
            Self::Shared(source) => source.bind(target, MsFlags::empty()),
            Self::Gone => Ok(()),
        }
    }
}

/// A file or directory that can be mounted again after its path is covered.
struct Source {
    mount: OwnedFd,
    is_directory: bool,
}

impl Source {
    fn open(path: &Path) -> io::Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let mount = open_tree(CWD, path, flags)?;
        let is_directory = FileType::from_raw_mode(fstat(&mount)?.st_mode).is_dir();
        Ok(Self { mount, is_directory })
    }

    /// Mounts it without device files, and without programs that give rights.
    fn bind(&self, target: &Path, access: MsFlags) -> io::Result<()> {
        if self.is_directory {
            directory(target)?;
        } else {
            target.parent().map_or(Ok(()), directory)?;
            if !target.exists() {
                File::create(target)?;
            }
        }
        self.put(target)?;
        let nowhere = None::<&str>;
        let again = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | access;
        let flags = again | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        Ok(mount(nowhere, target, nowhere, flags, nowhere)?)
    }

    /// Mounts it at a path that exists.
    fn put(&self, target: &Path) -> io::Result<()> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        Ok(move_mount(&self.mount, "", CWD, target, flags)?)
    }
}

fn devices(dev: &Path) -> io::Result<()> {
    directory(dev)?;
    for name in DEVICES {
        let Ok(device) = Source::open(&Path::new("/dev").join(name)) else { continue };
        let target = dev.join(name);
        File::create(&target)?;
        device.put(&target)?;
    }
    for (name, target) in DESCRIPTORS {
        symlink(target, dev.join(name))?;
    }
    let shm = dev.join("shm");
    directory(&shm)?;
    scratch(&shm, SCRATCH)
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

pub(super) fn scratch(target: &Path, options: &str) -> io::Result<()> {
    Ok(mount(Some("tmpfs"), target, Some("tmpfs"), inert(), Some(options))?)
}

pub(super) fn inert() -> MsFlags {
    MsFlags::MS_NOSUID | MsFlags::MS_NODEV
}

pub(super) fn directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// The path in the new root, which is the working directory.
pub(super) fn below(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}
