//! Writing an archive's entries to disk, as the tenant it came for.

use std::{
    fs::File,
    io::{Read, Write},
    os::{fd::BorrowedFd, unix::net::UnixStream},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::stat::Mode,
};
use thiserror::Error;

use super::{
    super::plan::{UnpackTask, Unpacked},
    REPOSITORY, Trouble, go_text, step,
    tree::{Real, Tree, directory_mode},
};
use crate::archive::{Entry, EntryPath, Kind, Reader, Sink};

/// Bytes read from the supervisor at a time.
const PIECE: usize = 64 * 1024;

/// Mode of files that do not keep their own: nothing is executable.
const FILE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR).union(Mode::S_IRGRP).union(Mode::S_IROTH);

/// Unpacks what arrives on `socket` into the workspace's repository.
pub(super) fn unpack(
    workspace: BorrowedFd<'_>,
    task: UnpackTask,
    socket: &mut UnixStream,
) -> Result<Unpacked, Trouble> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let root =
        openat(workspace, REPOSITORY, flags, Mode::empty()).map_err(step("open the repository"))?;
    let mut reader = Reader::new(Unpacker::new(Tree::new(root), task));
    let mut piece = vec![0; PIECE];
    loop {
        let length = socket.read(&mut piece).map_err(step("read the archive"))?;
        if length == 0 {
            break;
        }
        reader.push(piece.get(..length).unwrap_or_default()).map_err(refused)?;
    }
    reader.finish().map_err(refused)?.finish().map_err(refused)
}

fn refused(error: impl std::error::Error) -> Trouble {
    Trouble::Refused(error.to_string())
}

/// Why an entry is not written. The beginnings are Argo CD's.
#[derive(Debug, Error)]
enum NotWritten {
    #[error("illegal filepath in archive: {path}: it leads out of the repository")]
    Outside { path: String },
    #[error(
        "illegal filepath in symlink: {target}: the link {path} leads out of the repository, or to \
         its root; fix it, or exclude it with --plugin-tar-exclude on the repo-server"
    )]
    LinkOutside { path: String, target: String },
    #[error("error checking symlink realpath: {path}: {}", go_text(*errno))]
    Link { path: String, errno: Errno },
    #[error("error creating symlink: symlink {value} {path}: {}", go_text(*errno))]
    MakeLink { path: String, value: String, errno: Errno },
    #[error("error creating nested folders: mkdir {path}: {}", go_text(*errno))]
    MakeDirectory { path: String, errno: Errno },
    #[error("error creating file \"{path}\": open {path}: {}", go_text(*errno))]
    MakeFile { path: String, errno: Errno },
    #[error("error writing tgz file: write {path}: {error}")]
    Write { path: String, error: String },
    #[error(
        "the archive holds more than {limit} {what}: raise {flag}, or exclude files with \
         --plugin-tar-exclude on the repo-server"
    )]
    Limit { limit: u64, what: &'static str, flag: &'static str },
}

/// Takes the entries of an archive.
struct Unpacker {
    tree: Tree,
    task: UnpackTask,
    unpacked: Unpacked,
    file: Option<(File, String)>,
    /// Modes that would keep the tenant from filling its own directories.
    modes: Vec<(EntryPath, Mode)>,
}

impl Unpacker {
    fn new(tree: Tree, task: UnpackTask) -> Self {
        Self { tree, task, unpacked: Unpacked::default(), file: None, modes: Vec::new() }
    }

    /// Gives directories the modes that had to wait; the deepest first.
    fn finish(self) -> Result<Unpacked, NotWritten> {
        for (path, mode) in self.modes.iter().rev() {
            let errno = |errno| NotWritten::MakeDirectory { path: shown(path), errno };
            self.tree.permit(path, *mode).map_err(errno)?;
        }
        Ok(self.unpacked)
    }

    fn count(&mut self, entry: &Entry) -> Result<(), NotWritten> {
        self.unpacked.entries += 1;
        if self.unpacked.entries > self.task.max_entries {
            let (limit, flag) = (self.task.max_entries, "--max-files");
            return Err(NotWritten::Limit { limit, what: "files", flag });
        }
        if let Kind::File { size } = entry.kind {
            self.unpacked.bytes = self.unpacked.bytes.saturating_add(size);
        }
        if self.unpacked.bytes > self.task.max_bytes {
            let (limit, flag) = (self.task.max_bytes, "--max-unpacked-bytes");
            return Err(NotWritten::Limit { limit, what: "bytes", flag });
        }
        Ok(())
    }

    fn directory(&mut self, path: &EntryPath, preserved: Option<u32>) -> Result<(), NotWritten> {
        let mode = directory_mode(preserved);
        if !mode.contains(Mode::S_IRWXU) {
            self.modes.push((path.clone(), mode));
        }
        let errno = |errno| NotWritten::MakeDirectory { path: shown(path), errno };
        self.tree.directory(path, mode | Mode::S_IRWXU).map_err(errno)
    }

    fn file(&mut self, path: &EntryPath, preserved: Option<u32>) -> Result<(), NotWritten> {
        let mode = preserved.map_or(FILE, |bits| Mode::from_bits_truncate(bits & 0o777));
        let path_text = shown(path);
        let above = |errno| NotWritten::MakeDirectory { path: shown(&path.parent()), errno };
        let file = self.tree.create(path, mode).map_err(|errno| {
            let path = path_text.clone();
            match errno == Errno::EXDEV {
                true => NotWritten::Outside { path },
                // What is above is no directory.
                false if errno == Errno::ENOTDIR => above(errno),
                false => NotWritten::MakeFile { path, errno },
            }
        })?;
        self.file = Some((file, path_text));
        Ok(())
    }

    /// Argo CD resolves a link's target as far as it is there already, and
    /// stores the way to it. A target that is the root itself is refused.
    fn link(&self, path: &EntryPath, link: &[u8]) -> Result<(), NotWritten> {
        let outside = || NotWritten::LinkOutside {
            path: shown(path),
            target: String::from_utf8_lossy(link).into_owned(),
        };
        let failed = |errno| NotWritten::Link { path: shown(path), errno };
        let target = path.parent().join(link).map_err(|_escape| outside())?;
        let target = match self.tree.real(&target).map_err(failed)? {
            Real::Path(real) => real,
            Real::Missing => target,
            Real::Outside => return Err(outside()),
        };
        if target.is_root() {
            return Err(outside());
        }
        let parent = match self.tree.real(&path.parent()).map_err(failed)? {
            Real::Path(real) => real,
            Real::Missing | Real::Outside => path.parent(),
        };
        let value = target.relative_to(&parent);
        self.tree.link(path, &value).map_err(|errno| NotWritten::MakeLink {
            path: shown(path),
            value: value.display().to_string(),
            errno,
        })
    }
}

impl Sink for Unpacker {
    type Error = NotWritten;

    fn entry(&mut self, entry: &Entry) -> Result<(), NotWritten> {
        if matches!(entry.name.as_slice(), b"." | b"./") {
            return Ok(());
        }
        self.count(entry)?;
        let name = || String::from_utf8_lossy(&entry.name).into_owned();
        let path = EntryPath::new(&entry.name);
        let path = path.ok().filter(|path| !path.is_root());
        let path = path.ok_or_else(|| NotWritten::Outside { path: name() })?;
        let preserved = self.task.preserve_file_mode.then_some(entry.mode);
        match entry.kind {
            Kind::Directory => self.directory(&path, preserved),
            Kind::File { .. } => self.file(&path, preserved),
            Kind::Link => self.link(&path, &entry.link),
        }
    }

    fn data(&mut self, piece: &[u8]) -> Result<(), NotWritten> {
        let Some((file, path)) = &mut self.file else { return Ok(()) };
        file.write_all(piece)
            .map_err(|error| NotWritten::Write { path: path.clone(), error: error.to_string() })
    }

    fn end(&mut self) -> Result<(), NotWritten> {
        self.file = None;
        Ok(())
    }
}

fn shown(path: &EntryPath) -> String {
    path.as_path().display().to_string()
}
