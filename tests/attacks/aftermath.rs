//! Compares the state of the machine after an attack with the state before it.

use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    ops::RangeInclusive,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime},
};

use crate::{
    arena::is_ours,
    attack::{Attack, Staging},
    helper,
    payload::{DROPPED, EVIL, SHARED, SYSTEM},
    processes::{self, Owner, Process},
    raw,
    targets::Targets,
    waiting::until,
};

/// Longest wait until all traces of an ended request are gone. What is left behind stays;
/// the rest takes long where builds use the processors and the disk.
const PATIENCE: Duration = Duration::from_secs(30);

/// Extra time for a command that ignores SIGTERM at its deadline: as in Argo CD,
/// SIGKILL follows after this grace period.
const GRACE: Duration = Duration::from_secs(5);

/// Looks at the processes, and the time between them: those that measure a request's use
/// of resources live shorter than all looks take, also on a busy machine.
const LOOKS: u32 = 30;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Kinds of IPC objects, which outlive processes. The number is the column of the
/// owner's UID in `/proc/sysvipc/KIND`.
const LASTING: [(&str, usize); 3] = [("shm", 7), ("sem", 4), ("msg", 7)];

/// The state before any attack.
pub(crate) struct Before {
    uids: RangeInclusive<u32>,
    processes: BTreeSet<Process>,
    files: BTreeSet<File>,
}

/// The attributes of a file that an attack must not change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct File {
    path: PathBuf,
    inode: u64,
    mode: u32,
    owner: u32,
    /// `None` for directories: theirs also changes when an unrelated entry is
    /// created or removed.
    modified: Option<SystemTime>,
    attributes: Vec<u8>,
    content: Vec<u8>,
}

impl Before {
    pub(crate) fn look(targets: &Targets, uids: RangeInclusive<u32>) -> Self {
        Self { processes: processes_of(&uids, targets), files: files(targets), uids }
    }

    /// Drops the processes that measure the victim, because they start and end all
    /// the time, and the files of the trial of the sandbox, if it is not over yet.
    pub(crate) fn without_short_lived(mut self, targets: &Targets) -> Self {
        for _ in 0..LOOKS {
            thread::sleep(BETWEEN_LOOKS);
            let now = processes_of(&self.uids, targets);
            self.processes.retain(|process| now.contains(process));
            let now = files(targets);
            self.files.retain(|file| now.contains(file));
        }
        self
    }

    /// Waits until everything is as before. The error lists the differences that
    /// remain. An attack that kills may not have replaced the cleaner either.
    pub(crate) fn compare(&mut self, targets: &Targets, attack: &Attack) -> Result<(), String> {
        let grace = if attack.staging == Staging::CutOff { GRACE } else { Duration::ZERO };
        let mut different = None;
        until(PATIENCE + grace, || {
            different = self.difference(targets);
            if different.is_some() && !attack.kills() {
                self.accept_cleaner(targets);
            }
            different.is_none()
        });
        different.map_or(Ok(()), Err)
    }

    /// Compares with the cleaner of now if it has the same UID and priority: the spawner
    /// replaces one that does not answer for some seconds.
    pub(crate) fn accept_cleaner(&mut self, targets: &Targets) {
        let is_cleaner = |process: &Process| process.is_cleaner(targets.spawner);
        let was = self.processes.iter().find(|process| is_cleaner(process)).cloned();
        let now = processes_of(&self.uids, targets).into_iter().find(is_cleaner);
        if let Some((was, now)) = was.zip(now)
            && (was.uid, was.nice) == (now.uid, now.nice)
        {
            self.processes.remove(&was);
            self.processes.insert(now);
        }
    }

    /// Lists every difference to the state before.
    pub(crate) fn difference(&self, targets: &Targets) -> Option<String> {
        let mut all = Vec::new();
        let processes = processes_of(&self.uids, targets);
        if processes != self.processes {
            let left: Vec<_> = processes.difference(&self.processes).collect();
            let killed: Vec<_> = self.processes.difference(&processes).collect();
            all.push(format!("processes left: {left:?}, killed: {killed:?}"));
        }
        let ill = self.processes.intersection(&processes).find(|process| !process.is_well());
        all.extend(ill.map(|ill| format!("stopped: {ill:?}")));
        let files = files(targets);
        if files != self.files {
            let left: Vec<_> = files.difference(&self.files).collect();
            let gone: Vec<_> = self.files.difference(&files).collect();
            all.push(format!("files left or changed: {left:?}, were: {gone:?}"));
        }
        all.extend(self.dropped().map(|path| format!("dropped: {}", path.display())));
        all.extend(self.lasting().into_iter().map(|(kind, line)| format!("{kind} left: {line}")));
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn dropped(&self) -> impl Iterator<Item = PathBuf> {
        let entries = SHARED.iter().filter_map(|path| fs::read_dir(path).ok()).flatten().flatten();
        let is_owned = |entry: &fs::DirEntry| {
            entry.metadata().is_ok_and(|about| is_ours(&self.uids, about.uid()))
        };
        let shared = entries.filter(is_owned).map(|entry| entry.path());
        let system = SYSTEM.iter().map(|path| Path::new(path).join(DROPPED));
        // Control runs, which have other UIDs, may leave theirs at the same time.
        let is_own_or_root = |path: &PathBuf| {
            let owner = path.symlink_metadata().map(|about| about.uid());
            owner.is_ok_and(|uid| is_ours(&self.uids, uid) || uid == 0)
        };
        shared.chain(system.filter(is_own_or_root))
    }

    /// IPC objects that our UIDs own: kind, and line in the kernel's table.
    fn lasting(&self) -> Vec<(&'static str, String)> {
        let left = |(kind, column): &(&'static str, usize)| {
            let table = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
            let owner = |line: &str| line.split_whitespace().nth(*column)?.parse().ok();
            let is_left = |line: &&str| owner(line).is_some_and(|uid| is_ours(&self.uids, uid));
            table.lines().filter(is_left).map(|line| (*kind, line.to_owned())).collect::<Vec<_>>()
        };
        LASTING.iter().flat_map(left).collect()
    }

    /// Undoes the changes that a residual attack is able to make, so that the next
    /// attack finds the state from before.
    pub(crate) fn restore(&self, targets: &Targets) {
        for path in [treasure(targets), targets.own_secret.clone()] {
            let was = self.files.iter().find(|file| file.path == path);
            if let Some(was) = was {
                was.restore();
            }
        }
        let entries = [&targets.open_dir, &targets.socket_dir, &targets.root].map(fs::read_dir);
        let entries = entries.into_iter().flatten().flatten().flatten().map(|entry| entry.path());
        let is_new = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(DROPPED))
        };
        entries.filter(is_new).for_each(|path| remove(&path));
        self.sweep();
    }

    /// Removes files that an attack left in directories of the machine, and its IPC
    /// objects.
    pub(crate) fn sweep(&self) {
        self.dropped().for_each(|path| remove(&path));
        for (kind, line) in self.lasting() {
            let id = line.split_whitespace().nth(1).and_then(|id| id.parse().ok());
            raw::remove_object(kind, id.expect("an object's number"));
        }
    }
}

fn remove(path: &Path) {
    let removed = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
    removed.expect("a removed file");
}

fn processes_of(uids: &RangeInclusive<u32>, targets: &Targets) -> BTreeSet<Process> {
    let own = [targets.supervisor, targets.spawner, targets.victim];
    let is_own = |Owner { pid, parent, uid }| {
        is_ours(uids, uid) || own.contains(&pid) || own[..2].contains(&parent)
    };
    let found = processes::all_where(is_own).into_iter();
    found.filter(|process| !process.is_on_standby(targets.spawner)).collect()
}

fn treasure(targets: &Targets) -> PathBuf {
    targets.victim_workspace.join("repo").join(helper::TREASURE)
}

fn is_dropped(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with(DROPPED)
}

/// Everything that an attack could have changed.
fn files(targets: &Targets) -> BTreeSet<File> {
    let listed = [&targets.root, &targets.plugins_dir, &targets.socket_dir, &targets.open_dir];
    let repository = targets.victim_workspace.join("repo");
    let listed = listed.into_iter().chain([&repository]);
    let entries = listed.filter_map(|path| fs::read_dir(path).ok()).flatten().flatten();
    // The directory of bundles gets one for each attack that fails.
    let dropped = targets.bundle.parent().and_then(|path| fs::read_dir(path).ok());
    let dropped = dropped.into_iter().flatten().flatten().filter(is_dropped);
    let entries = entries.chain(dropped);
    let secrets =
        [&targets.bundle, &targets.root_secret, &targets.own_secret, &targets.world_secret];
    let paths = entries.map(|entry| entry.path()).chain(secrets.into_iter().cloned());
    // Skip files that are already gone: the trial of the sandbox creates and removes
    // its own.
    paths.filter_map(|path| File::of(&path)).collect()
}

impl File {
    fn of(path: &Path) -> Option<Self> {
        let about = fs::symlink_metadata(path).ok()?;
        let content = if about.is_file() { fs::read(path).ok()? } else { Vec::new() };
        Some(Self {
            path: path.to_owned(),
            inode: about.ino(),
            mode: about.mode(),
            owner: about.uid(),
            modified: about.modified().ok().filter(|_| about.is_file()),
            attributes: raw::attributes(path),
            content,
        })
    }

    /// Restores the mode, modification time and attributes of a file.
    fn restore(&self) {
        fs::set_permissions(&self.path, Permissions::from_mode(self.mode)).expect("a mode");
        if raw::attributes(&self.path) != self.attributes {
            raw::remove_attribute(&self.path, EVIL);
        }
        let file = fs::File::options().write(true).open(&self.path).expect("a file");
        let modified = self.modified.expect("a file's time");
        file.set_modified(modified).expect("a time");
    }
}
