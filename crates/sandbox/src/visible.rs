//! Looks at paths that a command has named. The supervisor has rights that commands lack, so it
//! looks only where everybody may: a hint then tells a command nothing new.

use std::{
    ffi::OsStr,
    fmt,
    fs::File,
    ops::Deref,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, RawMode, Stat, fstat, openat, readlinkat},
    io::Errno,
};

use crate::kernel::policy::KERNEL;

/// The only directory of these file systems that holds files.
const SHARED_MEMORY: &str = "/dev/shm";

/// Most links that are followed.
const MAX_LINKS: usize = 8;

/// Bits of a mode that let everybody read a file, and enter a directory.
const READABLE: RawMode = 0o004;
const ENTERABLE: RawMode = 0o001;

/// An absolute path without `..`, which would lead from an open directory to a closed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanPath(PathBuf);

impl CleanPath {
    /// Removes `.`, `..` and repeated slashes. `None` for a relative path. This does not access
    /// the path.
    #[must_use]
    pub fn new(path: &Path) -> Option<Self> {
        let mut clean = PathBuf::new();
        for component in path.components() {
            if component == Component::ParentDir {
                clean.pop();
            } else {
                clean.push(component);
            }
        }
        clean.is_absolute().then_some(Self(clean))
    }
}

impl Deref for CleanPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for CleanPath {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(text)
    }
}

/// The result of a look at a path.
#[derive(Debug)]
pub enum Sight {
    /// Something is there.
    Found(Place),
    /// Nothing is there.
    Absent,
    /// A link, or the path itself, leads to this path, at which nobody looked.
    Beyond(CleanPath),
    /// Not everybody may look there, or nobody.
    Unseen,
}

/// A file or directory that everybody can see.
#[derive(Debug)]
pub struct Place {
    path: CleanPath,
    directory: OwnedFd,
}

impl Place {
    /// The path without links.
    #[must_use]
    pub fn path(&self) -> &CleanPath {
        &self.path
    }

    /// Opens a regular file that everybody may read.
    #[must_use]
    pub fn open(&self) -> Option<File> {
        let name = self.path.file_name()?;
        let is_readable = |about: Stat| is_file(&about) && about.st_mode & READABLE != 0;
        // Opening a device or a FIFO can have an effect.
        open(&self.directory, name, OFlags::PATH).ok().filter(|(_, about)| is_readable(*about))?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let (file, about) = open(&self.directory, name, flags).ok()?;
        is_readable(about).then(|| file.into())
    }
}

/// The end of a walk.
enum End {
    Place(Place),
    Link(CleanPath),
}

/// Looks at a path. Links are followed one by one, each only to a path for which `may_look` is
/// true.
pub fn look(path: &CleanPath, may_look: impl Fn(&Path) -> bool) -> Sight {
    let mut path = path.clone();
    for _ in 0..=MAX_LINKS {
        if !may_look(&path) {
            return Sight::Beyond(path);
        }
        match walk(&path) {
            Ok(End::Place(place)) => return Sight::Found(place),
            Ok(End::Link(target)) => path = target,
            Err(Errno::NOENT) => return Sight::Absent,
            Err(_) => return Sight::Unseen,
        }
    }
    Sight::Unseen
}

/// Opens one directory after the other, so that none can be replaced by a link meanwhile, until
/// the end of the path or the first link.
fn walk(path: &CleanPath) -> Result<End, Errno> {
    let (mut directory, mut about) = open(CWD, OsStr::new("/"), OFlags::PATH)?;
    let mut real = PathBuf::from("/");
    let mut names = path.components();
    names.next();
    while let Some(name) = names.next() {
        real.push(name);
        if about.st_mode & ENTERABLE == 0 || is_of_kernel(&real) {
            return Err(Errno::ACCESS);
        }
        let (opened, seen) = open(&directory, name.as_os_str(), OFlags::PATH)?;
        if kind(&seen) == FileType::Symlink {
            let target = readlinkat(&opened, "", Vec::new())?;
            let target = Path::new(OsStr::from_bytes(target.to_bytes()));
            real.pop();
            let target = CleanPath::new(&real.join(target).join(names.as_path()));
            return target.map(End::Link).ok_or(Errno::ACCESS);
        }
        if names.as_path().as_os_str().is_empty() {
            break;
        }
        (directory, about) = (opened, seen);
    }
    Ok(End::Place(Place { path: path.clone(), directory }))
}

fn open(at: impl std::os::fd::AsFd, name: &OsStr, flags: OFlags) -> Result<(OwnedFd, Stat), Errno> {
    let opened = openat(at, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let about = fstat(&opened)?;
    Ok((opened, about))
}

fn kind(about: &Stat) -> FileType {
    FileType::from_raw_mode(about.st_mode)
}

fn is_file(about: &Stat) -> bool {
    kind(about) == FileType::RegularFile
}

/// True for what the kernel shows: links there tell about other processes.
fn is_of_kernel(path: &Path) -> bool {
    let shared = Path::new(SHARED_MEMORY);
    KERNEL.iter().any(|kernel| path.starts_with(kernel))
        && !path.starts_with(shared)
        && !shared.starts_with(path)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions, set_permissions},
        os::unix::fs::{PermissionsExt, symlink},
    };

    use tempfile::TempDir;

    use super::*;

    /// A directory that everybody may enter.
    fn public() -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        directory
    }

    fn clean(path: &Path) -> CleanPath {
        CleanPath::new(path).unwrap()
    }

    /// The result of a look in words.
    fn seen(path: &Path) -> String {
        match look(&clean(path), |path| !path.ends_with("closed/file")) {
            Sight::Found(place) => format!("found {}", place.path()),
            Sight::Beyond(path) => format!("beyond {path}"),
            Sight::Absent => "absent".to_owned(),
            Sight::Unseen => "unseen".to_owned(),
        }
    }

    #[test]
    fn a_path_is_clean_before_anybody_looks_at_it() {
        for (path, expected) in [
            ("/usr/bin/../../mnt/key", Some("/mnt/key")),
            ("/../usr//./bin/", Some("/usr/bin")),
            ("/usr/../..", Some("/")),
            ("usr/bin", None),
            ("", None),
        ] {
            let clean = CleanPath::new(Path::new(path));
            assert_eq!(clean.map(|path| path.to_string()).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn links_are_followed_where_everybody_may_look() {
        let directory = public();
        let top = directory.path().canonicalize().unwrap();
        let at = |name: &str| top.join(name);
        fs::create_dir(at("closed")).unwrap();
        fs::write(at("closed/other"), "").unwrap();
        fs::write(at("file"), "").unwrap();
        for (name, target) in [
            ("link", "./file"),
            ("loop", "loop"),
            ("up", "../"),
            ("out", "closed/file"),
            ("in", "closed/other"),
            ("dangling", "nothing"),
            ("self", "/proc/self/exe"),
        ] {
            symlink(target, at(name)).unwrap();
        }
        set_permissions(at("closed"), Permissions::from_mode(0o700)).unwrap();
        let found = format!("found {}", at("file").display());
        let beyond = format!("beyond {}", at("closed/file").display());
        let through = format!("up/{}/link", top.file_name().unwrap().display());
        for (name, expected) in [
            ("file", &*found),
            ("link", &found),
            (&through, &found),
            ("out", &beyond),
            ("in", "unseen"),
            ("closed/other", "unseen"),
            ("closed/nothing", "unseen"),
            ("loop", "unseen"),
            ("self", "unseen"),
            ("file/below", "unseen"),
            ("dangling", "absent"),
            ("nothing/below", "absent"),
        ] {
            assert_eq!(seen(&at(name)), expected, "{name}");
        }
    }

    #[test]
    fn nobody_looks_at_what_the_kernel_shows() {
        for path in ["/proc/self/fd/0", "/proc/1", "/sys/kernel", "/dev/null", "/dev", "/"] {
            let is_around = matches!(path, "/dev" | "/");
            let expected = if is_around { format!("found {path}") } else { "unseen".to_owned() };
            assert_eq!(seen(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn only_a_regular_file_that_everybody_may_read_is_opened() {
        let directory = public();
        let top = directory.path().canonicalize().unwrap();
        let file = top.join("file");
        fs::write(&file, "").unwrap();
        let Sight::Found(place) = look(&clean(&file), |_| true) else { panic!("it is there") };
        for (mode, is_opened) in [(0o640, false), (0o644, true)] {
            set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert_eq!(place.open().is_some(), is_opened, "{mode:o}");
        }
        fs::remove_file(&file).unwrap();
        symlink("/etc/passwd", &file).unwrap();
        assert!(place.open().is_none(), "it was replaced by a link");
    }
}
