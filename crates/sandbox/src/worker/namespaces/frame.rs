//! The frame of a root, and the parts of the image in it.
//!
//! The roots of most requests differ only in their workspaces, `/tmp`, `/dev/shm` and
//! `/proc`. All else is mounted once and is read-only; the mounts of a new request
//! contain a copy of these mounts.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, symlink},
    path::{Path, PathBuf},
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    unistd::chdir,
};

use super::{
    accounts,
    masks::Masks,
    mounts::{below, inert, propagate, scratch},
    part::{Part, Source},
};
use crate::kernel::policy::{DEVICES, Policy};

/// Usually a link to `/run`, which is no part of the image. Paths to read are
/// often named through it.
const RUN: &str = "/var/run";

/// Options of the frame itself, which has mount points only.
pub(super) const FRAME: &str = "size=1m,mode=755";

/// Mode of the directory at which the common frame is mounted.
const MODE: u32 = 0o700;

/// Directories in memory that each request has for itself, relative to its root.
pub(crate) const SCRATCHES: [&str; 2] = ["tmp", "dev/shm"];

/// Their paths for a command.
pub const SCRATCH_PATHS: [&str; 2] = ["/tmp", "/dev/shm"];

/// The space of each of them, for people.
pub const SCRATCH_ROOM: &str = "64 MiB and 10,240 files";

/// Their options.
const SCRATCH: &str = "size=64m,nr_inodes=10k,mode=1777";

/// Directories that each request has for itself.
const PRIVATE: [&str; 3] = ["/tmp", "/dev", "/proc"];

/// Names below `/dev` that lead to a process's own descriptors.
const DESCRIPTORS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// The part of a root that all requests have in common.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    /// Paths of the image. Those inside another one are mounts: only the top of a tree
    /// becomes read-only when it is bound.
    image: Vec<PathBuf>,
    /// Mounts of the container's runtime over parts of `/proc`.
    masks: Masks,
    /// The frame that is mounted already, unless the image has parts in a directory that
    /// each request has for itself.
    common: Option<Common>,
}

/// A frame with the whole image, which nobody can change.
#[derive(Debug)]
struct Common {
    path: PathBuf,
    /// Its file system.
    device: u64,
    /// The directory of all caches.
    caches: PathBuf,
}

impl Roots {
    /// Mounts the common frame at `path`. All requests get mount points for `workspaces`
    /// and for `caches`.
    pub(crate) fn make(
        policy: Option<&Policy>,
        path: PathBuf,
        [workspaces, caches]: [&Path; 2],
    ) -> io::Result<Self> {
        let mut roots = Self { image: image(policy), masks: Masks::read()?, common: None };
        let is_private = |path: &PathBuf| PRIVATE.iter().any(|private| path.starts_with(private));
        if roots.image.iter().any(is_private) {
            return Ok(roots);
        }
        make_directory(&path)?;
        lay(&path)?;
        fill(roots.parts())?;
        accounts::make_files();
        for point in [workspaces, caches] {
            fs::create_dir_all(below(point))?;
        }
        // Mounts that the container gets later are no part of the image.
        propagate(".", MsFlags::MS_PRIVATE)?;
        let (nowhere, closed) = (None::<&str>, MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY);
        mount(nowhere, ".", nowhere, closed | inert(), nowhere)?;
        let device = fs::metadata(".")?.dev();
        chdir("/")?;
        roots.common = Some(Common { path, device, caches: caches.to_owned() });
        Ok(roots)
    }

    /// True for a path that every root has.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.image.iter().any(|part| path.starts_with(part))
    }

    /// Makes a frame with the image and `further` parts the working directory. A new one
    /// is mounted at `target` if the common one has no mount points for them.
    pub(super) fn enter(&self, further: Vec<(PathBuf, Part)>, target: &Path) -> io::Result<()> {
        if let Some(common) = self.common.as_ref().filter(|common| common.suits(&further))
            && common.enter()
        {
            self.separate()?;
            if !further.is_empty() {
                fs::create_dir_all(below(&common.caches))?;
                scratch(below(&common.caches), FRAME)?;
            }
            return fill(further.into_iter().map(Ok));
        }
        // Opened before the frame covers anything.
        let image = self.parts().collect::<io::Result<Vec<_>>>()?;
        lay(target)?;
        self.separate()?;
        // The kernel refuses to mount a file that was removed since it was opened, so these
        // do not wait for the image. Many of these paths are below `/tmp`.
        let (files, further) = files_first(further);
        if let Err(error) = fill(files.into_iter().chain(image).chain(further).map(Ok)) {
            // For another attempt.
            chdir("/")?;
            umount2(target, MntFlags::MNT_DETACH)?;
            return Err(error);
        }
        accounts::make_files();
        Ok(())
    }

    fn parts(&self) -> impl Iterator<Item = io::Result<Placed>> {
        self.image.iter().map(|path| Ok((path.clone(), Part::of(path)?)))
    }

    /// Mounts the directories that each request has for itself.
    fn separate(&self) -> io::Result<()> {
        for directory in SCRATCHES {
            scratch(Path::new(directory), SCRATCH)?;
        }
        let proc = Path::new("proc");
        mount(Some("proc"), proc, Some("proc"), inert(), None::<&str>)?;
        self.masks.apply(proc)
    }
}

impl Common {
    /// True if there are mount points for these parts.
    fn suits(&self, further: &[(PathBuf, Part)]) -> bool {
        further.iter().all(|(path, _)| path.starts_with(&self.caches))
    }

    /// Makes it the working directory. Its mount is gone if somebody has removed the
    /// directory.
    fn enter(&self) -> bool {
        chdir(&self.path).is_ok() && fs::metadata(".").is_ok_and(|about| about.dev() == self.device)
    }
}

/// Gives this process mounts of its own, which follow those of the container. Files
/// cannot be moved between directories that were opened before and after.
pub(crate) fn separate_mounts() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    propagate("/", MsFlags::MS_SLAVE)
}

/// The parts of the image, and files about the machine. Parts inside another part are left
/// out, unless they are mounts.
fn image(policy: Option<&Policy>) -> Vec<PathBuf> {
    let mut paths: Vec<&Path> = policy.iter().flat_map(|policy| policy.outside_proc()).collect();
    paths.sort_unstable();
    let mut parts: Vec<&Path> = Vec::new();
    for path in paths {
        if !parts.iter().any(|outer| path.starts_with(outer)) {
            parts.push(path);
        }
    }
    let mounts = policy.iter().flat_map(|policy| policy.readable_mounts());
    let is_inner = |point: &&Path| parts.iter().any(|outer| point.starts_with(outer));
    let inner: Vec<_> = mounts.filter(is_inner).filter(|point| !parts.contains(point)).collect();
    // A part that is named through it has made it a directory.
    let is_free = !parts.iter().any(|part| part.starts_with(RUN));
    let run = (is_free && fs::read_link(RUN).is_ok()).then(|| Path::new(RUN));
    parts.into_iter().chain(inner).chain(run).map(Path::to_owned).collect()
}

/// Makes the directory of the common frame if it is missing. A link is refused: anybody
/// may have made it while no supervisor ran.
fn make_directory(path: &Path) -> io::Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(MODE).create(path);
    if made.is_ok() && fs::symlink_metadata(path)?.is_dir() {
        return Ok(());
    }
    let error = made.err().unwrap_or_else(|| io::ErrorKind::NotADirectory.into());
    Err(io::Error::new(error.kind(), format!("{}: {error}: remove it", path.display())))
}

/// Mounts an empty frame at `target` and makes it the working directory.
fn lay(target: &Path) -> io::Result<()> {
    scratch(target, FRAME)?;
    chdir(target)?;
    fs::create_dir_all("tmp")?;
    fs::create_dir_all("proc")?;
    devices(Path::new("dev"))
}

/// Puts parts into the frame that is the working directory.
fn fill(parts: impl Iterator<Item = io::Result<Placed>>) -> io::Result<()> {
    for placed in parts {
        let (path, part) = placed?;
        let failed =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        part.put(below(&path)).map_err(failed)?;
    }
    Ok(())
}

fn devices(dev: &Path) -> io::Result<()> {
    fs::create_dir_all(dev)?;
    for path in DEVICES.map(Path::new) {
        let Some(device) = Source::find(path)? else { continue };
        let target = dev.join(path.file_name().unwrap_or_default());
        File::create(&target)?;
        device.put(&target)?;
    }
    for (name, target) in DESCRIPTORS {
        symlink(target, dev.join(name))?;
    }
    fs::create_dir_all(dev.join("shm"))
}

/// A path of the new root, and what is there.
type Placed = (PathBuf, Part);

/// Separates files from other parts, except files that are mounted within one of those: it
/// would cover them.
fn files_first(parts: Vec<Placed>) -> (Vec<Placed>, Vec<Placed>) {
    let is_other = |(_, part): &&Placed| !part.is_file();
    let others: Vec<PathBuf> =
        parts.iter().filter(is_other).map(|(path, _)| path.clone()).collect();
    let is_within = |path: &PathBuf| others.iter().any(|outer| path.starts_with(outer));
    parts.into_iter().partition(|(path, part)| part.is_file() && !is_within(path))
}
