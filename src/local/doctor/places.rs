//! The directories that `serve` works with.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{self, Path, PathBuf},
};

use rustix::fs::{Access, access, statfs};

use super::Finding;
use crate::{
    config::Serve,
    loader::{Snapshot, static_mounts},
};

/// `TMPFS_MAGIC` of statfs(2).
const IN_MEMORY: u64 = 0x0102_1994;

/// Bytes in a MiB.
const MIB: u64 = 1024 * 1024;

/// Bits of a mode for whoever is neither owner nor in the group.
const READ: u32 = 0o4;
const ENTER: u32 = 0o1;
const WRITE: u32 = 0o2;

pub(super) fn look(options: &Serve) -> Vec<Finding> {
    let mut findings = Vec::new();
    let places = options.places();
    for directory in places.directory.iter().chain(places.single.iter().filter(|p| p.exists())) {
        findings.extend(plugins(directory, options.run_as_uid));
    }
    // Without mountinfo nothing is known, and nothing is said.
    let mounts = static_mounts(&places).unwrap_or_default();
    findings.extend(mounts.iter().map(|mount| Finding::warning(mount.to_string())));
    findings.push(sockets(&options.socket_dir(), options.run_as_uid));
    findings.extend(work(&options.work_dir(), options.max_repository));
    findings.extend(options.read.iter().filter_map(|path| read(path)));
    findings
}

fn plugins(path: &Path, uid: u32) -> Vec<Finding> {
    let shown = path.display();
    let remedy = "defaultMode: 0444 of the volume, or --run-as-uid";
    let closed = |path: &Path| {
        let text = format!("definitions: {} cannot be read by uid {uid}", path.display());
        Finding::failure(text).remedy(remedy)
    };
    let needed = |about: &Metadata| if about.is_dir() { READ | ENTER } else { READ };
    match fs::metadata(path) {
        Ok(about) if !may(path, &about, uid, needed(&about)) => vec![closed(path)],
        Ok(_) => {
            let open = Finding::fine(format!("definitions: {shown} can be read"));
            [open]
                .into_iter()
                .chain(unreadable(path, uid).iter().map(|file| closed(file)))
                .collect()
        }
        Err(error) => vec![
            Finding::failure(format!("definitions: {shown}: {error}"))
                .remedy("mount a ConfigMap there, or --plugins-dir"),
        ],
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

fn sockets(path: &Path, uid: u32) -> Finding {
    let shown = path.display();
    match fs::metadata(path) {
        Ok(about) if may(path, &about, uid, WRITE) => {
            Finding::fine(format!("sockets: {shown} can be written to by uid {uid}"))
        }
        Ok(_) => Finding::failure(format!("sockets: uid {uid} cannot write to {shown}"))
            .remedy("the volume `plugins` of the repo-server, an emptyDir, or --socket-dir"),
        Err(error) => Finding::warning(format!("sockets: {shown}: {error}; `serve` will make it"))
            .remedy("mount the volume `plugins` of the repo-server there"),
    }
}

/// What all plugins are to read and is not there fails every request.
fn read(path: &Path) -> Option<Finding> {
    let error = fs::metadata(path).err()?;
    let text = format!("read: {}: {error}", path.display());
    Some(Finding::failure(text).remedy("mount it, or leave it out of --read"))
}

/// A directory that is there: this, or the first above it, in which `serve`
/// makes what is missing.
pub(super) fn present(path: &Path) -> PathBuf {
    let path = path::absolute(path).unwrap_or_else(|_empty| path.to_owned());
    path.ancestors().find(|above| above.exists()).unwrap_or(&path).to_owned()
}

fn work(path: &Path, largest: u64) -> Vec<Finding> {
    let shown = path.display();
    let about = match statfs(present(path)) {
        Ok(about) => about,
        Err(error) => {
            let text = format!("work: {shown}: {error}");
            return vec![Finding::failure(text).remedy("mount an emptyDir, or --work-dir")];
        }
    };
    let in_memory = u64::try_from(about.f_type).is_ok_and(|kind| kind == IN_MEMORY);
    let block = u64::try_from(about.f_bsize).unwrap_or_default();
    let free = about.f_bavail.saturating_mul(block);
    let place = if in_memory { "in memory" } else { "on a disk" };
    let text = format!("work: {shown} is {place}, {} MiB are free", free / MIB);
    let mut findings = vec![if in_memory {
        Finding::fine(text)
    } else {
        Finding::note(text).remedy("emptyDir: {medium: Memory} is faster for many small files")
    }];
    if !path.exists() {
        let text = format!("work: {shown} is not there; `serve` will make it");
        findings.push(Finding::warning(text).remedy("mount an emptyDir there, or --work-dir"));
    }
    if free < largest {
        let text = format!("a repository may take {} MiB, more than is free", largest / MIB);
        findings.push(Finding::warning(text).remedy("--max-repository, or a larger volume"));
    }
    findings
}

/// Whether `uid`, with the group of the same number, may do to a directory what
/// the bits say. As itself this process asks the kernel.
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
    use crate::local::doctor::finding::Grade;

    #[test]
    fn a_directory_that_nobody_else_may_write_to_is_no_place_for_sockets() {
        let directory = tempfile::tempdir().unwrap();
        let state = |mode| {
            fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
            sockets(directory.path(), 999).state
        };
        assert_eq!(state(0o777), Grade::Fine);
        // Asked as itself, a plain user may write to what it made.
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(state(0o755), if is_root { Grade::Failure } else { Grade::Fine });
    }

    #[test]
    fn what_is_not_there_is_told_with_its_name() {
        let findings = plugins(Path::new("/nowhere/plugins.d"), 999);
        assert_eq!(findings[0].state, Grade::Failure);
        assert!(findings[0].text.contains("/nowhere/plugins.d"), "{findings:?}");
    }

    #[test]
    fn a_definition_that_only_root_may_read_is_told_with_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        mode(directory.path(), 0o755).unwrap();
        let failures = |path: &Path| {
            let findings = plugins(path, 999).into_iter();
            findings.filter(|finding| finding.state == Grade::Failure).collect::<Vec<_>>()
        };
        let file = directory.path().join("a.yaml");
        fs::write(&file, "").unwrap();
        mode(&file, 0o644).unwrap();
        assert_eq!((failures(directory.path()), failures(&file)), (vec![], vec![]));
        mode(&file, 0o400).unwrap();
        // Asked as itself, a plain user may read what it made.
        let expected = usize::from(rustix::process::geteuid().is_root());
        assert_eq!(failures(directory.path()).len(), expected);
        assert!(failures(&file).iter().all(|finding| finding.text.contains("a.yaml")));
    }
}
