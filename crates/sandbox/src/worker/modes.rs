//! Files that their modes close to the UIDs of requests.

use std::{
    fs::{self, Metadata},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Permission bits for others.
const READ: u32 = 0o4;
const ENTER: u32 = 0o1;

/// Most files of a directory to examine. Secrets have fewer.
const MAX_FILES: usize = 64;

/// A file or directory that only its owner and group may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClosedFile {
    pub(super) path: PathBuf,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// A UID that owns no file.
const NOBODY: u32 = u32::MAX - 1;

/// The file or directory whose mode keeps requests with UIDs of their own from reading
/// a path, and this mode.
#[must_use]
pub fn closed_by_mode(path: &Path) -> Option<(PathBuf, u32)> {
    let real = fs::canonicalize(path).ok()?;
    closed(&real, NOBODY).map(|file| (file.path, file.mode))
}

/// The mode that keeps `user` from reading a path without links: its own, that of a
/// directory above, or those of all files in it.
pub(super) fn closed(path: &Path, user: u32) -> Option<ClosedFile> {
    let above = path.ancestors().skip(1).find_map(|above| one(above, user, ENTER));
    above.or_else(|| itself(path, user))
}

/// The same, without regard to the directories above.
pub(super) fn itself(path: &Path, user: u32) -> Option<ClosedFile> {
    if !fs::metadata(path).ok()?.is_dir() {
        return one(path, user, READ);
    }
    one(path, user, READ | ENTER).or_else(|| {
        let files: Vec<_> = files(path).iter().map(|path| one(path, user, READ)).collect();
        let all: Option<Vec<ClosedFile>> = files.into_iter().collect();
        all?.into_iter().next()
    })
}

/// The regular files of a directory, links followed. Names that begin with two dots
/// are the volume's own.
pub(super) fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b".."));
    let paths = names.map(|entry| entry.path());
    paths.filter(|path| path.is_file()).take(MAX_FILES).collect()
}

fn one(path: &Path, user: u32, needed: u32) -> Option<ClosedFile> {
    let about = fs::metadata(path).ok()?;
    let is_closed = |about: &Metadata| about.mode() & needed != needed && about.uid() != user;
    let mode = about.permissions().mode() & 0o7777;
    is_closed(&about).then(|| ClosedFile {
        path: path.to_owned(),
        mode,
        uid: about.uid(),
        gid: about.gid(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    /// No UID of a process.
    const USER: u32 = 60_706;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_is_closed_by_its_mode_or_that_of_a_directory_above() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        fs::write(&file, "").unwrap();
        mode(&file, 0o440);
        mode(directory.path(), 0o755);
        assert_eq!(closed(&file, USER).unwrap().mode, 0o440);
        mode(&file, 0o444);
        assert_eq!(closed(&file, USER), None);
        mode(directory.path(), 0o750);
        assert_eq!(closed(&file, USER).unwrap().path, directory.path());
        assert_eq!(itself(&file, USER), None);
    }

    #[test]
    fn a_directory_is_closed_if_all_its_files_are() {
        let directory = tempfile::tempdir().unwrap();
        mode(directory.path(), 0o755);
        assert_eq!(closed(directory.path(), USER), None, "an empty directory");
        let paths = ["a", "b"].map(|name| directory.path().join(name));
        for path in &paths {
            fs::write(path, "").unwrap();
            mode(path, 0o400);
        }
        assert!(paths.contains(&closed(directory.path(), USER).unwrap().path));
        mode(&paths[1], 0o644);
        assert_eq!(closed(directory.path(), USER), None);
    }
}
