//! A file that may hold a definition, and how it is opened.

use std::{
    fs::File,
    io::{self, Read},
    os::{fd::BorrowedFd, unix::fs::MetadataExt},
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat, openat2, statat},
    io::Errno,
    process::geteuid,
};
use thiserror::Error;

use crate::plugin::{Code, Diagnostic};

/// Largest definition in bytes: a ConfigMap as a whole holds no more.
const MAX_FILE: u64 = 1024 * 1024;

/// Permission bits of a mode.
const PERMISSIONS: u32 = 0o7777;

/// A file that may hold a definition.
#[derive(Debug)]
pub(crate) struct Source {
    /// Its path in the directory.
    pub(crate) name: String,
    /// Its content.
    pub(crate) text: Result<Vec<u8>, Unreadable>,
    /// How much of it counts.
    pub(super) extent: Extent,
}

/// How much of a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The first document, as argocd-cmp-server does.
    First,
    /// Every definition in it.
    All,
}

/// Why a file's text is not had.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// The operating system says no.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    /// Its mode says no.
    #[error(
        "cannot read it: its mode is {mode:04o}, its owner {owner}, and this runs as {user}: \
         leave out defaultMode, or set fsGroup"
    )]
    Denied {
        /// Permission bits.
        mode: u32,
        /// Whose it is.
        owner: u32,
        /// Who wants to read it.
        user: u32,
    },
    /// A link to somewhere else.
    #[error("a link that leads out of the plugins directory, or nowhere")]
    Link,
    /// A directory, a FIFO, a device.
    #[error("not a regular file")]
    Kind,
    /// Longer than a definition may be.
    #[error("larger than {MAX_FILE} bytes")]
    Large,
    /// The others have taken the room there is.
    #[error("all definitions together are larger than {MAX_ALL} bytes")]
    Full,
}

impl Unreadable {
    /// Stands for all that the file should hold.
    pub(crate) fn diagnostic(&self) -> Diagnostic {
        let code = match self {
            Self::Large | Self::Full => Code::TooLarge,
            Self::Io(_) | Self::Denied { .. } | Self::Link | Self::Kind => Code::Unreadable,
        };
        Diagnostic::new(code, self.to_string())
    }
}

/// Most bytes of all definitions: a projected volume joins several `ConfigMap`s.
pub(super) const MAX_ALL: u64 = 16 * 1024 * 1024;

/// Which links may be followed to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// None: behind the link of a ConfigMap volume there is none.
    None,
    /// Those that stay in the directory.
    Inside,
    /// All: the path is the operator's own.
    All,
}

impl Source {
    /// Reads a file of a directory; takes what it needs from `room`, in bytes.
    pub(super) fn of(at: BorrowedFd<'_>, name: String, links: Links, room: &mut u64) -> Self {
        let file = name.rsplit('/').next().unwrap_or(&name);
        let text = text(at, Path::new(file), links).and_then(|text| {
            let left = room.checked_sub(text.len() as u64).ok_or(Unreadable::Full)?;
            *room = left;
            Ok(text)
        });
        Self { name, text, extent: Extent::All }
    }

    /// Reads a file by itself, whose name is its path.
    pub(super) fn alone(path: &Path) -> Self {
        let text = text(CWD, path, Links::All);
        Self { name: path.display().to_string(), text, extent: Extent::First }
    }

    /// Whether there is no such file.
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
    // It may grow while it is read.
    file.take(MAX_FILE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_FILE { Err(Unreadable::Large) } else { Ok(text) }
}

/// Does not wait for somebody to write into a FIFO.
fn open(at: BorrowedFd<'_>, path: &Path, links: Links) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let without_links = || openat(at, path, flags | OFlags::NOFOLLOW, Mode::empty());
    let opened = match links {
        Links::None => without_links(),
        Links::All => openat(at, path, flags, Mode::empty()),
        Links::Inside => {
            let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            match openat2(at, path, flags, Mode::empty(), beneath) {
                // Kernels before 5.6 and some sandboxes have no such call.
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
        // The name was listed, so only what it leads to can be missing.
        Errno::NOENT if links != Links::All => Unreadable::Link,
        // What a socket and a device without a driver say.
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
