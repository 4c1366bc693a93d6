//! Finds the cgroup below which cgroups of requests can be created.

use std::{
    io,
    path::{Path, PathBuf},
};

use cmp_procfs::Mount;
use nix::{errno::Errno, sys::statvfs::FsFlags, sys::statvfs::fstatvfs};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::{Directory, NoCgroups, SUPERVISOR_CGROUP};

/// Name of the machine's own cgroup namespace, `PROC_CGROUP_INIT_INO`.
const MACHINE: &str = "cgroup:[4026531835]";

/// The cgroup of this container or service.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) directory: Directory,
    /// For people.
    pub(super) path: PathBuf,
    /// It is the root of a cgroup namespace but not of the machine: all processes
    /// in it belong to this container.
    pub(super) is_container: bool,
}

impl Place {
    /// Finds a place in a mounted hierarchy. If that is read-only, a mount of our
    /// own may be allowed; nobody else sees it.
    pub(super) fn find() -> Result<Self, NoCgroups> {
        let failed = |error| NoCgroups::Step { step: "find the cgroup of this process", error };
        let own = cmp_procfs::own_cgroup().map_err(failed)?.ok_or(NoCgroups::NotMounted)?;
        let mounts = cmp_procfs::mounts().map_err(failed)?;
        let is_unified = |mount: &&Mount| mount.kind == "cgroup2";
        let inside = |mount: &Mount| Some((mount.point.clone(), below(&mount.root, &own)?));
        let visible = mounts.iter().filter(is_unified).find_map(inside);
        let (point, path) = visible.ok_or(NoCgroups::NotMounted)?;
        let opened = Directory::at(&point).map_err(|error| failed(error.into()))?;
        let is_read_only =
            fstatvfs(&opened).is_ok_and(|about| about.flags().contains(FsFlags::ST_RDONLY));
        let (root, path) = match is_read_only.then(own_mount) {
            None => (opened, path),
            // Its root is that of the cgroup namespace.
            Some(Ok(root)) => (root, below(Path::new("/"), &own).ok_or(NoCgroups::NotMounted)?),
            Some(Err(_denied)) => return Err(NoCgroups::ReadOnly(point)),
        };
        // A supervisor that runs here already has moved all processes there.
        let path = if path.ends_with(SUPERVISOR_CGROUP) {
            path.parent().unwrap_or(&path).to_owned()
        } else {
            path
        };
        let shown = point.join(&path);
        let directory = if path.as_os_str().is_empty() {
            root
        } else {
            root.below(&path).map_err(|error| failed(error.into()))?
        };
        let is_container = path.as_os_str().is_empty() && directory.has("cgroup.type");
        Ok(Self { directory, path: shown, is_container })
    }
}

/// Path of a cgroup relative to the root of a mount; `None` if it is outside.
fn below(root: &Path, cgroup: &Path) -> Option<PathBuf> {
    let path = cgroup.strip_prefix(root).ok()?;
    let is_outside = path.components().any(|part| part == std::path::Component::ParentDir);
    (!is_outside).then(|| path.to_owned())
}

/// Not in the machine's own cgroup namespace: a mount there would reset options
/// for the whole machine.
fn own_mount() -> io::Result<Directory> {
    if std::fs::read_link("/proc/self/ns/cgroup")? == Path::new(MACHINE) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let private = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, private)?.into())
}

/// The reason for an error of the first change in a cgroup.
pub(super) fn refused(path: &Path, error: Errno) -> NoCgroups {
    if error == Errno::EROFS {
        NoCgroups::ReadOnly(path.to_owned())
    } else if matches!(error, Errno::EACCES | Errno::EPERM) {
        NoCgroups::Permission(path.to_owned())
    } else {
        NoCgroups::Step { step: "create a cgroup", error: error.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_cgroup_is_relative_to_the_mount() {
        let below = |root: &str, cgroup: &str| below(Path::new(root), Path::new(cgroup));
        assert_eq!(below("/", "/"), Some(PathBuf::new()));
        assert_eq!(below("/", "/a/b"), Some("a/b".into()));
        assert_eq!(below("/a", "/a/b"), Some("b".into()));
        assert_eq!(below("/c", "/a/b"), None);
        assert_eq!(below("/", "/../a"), None, "outside the cgroup namespace");
    }
}
