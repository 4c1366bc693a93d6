//! The parts of a root: mounts, links and copies.

use std::{
    fs, io,
    os::{fd::OwnedFd, unix::fs::symlink},
    path::{Path, PathBuf},
};

use nix::{errno::Errno, libc, mount::MsFlags};
use rustix::{
    fs::{CWD, FileType, StatVfsMountFlags, fstat, fstatvfs},
    mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree},
};

use super::{
    copies::Copy,
    mounts::{make_file, remount},
};
use crate::worker::{
    Tenant,
    modes::{self, Reader},
    read_paths::ReadPath,
};

/// The kernel's errors for lack of descriptors or memory.
const LACKS: [Errno; 3] = [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM];

/// Directory of the new root in which copies are made.
const COPIES: &str = ".copies";

/// Links are not followed: the option, and how the kernel tells it (`ST_NOSYMFOLLOW`). Only
/// kernels that know it, Linux 5.10 and later, do. Other crates have no names for them.
const NOSYMFOLLOW: MsFlags = MsFlags::from_bits_retain(libc::MS_NOSYMFOLLOW);
const TOLD_NOSYMFOLLOW: StatVfsMountFlags = StatVfsMountFlags::from_bits_retain(0x2000);

/// A path of the new root.
pub(super) enum Part {
    Link(PathBuf),
    Bound(Source),
    /// The same, unless it is removed meanwhile.
    Spare(Source),
    /// Files about the machine, none of which is a program.
    Kernel(Source),
    Copied(Copy),
    /// A cache, mounted writable.
    Shared(Source),
    Gone,
}

impl Part {
    /// A path of the image. An error only if the kernel lacks room for it.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        if let Ok(target) = fs::read_link(path) {
            return Ok(Self::Link(target));
        }
        let kind = if path.starts_with("/sys") { Self::Kernel } else { Self::Bound };
        Ok(Source::find(path)?.map_or(Self::Gone, kind))
    }

    /// A path to read. If its mode closes it to the tenant, it is a copy.
    pub(super) fn named(path: &ReadPath, tenant: &Tenant) -> io::Result<Self> {
        let path = &path.real;
        let closed =
            tenant.user.and_then(|user| modes::itself(path, &Reader::alone(user.as_raw())));
        match closed {
            Some(_) => Copy::read(path).map(Self::Copied),
            None => Source::open(path).map(Self::Bound),
        }
    }

    /// The same; a path that nobody named may be gone.
    pub(super) fn or_gone(path: &ReadPath, tenant: &Tenant) -> io::Result<Self> {
        match Self::named(path, tenant) {
            Ok(Self::Bound(source)) if !path.is_named => Ok(Self::Spare(source)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_named => {
                Ok(Self::Gone)
            }
            part => part,
        }
    }

    /// True for a file that somebody can remove before it is mounted.
    pub(super) fn is_file(&self) -> bool {
        match self {
            Self::Bound(source) | Self::Spare(source) => !source.is_directory,
            Self::Link(_) | Self::Kernel(_) | Self::Copied(_) | Self::Shared(_) | Self::Gone => {
                false
            }
        }
    }

    pub(super) fn put(&self, target: &Path) -> io::Result<()> {
        match self {
            Self::Copied(copy) => copy.put(target, Path::new(COPIES)),
            Self::Link(value) => {
                target.parent().map_or(Ok(()), fs::create_dir_all)?;
                symlink(value, target)
            }
            Self::Bound(source) => source.bind(target, MsFlags::MS_RDONLY),
            Self::Spare(source) => match source.bind(target, MsFlags::MS_RDONLY) {
                // An empty file must not stand for it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => fs::remove_file(target),
                bound => bound,
            },
            Self::Kernel(source) => source.bind(target, MsFlags::MS_RDONLY | MsFlags::MS_NOEXEC),
            Self::Shared(source) => source.bind(target, MsFlags::empty()),
            Self::Gone => Ok(()),
        }
    }
}

/// A file or directory that can be mounted again after its path is covered.
pub(super) struct Source {
    mount: OwnedFd,
    is_directory: bool,
}

impl Source {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let mount = open_tree(CWD, path, flags)?;
        let is_directory = FileType::from_raw_mode(fstat(&mount)?.st_mode).is_dir();
        Ok(Self { mount, is_directory })
    }

    /// The same; `None` if it cannot be opened for a reason of its own. A request without the
    /// others would lack them only for lack of room.
    pub(super) fn find(path: &Path) -> io::Result<Option<Self>> {
        let is_lack = |error: &io::Error| {
            LACKS.iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
        };
        match Self::open(path) {
            Ok(source) => Ok(Some(source)),
            Err(error) if is_lack(&error) => {
                Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
            }
            Err(_) => Ok(None),
        }
    }

    /// Mounts it without device files, and without programs that give rights.
    pub(super) fn bind(&self, target: &Path, access: MsFlags) -> io::Result<()> {
        if self.is_directory {
            fs::create_dir_all(target)?;
        } else {
            make_file(target)?;
        }
        self.put(target)?;
        remount(target, access | self.restrictions())
    }

    /// Options by which the source forbids something, which its owner wanted. In a user
    /// namespace, the kernel refuses to take them from a mount. Times of access need no
    /// option: without any, they stay as they are.
    fn restrictions(&self) -> MsFlags {
        // A server of files that does not tell may forbid programs.
        let Ok(about) = fstatvfs(&self.mount) else { return MsFlags::MS_NOEXEC };
        let kept = [
            (StatVfsMountFlags::NOEXEC, MsFlags::MS_NOEXEC),
            (StatVfsMountFlags::RDONLY, MsFlags::MS_RDONLY),
            (TOLD_NOSYMFOLLOW, NOSYMFOLLOW),
        ];
        let present = kept.into_iter().filter(|(told, _)| about.f_flag.contains(*told));
        present.map(|(_, option)| option).collect()
    }

    /// Mounts it at a path that exists.
    pub(super) fn put(&self, target: &Path) -> io::Result<()> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        Ok(move_mount(&self.mount, "", CWD, target, flags)?)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, iter, thread};

    use nix::{
        mount::mount,
        sched::{CloneFlags, unshare},
        sys::resource::{Resource, getrlimit, setrlimit},
    };
    use rustix::fs::statvfs;

    use super::{
        super::mounts::{propagate, scratch},
        *,
    };
    use crate::skip::lacks_root;

    /// Few enough to take them all, and more than other tests need.
    const FILES: u64 = 1 << 10;

    /// The flags of a mount that was made with these options, when it is mounted again.
    fn again(options: MsFlags, access: MsFlags) -> StatVfsMountFlags {
        let directory = tempfile::tempdir().unwrap();
        let [source, target] = ["source", "target"].map(|name| directory.path().join(name));
        let found = thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            propagate("/", MsFlags::MS_PRIVATE).unwrap();
            fs::create_dir(&source).unwrap();
            scratch(&source, "size=64k").unwrap();
            let (nowhere, change) = (None::<&str>, MsFlags::MS_REMOUNT | MsFlags::MS_BIND);
            mount(nowhere, &source, nowhere, change | options, nowhere).unwrap();
            Source::open(&source).unwrap().bind(&target, access).unwrap();
            statvfs(&target).unwrap().f_flag
        });
        found.join().unwrap()
    }

    #[test]
    fn only_a_path_that_nobody_named_may_be_gone() {
        let (name, tenant) = (PathBuf::from("/no/such/file"), Tenant::default());
        let path = |is_named| ReadPath {
            name: name.clone(),
            asked: name.clone(),
            real: name.clone(),
            is_named,
        };
        for is_named in [true, false] {
            let error = Part::named(&path(is_named), &tenant).err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        }
        assert!(Part::or_gone(&path(true), &tenant).is_err());
        assert!(matches!(Part::or_gone(&path(false), &tenant), Ok(Part::Gone)));
    }

    #[test]
    fn a_file_that_was_removed_is_not_mounted_and_leaves_no_empty_one() {
        if lacks_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let [real, target] = ["file", "target"].map(|name| directory.path().join(name));
        let named = ReadPath {
            name: real.clone(),
            asked: real.clone(),
            real: real.clone(),
            is_named: true,
        };
        let found = thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNS).unwrap();
            propagate("/", MsFlags::MS_PRIVATE).unwrap();
            let part = |path: &ReadPath| {
                fs::write(&real, "text").unwrap();
                let part = Part::or_gone(path, &Tenant::default()).unwrap();
                fs::remove_file(&real).unwrap();
                part.put(&target).map_err(|error| error.kind())
            };
            let spare = part(&ReadPath { is_named: false, ..named.clone() });
            (spare, target.exists(), part(&named))
        });
        let expected = (Ok(()), false, Err(io::ErrorKind::NotFound));
        assert_eq!(found.join().unwrap(), expected);
    }

    #[test]
    fn a_part_for_which_there_is_no_room_is_an_error() {
        if lacks_root() {
            return;
        }
        let part = |path| Part::of(Path::new(path)).map_err(|error| error.to_string());
        assert!(matches!(part("/no/such/file"), Ok(Part::Gone)));
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let without_room = move || {
            // Other tests keep their descriptors.
            unshare(CloneFlags::CLONE_FILES).unwrap();
            setrlimit(Resource::RLIMIT_NOFILE, soft.min(FILES), hard).unwrap();
            let taken: Vec<_> = iter::from_fn(|| File::open("/").ok()).collect();
            let found = part("/usr");
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
            drop(taken);
            found
        };
        let error = thread::spawn(without_room).join().unwrap().err().unwrap();
        assert!(error.starts_with("/usr: Too many open files"), "{error}");
    }

    #[test]
    fn a_mount_keeps_what_it_forbids() {
        use StatVfsMountFlags as Told;
        if lacks_root() {
            return;
        }
        let all = Told::NOEXEC | Told::RDONLY | Told::NOSUID | Told::NODEV | Told::NOATIME;
        let all = all | TOLD_NOSYMFOLLOW;
        let inert = Told::NOSUID | Told::NODEV;
        let none = MsFlags::empty();
        for (options, access, expected) in [
            (none, none, inert),
            (none, MsFlags::MS_RDONLY, inert | Told::RDONLY),
            (MsFlags::MS_NOEXEC, none, inert | Told::NOEXEC),
            (MsFlags::MS_NOEXEC, MsFlags::MS_RDONLY, inert | Told::NOEXEC | Told::RDONLY),
            (MsFlags::MS_RDONLY, none, inert | Told::RDONLY),
            (MsFlags::MS_NOATIME, none, inert | Told::NOATIME),
            (NOSYMFOLLOW, none, inert | TOLD_NOSYMFOLLOW),
        ] {
            assert_eq!(again(options, access) & all, expected, "{options:?} {access:?}");
        }
    }
}
