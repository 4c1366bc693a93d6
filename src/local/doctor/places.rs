//! Checks the directories of `serve`.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{self, Path, PathBuf},
};

use cmp_sandbox::Tier;
use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};

use super::{Check, answer::checks};
use crate::{
    agent_sockets,
    budget::Budget,
    config::Serve,
    container::Volume,
    grpc::{check_length, directory_remedy},
    loader::{Snapshot, static_mounts},
    volume::{ENLARGE, LOWER, Space, noexec},
};

const MIB: u64 = 1 << 20;

/// Permission bits of a mode for others.
const READ: u32 = 0o4;
const ENTER: u32 = 0o1;
const WRITE: u32 = 0o2;

/// Looks at the directories of a container with this memory and isolation.
pub(super) async fn look(options: &Serve, budget: &Budget, memory: u64, tier: Tier) -> Vec<Check> {
    let (uid, budget) = (options.run_as_uid, budget.clone());
    let mut checks = Vec::new();
    let places = options.places();
    if let Some(directory) = places.directory.clone() {
        checks.extend(at("definitions", directory, move |path| plugins(path, uid)).await);
    }
    if let Some(file) = places.single.clone() {
        checks.extend(at("definitions", file, move |path| plugins(path, uid)).await);
    }
    // If mountinfo cannot be read, this check is skipped.
    let mounts = static_mounts(&places).unwrap_or_default();
    checks.extend(mounts.iter().map(|mount| Check::warning(mount.to_string())));
    let look = move |path: &Path| vec![sockets(path, uid)];
    checks.extend(at("sockets", options.socket_dir(), look).await);
    checks.extend(at("work", options.work_dir(), move |path| work(path, &budget, memory)).await);
    let long = agent_sockets::warning(&options.work_dir(), tier);
    checks.extend(
        long.map(|long| Check::warning(format!("work: {long}")).remedy("set a shorter --work-dir")),
    );
    for path in options.read.clone() {
        checks.extend(at("read", path, |path| read(path).into_iter().collect()).await);
    }
    checks
}

/// Looks at a path, which may not answer.
async fn at(
    what: &str,
    path: PathBuf,
    look: impl FnOnce(&Path) -> Vec<Check> + Send + 'static,
) -> Vec<Check> {
    checks(format!("{what}: {}", path.display()), move || look(&path)).await
}

fn plugins(path: &Path, uid: u32) -> Vec<Check> {
    let shown = path.display();
    let remedy = "set defaultMode: 0444 for the volume, or set --run-as-uid";
    let closed = |path: &Path| {
        let text = format!("definitions: {} cannot be read by UID {uid}", path.display());
        Check::failure(text).remedy(remedy)
    };
    let needed = |about: &Metadata| if about.is_dir() { READ | ENTER } else { READ };
    match fs::metadata(path) {
        Ok(about) if !may(path, &about, uid, needed(&about)) => vec![closed(path)],
        Ok(_) => {
            let open = Check::fine(format!("definitions: {shown} can be read"));
            [open]
                .into_iter()
                .chain(unreadable(path, uid).iter().map(|file| closed(file)))
                .collect()
        }
        // The checks of the plugins tell this, unless another place makes up for it.
        Err(_) => Vec::new(),
    }
}

/// Definitions that this process can read and `uid` cannot.
fn unreadable(directory: &Path, uid: u32) -> Vec<PathBuf> {
    let files = Snapshot::read(directory).unwrap_or_default().files;
    let paths = files.into_iter().filter(|f| f.text.is_ok()).map(|f| directory.join(f.name));
    let is_closed =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|about| !may(path, &about, uid, READ));
    paths.filter(is_closed).collect()
}

/// The reason why nothing can be created in a directory whose mount, or the one it would be
/// created on, is read-only. Modes do not show this.
fn read_only(path: &Path) -> Option<String> {
    let (shown, existing) = (path.display(), present(path));
    let flags = statvfs(&existing).ok()?.f_flag;
    let existing = existing.display();
    match path.exists() {
        _ if !flags.contains(StatVfsMountFlags::RDONLY) => None,
        true => Some(format!("{shown} is mounted read-only")),
        false => Some(format!("{shown} is missing, and {existing} is mounted read-only")),
    }
}

fn sockets(path: &Path, uid: u32) -> Check {
    let shown = path.display();
    if let Some(reason) = read_only(path) {
        return Check::failure(format!("sockets: {reason}")).remedy(
            "mount the repo-server's volume `plugins` there without `readOnly: true`, or set \
             --socket-dir",
        );
    }
    let unusable = |error: &io::Error| {
        let text = format!("sockets: {shown}: cannot create sockets: {error}");
        Check::failure(text).remedy(directory_remedy(error))
    };
    if let Err(error) = check_length(path) {
        return unusable(&error);
    }
    match fs::metadata(path) {
        Ok(about) if !about.is_dir() => unusable(&io::ErrorKind::NotADirectory.into()),
        Ok(about) if may(path, &about, uid, WRITE) => {
            Check::fine(format!("sockets: {shown} can be written to by UID {uid}"))
        }
        Ok(_) => Check::failure(format!("sockets: UID {uid} cannot write to {shown}"))
            .remedy("mount the repo-server's volume `plugins` or an emptyDir, or set --socket-dir"),
        Err(error) => Check::warning(format!("sockets: {shown}: {error}; `serve` will create it"))
            .remedy("mount the repo-server's volume `plugins` there"),
    }
}

/// Checks a path of `--read`. Requests run without one that is missing, and fail if it
/// exists and cannot be opened.
fn read(path: &Path) -> Option<Check> {
    let error = fs::metadata(path).err()?;
    let text = format!("read: {}: {error}", path.display());
    let check = if error.kind() == io::ErrorKind::NotFound {
        Check::warning(format!("{text}; requests run without it until it exists"))
    } else {
        Check::failure(text)
    };
    Some(check.remedy("mount it, or remove it from --read"))
}

/// The directory, or its first existing parent, in which `serve` creates the
/// missing ones.
pub(super) fn present(path: &Path) -> PathBuf {
    let path = path::absolute(path).unwrap_or_else(|_empty| path.to_owned());
    path.ancestors().find(|above| above.exists()).unwrap_or(&path).to_owned()
}

/// Looks at the work directory. `memory` is the container's.
fn work(path: &Path, budget: &Budget, memory: u64) -> Vec<Check> {
    let shown = path.display();
    if let Some(reason) = read_only(path) {
        let remedy = "mount an emptyDir there without `readOnly: true`, or set --work-dir";
        return vec![Check::failure(format!("work: {reason}")).remedy(remedy)];
    }
    let present = present(path);
    let volume = match Volume::of(&present, memory) {
        Ok(about) => about,
        Err(error) => {
            let text = format!("work: {shown}: {error}");
            return vec![Check::failure(text).remedy("mount an emptyDir, or set --work-dir")];
        }
    };
    let mut checks = Vec::new();
    if !path.exists() {
        let text = format!("work: {shown} is missing; `serve` will create it");
        checks.push(Check::warning(text).remedy("mount an emptyDir there, or set --work-dir"));
    }
    checks.extend(noexec(&present).map(|reason| {
        Check::warning(format!("work: {reason}")).remedy("mount it without the option noexec")
    }));
    checks.push(space(&present, &volume, budget));
    checks.extend(too_large(&volume, budget));
    checks
}

/// Tells the space that requests have on the work volume, and fails if they wait for it.
fn space(path: &Path, volume: &Volume, budget: &Budget) -> Check {
    let (place, space) = if volume.in_memory {
        ("in memory", Space::of(volume).within(budget.memory.amount))
    } else {
        ("on a disk", Space::of(volume))
    };
    let text = format!("work: {} is {place} with {}", path.display(), space.say());
    if let Some(low) = space.low() {
        let text = format!("{text}; requests wait because {low}");
        return Check::failure(text).remedy(format!("{ENLARGE}, or {LOWER}"));
    }
    if volume.in_memory {
        return Check::fine(text);
    }
    Check::note(text).remedy("use emptyDir: {medium: Memory}, which is faster for many small files")
}

/// A limit of repositories above the space that one can have. In memory, running requests and
/// the supervisor's own files take a part of it for a while.
fn too_large(volume: &Volume, budget: &Budget) -> Option<Check> {
    let (room, what) = if volume.in_memory {
        (volume.size, "size of the work volume")
    } else {
        (volume.free, "free space of the work volume")
    };
    let largest = budget.each.repository.amount.filter(|largest| room < *largest)?;
    let text = format!(
        "a repository can have up to {} MiB, which is more than the {what}, {} MiB",
        largest / MIB,
        room / MIB
    );
    Some(Check::warning(text).remedy("reduce --max-repository, or use a larger volume"))
}

/// True if `uid` can enter a directory and all above it.
pub(super) fn is_open_to(path: &Path, uid: u32) -> bool {
    let enters = |at: &Path| fs::metadata(at).is_ok_and(|about| may(at, &about, uid, ENTER));
    path.ancestors().all(enters)
}

/// True if `uid`, with the GID of the same number, has these permissions for a
/// path. For its own UID, or without root, this process asks the kernel.
fn may(path: &Path, about: &Metadata, uid: u32, bits: u32) -> bool {
    let own = rustix::process::geteuid();
    if !own.is_root() || own.as_raw() == uid {
        let wanted = Access::from_bits_truncate(bits);
        return access(path, wanted).is_ok();
    }
    let shift = match (about.uid() == uid, about.gid() == uid) {
        (true, _) => 6,
        (false, true) => 3,
        (false, false) => 0,
    };
    about.mode() >> shift & bits == bits
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    use super::*;
    use crate::{
        budget::{Each, Share},
        local::doctor::check::Grade,
    };

    #[test]
    fn a_socket_directory_that_the_uid_cannot_write_to_is_a_failure() {
        let directory = tempfile::tempdir().unwrap();
        let state = |mode| {
            fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
            sockets(directory.path(), 999).state
        };
        assert_eq!(state(0o777), Grade::Fine);
        // Without root, the check is for the test's own UID, which owns the directory.
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(state(0o755), if is_root { Grade::Failure } else { Grade::Fine });
    }

    #[test]
    fn a_socket_directory_with_a_long_path_and_a_file_in_its_place_are_failures() {
        let directory = tempfile::tempdir().unwrap();
        let long = sockets(&directory.path().join("l".repeat(100)), 999);
        assert_eq!(long.state, Grade::Failure);
        assert!(long.text.contains("the limit is 84"), "{}", long.text);
        assert!(long.remedy.unwrap().contains("shorter path"));
        let path = directory.path().join("file");
        fs::write(&path, "").unwrap();
        let file = sockets(&path, 999);
        assert_eq!(file.state, Grade::Failure);
        assert!(file.text.ends_with("not a directory"), "{}", file.text);
    }

    #[test]
    fn a_missing_work_directory_is_told_first_and_nothing_is_said_of_its_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing");
        let checks = work(&path, &Budget::default(), 0);
        let [missing, volume] = &checks[..] else { panic!("{checks:?}") };
        assert!(missing.text.starts_with(&format!("work: {} is missing", path.display())));
        let start = format!("work: {} is ", directory.path().display());
        assert!(volume.text.starts_with(&start), "{}", volume.text);
    }

    /// A work volume of 1280 MiB in memory, of which this is free, in bytes and inodes.
    fn in_memory(free: u64, free_inodes: u64) -> Volume {
        let inodes = Some(2500);
        Volume { in_memory: true, size: 1280 * MIB, free, inodes, free_inodes: Some(free_inodes) }
    }

    fn budget() -> Budget {
        let memory = Share::new(4096 * MIB, "");
        let repository = Share::new(Some(1280 * MIB), "");
        Budget { memory, each: Each { repository, ..Each::default() }, ..Budget::default() }
    }

    #[test]
    fn a_full_work_volume_is_a_failure_with_the_remedy() {
        let fine = space(Path::new("/w"), &in_memory(1279 * MIB, 2490), &budget());
        let text = "work: /w is in memory with 1279 MiB of 1280 MiB free, 2490 of 2500 inodes free";
        assert_eq!((fine.state, &*fine.text), (Grade::Fine, text));
        for (volume, reason) in [
            (in_memory(0, 2490), "less than 32 MiB are free"),
            (in_memory(399 * MIB, 112), "fewer than 125 inodes are free"),
        ] {
            let full = space(Path::new("/w"), &volume, &budget());
            assert_eq!(full.state, Grade::Failure, "{full:?}");
            assert!(full.text.ends_with(&format!("; requests wait because {reason}")), "{full:?}");
            assert!(full.remedy.unwrap().starts_with("raise the volume's size"));
        }
    }

    #[test]
    fn a_repository_may_have_the_whole_volume_although_some_of_it_is_in_use() {
        let volume = in_memory(1279 * MIB, 2490);
        assert_eq!(too_large(&volume, &budget()), None);
        let (size, free) = (640 * MIB, 639 * MIB);
        let small = Volume { size, free, ..volume };
        let check = too_large(&small, &budget()).unwrap();
        assert!(check.text.ends_with("the size of the work volume, 640 MiB"), "{check:?}");
        let disk = too_large(&Volume { in_memory: false, ..small }, &budget()).unwrap();
        assert!(disk.text.ends_with("the free space of the work volume, 639 MiB"), "{disk:?}");
    }

    #[test]
    fn a_definition_that_only_root_can_read_is_a_failure_with_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        mode(directory.path(), 0o755).unwrap();
        let failures = |path: &Path| {
            let checks = plugins(path, 999).into_iter();
            checks.filter(|check| check.state == Grade::Failure).collect::<Vec<_>>()
        };
        let file = directory.path().join("a.yaml");
        fs::write(&file, "").unwrap();
        mode(&file, 0o644).unwrap();
        assert_eq!((failures(directory.path()), failures(&file)), (vec![], vec![]));
        mode(&file, 0o400).unwrap();
        // Without root, the check is for the test's own UID, which owns the file.
        let expected = usize::from(rustix::process::geteuid().is_root());
        assert_eq!(failures(directory.path()).len(), expected);
        assert!(failures(&file).iter().all(|check| check.text.contains("a.yaml")));
    }
}
