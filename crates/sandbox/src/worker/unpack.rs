//! Writes the entries of an archive to disk, running as the tenant.

mod fault;

use std::{
    cell::Cell,
    fs::File,
    io::Write,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    rc::Rc,
};

use cmp_archive::{
    Entry, EntryCounter, EntryKind, EntryPath, Reader, Refusal, Selected, Selection, Sink,
    UnpackLimits,
};
use cmp_go::errno_text;
use nix::{
    errno::Errno,
    fcntl::{OFlag, openat},
    sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat},
    unistd::{fchown, getegid},
};
use rustix::io::read;

use self::fault::{Full, refused};
use super::{
    JobError, REPOSITORY,
    last_part::SpaceWatch,
    step,
    tree::{NotMade, RepositoryTree, directory_mode},
};
use crate::wire::{
    last_part::LastPart,
    plan::{OPEN_REPOSITORY, UnpackResult, UnpackTask},
};

/// Bytes read from the pipe at a time. With less, a worker that reads a kept archive
/// and the supervisor would wait for each other more often.
const PIECE: usize = 256 * 1024;

/// Multiple at which a piece begins in memory. The C library places it 16 bytes behind
/// the beginning of a page, where AMD's processors take three times as long to copy
/// whole pages to.
const ALIGNMENT: usize = 4096;

/// Mode of files if modes are not preserved: not executable.
const FILE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR).union(Mode::S_IRGRP).union(Mode::S_IROTH);

/// Longest text about a link in bytes.
const MAX_NOTE: usize = 512;

/// Most bytes for directories whose modes are set at the end: about twenty
/// thousand. Few repositories have one.
const MAX_DEFERRED: usize = 2 << 20;

/// Bytes of a volume in memory that an entry takes besides its contents.
const ENTRY: u64 = 4 << 10;

/// Unpacks `archive` into the workspace's repository. `turn` is the file that came with the
/// plan for the last part of the volume.
pub(super) fn unpack(
    workspace: BorrowedFd<'_>,
    task: &UnpackTask,
    archive: impl AsFd,
    turn: Option<OwnedFd>,
) -> Result<UnpackResult, JobError> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let root =
        openat(workspace, REPOSITORY, flags, Mode::empty()).map_err(step(OPEN_REPOSITORY))?;
    let last_part = LastPart::received(task.last_part, turn).map_err(step("read the plan"))?;
    let space = SpaceWatch::new(workspace, last_part);
    let unpacker = Unpacker::new(RepositoryTree::new(root), task, space)?;
    let full = Rc::clone(&unpacker.full);
    let mut reader =
        if task.is_decompressed { Reader::decompressed(unpacker) } else { Reader::new(unpacker) };
    let mut memory = vec![0; ALIGNMENT + PIECE];
    let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    let piece = &mut memory[start..][..PIECE];
    loop {
        let length = read(&archive, &mut *piece).map_err(step("read the archive"))?;
        if length == 0 {
            break;
        }
        reader.push(&piece[..length]).map_err(|error| refused(error, full.get()))?;
    }
    let unpacker = reader.finish().map_err(|error| refused(error, full.get()))?;
    let result = unpacker.finish().map_err(|error| refused(error, full.get()))?;
    if task.is_shared {
        share(workspace).map_err(step("share the repository"))?;
    }
    Ok(result)
}

/// Lets the workspace's own group read the repository. No command of another request has
/// this group unless it may read the repository.
fn share(workspace: BorrowedFd<'_>) -> Result<(), Errno> {
    let read = Mode::S_IRGRP | Mode::S_IXGRP;
    // It was created with the group of the spawner.
    fchown(workspace, None, Some(getegid()))?;
    fchmodat(workspace, REPOSITORY, Mode::S_IRWXU | read, FchmodatFlags::FollowSymlink)?;
    fchmod(workspace, Mode::S_IRWXU | Mode::S_IXGRP)
}

/// Receives the entries of an archive.
struct Unpacker<'w> {
    tree: RepositoryTree,
    space: SpaceWatch<'w>,
    preserve_file_mode: bool,
    is_shared: bool,
    selection: Selection,
    left_out: u64,
    dangling: String,
    counter: EntryCounter,
    file: Option<(File, String)>,
    /// Modes to be set at the end, because they would prevent creating files
    /// inside.
    modes: Vec<(EntryPath, Mode)>,
    /// Bytes that these modes take.
    deferred: usize,
    /// The archive is not at fault.
    full: Rc<Cell<Option<Full>>>,
}

impl<'w> Unpacker<'w> {
    fn new(
        tree: RepositoryTree,
        task: &UnpackTask,
        space: SpaceWatch<'w>,
    ) -> Result<Self, JobError> {
        let limits = UnpackLimits {
            bytes: task.max_bytes,
            files: task.max_entries,
            is_volume: task.is_volume,
        };
        let selection = Selection::read(&task.include, &task.application, &task.root);
        let selection = selection.map_err(|error| JobError::Refused(error.to_string()))?;
        Ok(Self {
            tree,
            space,
            preserve_file_mode: task.preserve_file_mode,
            is_shared: task.is_shared,
            selection,
            left_out: 0,
            dangling: String::new(),
            counter: EntryCounter::new(limits),
            file: None,
            modes: Vec::new(),
            deferred: 0,
            full: Rc::default(),
        })
    }

    /// Counts an entry. Returns its path if it is to be created.
    fn place(&mut self, entry: &Entry) -> Result<Option<EntryPath>, Refusal> {
        if entry.is_root() {
            return self.counter.skip(entry).map(|()| None);
        }
        self.counter.count(entry)?;
        let is_ignored = matches!(entry.kind, EntryKind::Other { .. });
        let path = match EntryPath::new(&entry.name) {
            Ok(path) => path,
            Err(_escape) if is_ignored => return Ok(None),
            Err(_escape) => {
                let path = String::from_utf8_lossy(&entry.name).into_owned();
                return Err(Refusal::Outside { path });
            }
        };
        if !self.selection.takes(bytes(&path), entry.kind) {
            self.left_out += 1;
            return Self::check_left_out(&path, entry).map(|()| None);
        }
        Ok((!is_ignored).then_some(path))
    }

    /// Refuses what would be refused as part of any selection.
    fn check_left_out(path: &EntryPath, entry: &Entry) -> Result<(), Refusal> {
        if entry.kind == EntryKind::Link {
            link_target(path, &entry.link)?;
        }
        Ok(())
    }

    /// Remembers the first link to something that is left out.
    fn note_dangling(&mut self, path: &EntryPath, target: &EntryPath) {
        let is_out = || self.selection.decide(bytes(target)) == Selected::No;
        if self.dangling.is_empty() && is_out() {
            let mut text = format!("`{}` is a link to `{}`", shown(path), shown(target));
            text.truncate(text.floor_char_boundary(MAX_NOTE));
            self.dangling = text;
        }
    }

    /// Go's text for an error. Notes that the volume is full or fails.
    fn cause(&self, errno: Errno) -> String {
        if fault::is_of_volume(errno) {
            self.full.set(Some(Full::Entirely(errno)));
        }
        errno_text(errno as i32)
    }

    /// Waits, if need be, before so many bytes are written.
    fn wait_for_space(&mut self, bytes: u64) -> Result<(), Refusal> {
        self.space.write(bytes).map_err(|reason| {
            self.full.set(Some(Full::Almost(reason)));
            Refusal::Names { cause: "the volume is almost full".to_owned() }
        })
    }

    /// Sets the deferred modes, the deepest first.
    fn finish(self) -> Result<UnpackResult, Refusal> {
        for (path, mode) in self.modes.iter().rev() {
            let errno = |errno| Refusal::Directory { path: shown(path), cause: self.cause(errno) };
            self.tree.permit(path, *mode).map_err(errno)?;
        }
        let (entries, bytes) = (self.counter.files(), self.counter.bytes());
        Ok(UnpackResult { entries, bytes, left_out: self.left_out, dangling: self.dangling })
    }

    fn directory(&mut self, path: &EntryPath, preserved: Option<u32>) -> Result<(), Refusal> {
        let mode = self.mode(directory_mode(preserved));
        let is_new = self.tree.directory(path, mode | Mode::S_IRWXU).map_err(|error| {
            let (path, errno) = blamed(path, error);
            Refusal::Directory { path, cause: self.cause(errno) }
        })?;
        self.counter.check_implied(self.tree.implied())?;
        if is_new && !mode.contains(Mode::S_IRWXU) {
            // The umask would remove these bits.
            self.defer(path, mode - Mode::S_IWGRP - Mode::S_IWOTH)?;
        }
        Ok(())
    }

    /// The mode of a file that has this one in the archive.
    fn mode(&self, archived: Mode) -> Mode {
        if self.is_shared { readable_as_by_owner(archived) } else { archived }
    }

    fn defer(&mut self, path: &EntryPath, mode: Mode) -> Result<(), Refusal> {
        self.deferred += path.as_path().as_os_str().len() + size_of::<(EntryPath, Mode)>();
        if self.deferred > MAX_DEFERRED {
            let cause =
                format!("directories closed to their owner take more than {MAX_DEFERRED} bytes");
            return Err(Refusal::Names { cause });
        }
        self.modes.push((path.clone(), mode));
        Ok(())
    }

    fn file(&mut self, path: &EntryPath, preserved: Option<u32>) -> Result<(), Refusal> {
        let mode = preserved.map_or(FILE, |bits| Mode::from_bits_truncate(bits & 0o777));
        let mode = self.mode(mode);
        let path_text = shown(path);
        let file = self.tree.create(path, mode).map_err(|error| {
            let (path, errno) = blamed(path, error);
            match error {
                NotMade::Itself(Errno::EXDEV) => Refusal::Outside { path },
                NotMade::Itself(_) => Refusal::File { path, cause: self.cause(errno) },
                NotMade::Above(_) => Refusal::Directory { path, cause: self.cause(errno) },
            }
        })?;
        self.counter.check_implied(self.tree.implied())?;
        self.file = Some((file, path_text));
        Ok(())
    }

    /// Creates a link. Like Argo CD, refuses one whose target cannot be examined, and
    /// stores the relative path to the target by its text alone.
    fn link(&mut self, path: &EntryPath, link: &[u8]) -> Result<(), Refusal> {
        let target = link_target(path, link)?;
        let above = self.tree.above_link(path).map_err(|errno| {
            if errno == Errno::ELOOP {
                return Refusal::LinkBelowLink { path: shown(path) };
            }
            Refusal::Directory { path: shown(&path.parent()), cause: self.cause(errno) }
        })?;
        self.counter.check_implied(self.tree.implied())?;
        match self.tree.has(&target) {
            Ok(true) => {}
            Ok(false) => self.note_dangling(path, &target),
            Err(errno) => {
                let cause = errno_text(errno as i32);
                let target = shown(&target);
                return Err(Refusal::LinkTarget { path: shown(path), target, cause });
            }
        }
        let value = target.relative_to(&path.parent());
        RepositoryTree::link(&above, path, &value).map_err(|errno| Refusal::Link {
            path: shown(path),
            target: value.display().to_string(),
            cause: self.cause(errno),
        })
    }
}

impl Sink for Unpacker<'_> {
    type Error = Refusal;

    fn entry(&mut self, entry: &Entry) -> Result<(), Refusal> {
        let Some(path) = self.place(entry)? else { return Ok(()) };
        self.wait_for_space(ENTRY)?;
        let preserved = self.preserve_file_mode.then_some(entry.mode);
        match entry.kind {
            EntryKind::Directory => self.directory(&path, preserved),
            EntryKind::File { .. } => self.file(&path, preserved),
            EntryKind::Link => self.link(&path, &entry.link),
            EntryKind::Other { .. } => Ok(()),
        }
    }

    fn data(&mut self, piece: &[u8]) -> Result<(), Refusal> {
        if self.file.is_some() {
            self.wait_for_space(piece.len() as u64)?;
        }
        let Some((file, path)) = &mut self.file else { return Ok(()) };
        let Err(error) = file.write_all(piece) else { return Ok(()) };
        let path = path.clone();
        let errno = error.raw_os_error().map(Errno::from_raw);
        let cause = errno.map_or_else(|| error.to_string(), |errno| self.cause(errno));
        Err(Refusal::Contents { path, cause })
    }

    fn end(&mut self) -> Result<(), Refusal> {
        self.file = None;
        Ok(())
    }

    fn extension(&mut self, size: u64) -> Result<(), Refusal> {
        self.counter.count_dropped(size)
    }
}

/// The mode with which the group may do what the owner may, but nothing else than
/// read and execute.
fn readable_as_by_owner(mode: Mode) -> Mode {
    let owner = mode.bits() & (Mode::S_IRUSR | Mode::S_IXUSR).bits();
    Mode::from_bits_truncate(mode.bits() & !0o077 | owner >> 3)
}

/// The target of a link by its text alone.
fn link_target(path: &EntryPath, link: &[u8]) -> Result<EntryPath, Refusal> {
    path.parent().join(link).map_err(|_escape| outside(path, link))
}

fn outside(path: &EntryPath, link: &[u8]) -> Refusal {
    let target = String::from_utf8_lossy(link).into_owned();
    Refusal::LinkOutside { path: shown(path), target }
}

/// Returns the path that failed, and the error.
fn blamed(path: &EntryPath, error: NotMade) -> (String, Errno) {
    match error {
        NotMade::Above(errno) => (shown(&path.parent()), errno),
        NotMade::Itself(errno) => (shown(path), errno),
    }
}

fn bytes(path: &EntryPath) -> &[u8] {
    path.as_path().as_os_str().as_bytes()
}

fn shown(path: &EntryPath) -> String {
    path.as_path().display().to_string()
}

#[cfg(test)]
mod agreement;
