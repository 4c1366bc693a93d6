//! Opens and reads a file that may contain definitions.

use std::{
    fs::File,
    io::{self, Read},
    os::{fd::BorrowedFd, unix::fs::MetadataExt},
    path::Path,
};

use cmp_sandbox::until_not_again;
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat, openat2, statat},
    io::Errno,
    process::geteuid,
};
use thiserror::Error;

use crate::plugin::{Code, Diagnostic};

/// Largest file in bytes: the size limit of a ConfigMap.
pub(crate) const MAX_FILE: u64 = 1024 * 1024;

/// Permission bits of a mode.
const PERMISSIONS: u32 = 0o7777;

/// A file that may contain definitions.
#[derive(Debug)]
pub(crate) struct Source {
    /// Its path in the directory.
    pub(crate) name: String,
    /// Its content.
    pub(crate) text: Result<Vec<u8>, Unreadable>,
    /// The part of the content that is used.
    pub(super) extent: Extent,
}

/// The part of a file that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The first document, as in argocd-cmp-server.
    First,
    /// All documents.
    All,
}

/// A file could not be read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The operating system refused.
    #[error("cannot read the file: {0}")]
    Io(#[from] io::Error),
    /// Its mode denies access.
    #[error(
        "cannot read the file: its mode is {mode:04o}, its owner is uid {owner}, and this \
         process runs as uid {user}: remove defaultMode from the volume, or set it to 0444"
    )]
    Denied {
        /// Permission bits.
        mode: u32,
        /// UID of the owner.
        owner: u32,
        /// UID of this process.
        user: u32,
    },
    /// A link that leaves the directory or has no target.
    #[error("the link leads out of the plugins directory, or its target does not exist")]
    Link,
    /// A directory, FIFO, socket or device.
    #[error("not a regular file")]
    Kind,
    /// Larger than `MAX_FILE`.
    #[error("larger than {MAX_FILE} bytes")]
    Large,
    /// All files together are larger than `MAX_ALL`.
    #[error("all definitions together are larger than {MAX_ALL} bytes")]
    Full,
}

impl Unreadable {
    /// The diagnostic for the whole file.
    pub(crate) fn diagnostic(&self) -> Diagnostic {
        let code = match self {
            Self::Large | Self::Full => Code::TooLarge,
            Self::Io(_) | Self::Denied { .. } | Self::Link | Self::Kind => Code::Unreadable,
        };
        Diagnostic::new(code, self.to_string())
    }
}

/// Most bytes of all files together. A projected volume can join several
/// `ConfigMap`s.
pub(super) const MAX_ALL: u64 = 16 * 1024 * 1024;

/// Links that are followed to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// No links. A ConfigMap volume has none below its `..data`.
    None,
    /// Links that stay inside the directory.
    Inside,
    /// All links, for a path that the operator chose.
    All,
}

impl Source {
    /// Reads a file of a directory. Subtracts its size from `room`, in bytes.
    pub(super) fn of(at: BorrowedFd<'_>, name: String, links: Links, room: &mut u64) -> Self {
        let file = name.rsplit('/').next().unwrap_or(&name);
        let text = text(at, Path::new(file), links).and_then(|text| {
            let left = room.checked_sub(text.len() as u64).ok_or(Unreadable::Full)?;
            *room = left;
            Ok(text)
        });
        Self { name, text, extent: Extent::All }
    }

    /// Reads a single file. Its name is its path.
    pub(super) fn alone(path: &Path) -> Self {
        let text = text(CWD, path, Links::All);
        Self { name: path.display().to_string(), text, extent: Extent::First }
    }

    /// True if the file does not exist.
    pub(super) fn is_missing(&self) -> bool {
        matches!(&self.text, Err(Unreadable::Io(error)) if error.kind() == io::ErrorKind::NotFound)
    }
}

fn text(at: BorrowedFd<'_>, path: &Path, links: Links) -> Result<Vec<u8>, Unreadable> {
    let file = open(at, path, links).map_err(|error| explain(at, path, links, error))?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(Unreadable::Kind);
    }
    if about.size() > MAX_FILE {
        return Err(Unreadable::Large);
    }
    let mut text = Vec::new();
    // The file may grow while it is read.
    file.take(MAX_FILE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE { Err(Unreadable::Large) } else { Ok(text) }
}

/// Opens a file. `NONBLOCK` prevents waiting for a writer of a FIFO.
fn open(at: BorrowedFd<'_>, path: &Path, links: Links) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let without_links = || openat(at, path, flags | OFlags::NOFOLLOW, Mode::empty());
    let opened = match links {
        Links::None => without_links(),
        Links::All => openat(at, path, flags, Mode::empty()),
        Links::Inside => {
            let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            match until_not_again(Errno::AGAIN, || openat2(at, path, flags, Mode::empty(), beneath))
            {
                // Kernels before 5.6 and some sandboxes do not have this call.
                Err(Errno::NOSYS | Errno::PERM) => without_links(),
                opened => opened,
            }
        }
    };
    opened.map(File::from)
}

fn explain(at: BorrowedFd<'_>, path: &Path, links: Links, error: Errno) -> Unreadable {
    match error {
        Errno::LOOP | Errno::XDEV => Unreadable::Link,
        // The name was listed, so only the target of a link can be missing.
        Errno::NOENT if links != Links::All => Unreadable::Link,
        // The errors of opening a socket, or a device without a driver.
        Errno::NXIO | Errno::NODEV => Unreadable::Kind,
        Errno::ACCESS => statat(at, path, AtFlags::empty()).map_or_else(
            |_hidden| Unreadable::Io(error.into()),
            |about| Unreadable::Denied {
                mode: about.st_mode & PERMISSIONS,
                owner: about.st_uid,
                user: geteuid().as_raw(),
            },
        ),
        error => Unreadable::Io(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::{fd::AsFd, unix::fs::symlink},
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use super::*;

    #[test]
    fn a_link_with_dots_is_read_while_files_elsewhere_are_renamed() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("d")).unwrap();
        fs::write(at("real"), "text").unwrap();
        fs::write(at("x"), "").unwrap();
        symlink("d/../d/../real", at("link.yaml")).unwrap();
        let directory = File::open(root.path()).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    fs::rename(at("x"), at("y"))
                        .and_then(|()| fs::rename(at("y"), at("x")))
                        .unwrap();
                }
            });
            let read = (0..20_000).try_for_each(|_| {
                text(directory.as_fd(), Path::new("link.yaml"), Links::Inside).map(drop)
            });
            done.store(true, Ordering::Relaxed);
            read.unwrap();
        });
    }
}
