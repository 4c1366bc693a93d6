//! Files that their modes close to the UIDs of requests.

use std::{
    collections::BTreeSet,
    fs::{self, Metadata},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::process::{Gid, getgroups};

use super::contents::{Contents, Entry, Kind};

/// Permission bits for others.
const READ: u32 = 0o4;
const ENTER: u32 = 0o1;

/// Distance of the same bits for the group.
const GROUP: u32 = 3;

/// A file or directory that only its owner and group may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClosedFile {
    pub(super) path: PathBuf,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// The identity that files must be open to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reader {
    pub(super) user: u32,
    /// Supplementary groups.
    pub(super) groups: BTreeSet<u32>,
}

impl Reader {
    /// A UID that owns no file, without groups.
    pub(super) fn nobody() -> Self {
        Self::alone(u32::MAX)
    }

    /// A UID without groups.
    pub(super) fn alone(user: u32) -> Self {
        Self { user, groups: BTreeSet::new() }
    }
}

impl ClosedFile {
    /// Returns true if its group may read it.
    pub(super) fn is_open_to_group(&self) -> bool {
        self.mode >> GROUP & READ != 0
    }
}

/// The file or directory whose mode keeps requests with UIDs of their own from reading
/// a path that their plugin names, and this mode. They get groups of this process.
#[must_use]
pub fn closed_by_mode(path: &Path) -> Option<(PathBuf, u32)> {
    let real = fs::canonicalize(path).ok()?;
    let groups = getgroups().unwrap_or_default().into_iter().map(Gid::as_raw);
    let groups = groups.filter(|group| *group != 0).collect();
    let reader = Reader { groups, ..Reader::nobody() };
    closed(&real, &reader).map(|file| (file.path, file.mode))
}

/// The mode that keeps `reader` from reading a path without links: its own, that of a
/// directory above, or those of files in it.
pub(super) fn closed(path: &Path, reader: &Reader) -> Option<ClosedFile> {
    let above = path.ancestors().skip(1).find_map(|above| one(above, reader, ENTER));
    above.or_else(|| itself(path, reader))
}

/// The mode that keeps `reader` from reading a path or a file in it, without regard to the
/// directories above. A directory is closed if all its files are. One file is enough in a
/// Secret, where a tool may go on without a key that it cannot read.
///
/// Of very many entries, only the first are seen. If one of these is open, not all are
/// closed. If all of these are closed, the others count as closed: the request is refused
/// then, in each tier, because a copy is never a part.
pub(super) fn itself(path: &Path, reader: &Reader) -> Option<ClosedFile> {
    if !fs::metadata(path).ok()?.is_dir() {
        return one(path, reader, READ);
    }
    one(path, reader, READ | ENTER).or_else(|| {
        let contents = Contents::of(path).ok()?;
        let is_volume = contents.is_volume();
        let files = contents.flatten().filter(|entry| entry.kind == Kind::File);
        let mut closed = files.map(|file| inner(path, &file.path, reader));
        if is_volume {
            return closed.flatten().next();
        }
        let first = closed.next()??;
        closed.all(|closed| closed.is_some()).then_some(first)
    })
}

/// The mode that keeps `reader` from reading a file in a directory: its own, or that of a
/// directory between them.
fn inner(top: &Path, file: &Path, reader: &Reader) -> Option<ClosedFile> {
    let between = file.ancestors().skip(1).take_while(|above| *above != top);
    let closed = between.filter_map(|above| one(above, reader, ENTER)).last();
    closed.or_else(|| one(file, reader, READ))
}

/// The groups that a user needs to read a path without links and the files in it:
/// those of files and directories that are open to their group and closed to others.
pub(super) fn groups(path: &Path, user: u32) -> BTreeSet<u32> {
    let user = Reader::alone(user);
    let is_directory = fs::metadata(path).is_ok_and(|about| about.is_dir());
    let needed = if is_directory { READ | ENTER } else { READ };
    let above = path.ancestors().skip(1).map(|above| (above.to_owned(), ENTER));
    let contents = is_directory.then(|| Contents::of(path).ok()).flatten();
    let inner = contents.into_iter().flatten().flatten().filter_map(|entry| match entry {
        Entry { path, kind: Kind::File } => Some((path, READ)),
        Entry { path, kind: Kind::Directory } => Some((path, READ | ENTER)),
        Entry { kind: Kind::Link, .. } => None,
    });
    let all = above.chain([(path.to_owned(), needed)]).chain(inner);
    let closed = all.filter_map(|(path, needed)| Some((one(&path, &user, needed)?, needed)));
    let opened = closed.filter(|(file, needed)| file.mode >> GROUP & needed == *needed);
    opened.map(|(file, _)| file.gid).collect()
}

fn one(path: &Path, reader: &Reader, needed: u32) -> Option<ClosedFile> {
    let about = fs::metadata(path).ok()?;
    let is_closed = |about: &Metadata| {
        let is_member = reader.groups.contains(&about.gid());
        let mode = if is_member { about.mode() >> GROUP } else { about.mode() };
        mode & needed != needed && about.uid() != reader.user
    };
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
    use std::{fs::Permissions, os::unix::fs::symlink};

    use super::{super::contents::CURRENT_FILES, *};

    /// No UID of a process.
    const USER: u32 = 60_706;

    fn alone() -> Reader {
        Reader::alone(USER)
    }

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
        assert_eq!(closed(&file, &alone()).unwrap().mode, 0o440);
        mode(&file, 0o444);
        assert_eq!(closed(&file, &alone()), None);
        mode(directory.path(), 0o750);
        assert_eq!(closed(&file, &alone()).unwrap().path, directory.path());
        assert_eq!(itself(&file, &alone()), None);
    }

    #[test]
    fn a_directory_is_closed_if_all_its_files_are() {
        let directory = tempfile::tempdir().unwrap();
        mode(directory.path(), 0o755);
        assert_eq!(closed(directory.path(), &alone()), None, "an empty directory");
        let paths = ["a", "b"].map(|name| directory.path().join(name));
        for path in &paths {
            fs::write(path, "").unwrap();
            mode(path, 0o400);
        }
        assert!(paths.contains(&closed(directory.path(), &alone()).unwrap().path));
        mode(&paths[1], 0o644);
        assert_eq!(closed(directory.path(), &alone()), None);
    }

    #[test]
    fn one_closed_file_closes_a_volume() {
        let volume = tempfile::tempdir().unwrap();
        mode(volume.path(), 0o755);
        for name in ["key", "known_hosts"] {
            fs::write(volume.path().join(name), "").unwrap();
            mode(&volume.path().join(name), 0o644);
        }
        mode(&volume.path().join("key"), 0o400);
        assert_eq!(closed(volume.path(), &alone()), None, "no volume");
        fs::create_dir_all(volume.path().join("..1/more")).unwrap();
        symlink("..1", volume.path().join(CURRENT_FILES)).unwrap();
        assert_eq!(closed(volume.path(), &alone()).unwrap().path, volume.path().join("key"));
        mode(&volume.path().join("key"), 0o644);
        assert_eq!(closed(volume.path(), &alone()), None);
        symlink("..data/more", volume.path().join("more")).unwrap();
        let inner = volume.path().join("more/key");
        fs::write(&inner, "").unwrap();
        mode(&inner, 0o400);
        assert_eq!(closed(volume.path(), &alone()).unwrap().path, inner);
    }

    #[test]
    fn files_in_subdirectories_count_for_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        mode(directory.path(), 0o755);
        let (sub, inner) = (directory.path().join("sub"), directory.path().join("sub/key"));
        fs::create_dir(&sub).unwrap();
        for path in [&directory.path().join("key"), &inner] {
            fs::write(path, "").unwrap();
            mode(path, 0o400);
        }
        assert!(closed(directory.path(), &alone()).is_some());
        mode(&inner, 0o444);
        assert_eq!(closed(directory.path(), &alone()), None);
        mode(&sub, 0o700);
        assert!(closed(directory.path(), &alone()).is_some(), "by the directory");
        let own = fs::metadata(&sub).unwrap().gid();
        mode(&sub, 0o750);
        assert_eq!(groups(directory.path(), USER), [own].into());
    }

    /// More files than were once looked at, in either order of the directory.
    #[test]
    fn one_open_file_of_many_opens_a_directory() {
        for open in [0, 199] {
            let directory = tempfile::tempdir().unwrap();
            mode(directory.path(), 0o755);
            let listed =
                || fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
            for number in 0..200 {
                let path = directory.path().join(number.to_string());
                fs::write(&path, "").unwrap();
                mode(&path, 0o400);
            }
            assert!(closed(directory.path(), &alone()).is_some());
            mode(&listed().nth(open).unwrap(), 0o444);
            assert_eq!(closed(directory.path(), &alone()), None);
        }
    }

    #[test]
    fn a_member_can_read_what_the_group_may_read() {
        let directory = tempfile::tempdir().unwrap();
        mode(directory.path(), 0o755);
        let paths = ["key", "private"].map(|name| directory.path().join(name));
        for (path, bits) in paths.iter().zip([0o440, 0o400]) {
            fs::write(path, "").unwrap();
            mode(path, bits);
        }
        let own = fs::metadata(&paths[0]).unwrap().gid();
        for path in [directory.path(), &paths[0]] {
            assert_eq!(groups(path, USER), [own].into(), "{path:?}");
            let member = Reader { user: USER, groups: groups(path, USER) };
            assert_eq!(closed(path, &member), None, "{path:?}");
        }
        assert_eq!(groups(&paths[1], USER), BTreeSet::new());
        let member = Reader { user: USER, groups: [own].into() };
        assert!(!closed(&paths[1], &member).unwrap().is_open_to_group());
        mode(directory.path(), 0o700);
        assert_eq!(closed(&paths[0], &member).unwrap().path, directory.path());
    }
}
