//! Compares unpacking to disk with the index of names: discovery must claim
//! exactly the applications that can be generated.

use std::{
    fs,
    io::Seek,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    thread,
};

use cmp_discovery::{AppDirectory, EntryError, FileIndex, FileNamePattern, GlobPattern};
use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use tar::{Builder, EntryType, Header};

use super::*;
use crate::kernel::filter;

/// Few names, so that entries collide. One is longer than `NAME_MAX`.
const NAMES: [&str; 8] = ["a", "b", "c", "l", "é", ".h", "..", LONG];
const LONG: &str = concat!(
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
    "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
);

#[derive(Clone, Debug)]
struct Member {
    kind: EntryType,
    name: String,
    target: String,
    mode: u32,
}

fn path() -> impl Strategy<Value = String> {
    let names = [30, 30, 20, 20, 2, 2, 6, 1].into_iter().zip(NAMES);
    let name = prop::strategy::Union::new_weighted(
        names.map(|(weight, name)| (weight, Just(name))).collect(),
    );
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

fn members() -> impl Strategy<Value = Vec<Member>> {
    use EntryType::{Directory, Fifo, Regular, Symlink};
    let kind =
        prop::sample::select(vec![Regular, Regular, Directory, Directory, Symlink, Symlink, Fifo]);
    // A file without write permission cannot be written a second time.
    let modes = prop::sample::select(vec![0o755, 0o644, 0o700, 0o4755]);
    let closed = prop::sample::select(vec![0o755, 0o500, 0o000, 0o333]);
    let member =
        (kind, path(), path(), modes, closed).prop_map(|(kind, name, target, mode, closed)| {
            let mode = if kind == Directory { closed } else { mode };
            Member { kind, name, target, mode }
        });
    prop::collection::vec(member, 0..10)
}

fn pack(members: &[Member]) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for member in members {
        let records = [("path", member.name.as_bytes()), ("linkpath", member.target.as_bytes())];
        builder.append_pax_extensions(records).unwrap();
        let mut header = Header::new_ustar();
        header.set_entry_type(member.kind);
        header.set_mode(member.mode);
        header.set_size(0);
        header.set_cksum();
        builder.append(&header, &b""[..]).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

/// Unpacks everything.
fn task(preserve_file_mode: bool) -> UnpackTask {
    UnpackTask {
        preserve_file_mode,
        max_bytes: 1 << 20,
        max_entries: 1000,
        ..UnpackTask::default()
    }
}

/// Unpacks into `workspace` as a worker does.
fn to_disk(packed: &[u8], workspace: &Path, preserve: bool) -> Result<UnpackResult, String> {
    fs::create_dir(workspace.join(REPOSITORY)).unwrap();
    let directory = File::open(workspace).unwrap();
    let mut archive = tempfile::tempfile().unwrap();
    archive.write_all(packed).and_then(|()| archive.rewind()).unwrap();
    unpack(directory.as_fd(), &task(preserve), archive, None).map_err(|error| match error {
        JobError::Refused(text) | JobError::Full { text, .. } => text,
        error @ (JobError::Step { .. } | JobError::Command(_) | JobError::AlmostFull(_)) => {
            panic!("{error:?}")
        }
    })
}

/// Reads the names as discovery does.
#[derive(Default)]
struct NameIndex(FileIndex);

impl Sink for NameIndex {
    type Error = EntryError;

    fn entry(&mut self, entry: &Entry) -> Result<(), EntryError> {
        match entry.kind {
            EntryKind::Directory => self.0.add_directory(&entry.name),
            EntryKind::File { .. } => self.0.add_file(&entry.name),
            EntryKind::Link => self.0.add_symlink(&entry.name, &entry.link),
            EntryKind::Other { .. } => Ok(()),
        }
    }

    fn data(&mut self, _piece: &[u8]) -> Result<(), EntryError> {
        Ok(())
    }

    fn end(&mut self) -> Result<(), EntryError> {
        Ok(())
    }

    fn extension(&mut self, _size: u64) -> Result<(), EntryError> {
        Ok(())
    }
}

fn names(packed: &[u8]) -> Result<FileIndex, String> {
    let mut reader = Reader::new(NameIndex::default());
    reader.push(packed).map_err(|error| error.to_string())?;
    Ok(reader.finish().map_err(|error| error.to_string())?.0)
}

/// Lists every path below a directory, and whether it leads to something.
fn list(root: &Path, at: &Path, found: &mut Vec<(PathBuf, bool)>) {
    for entry in fs::read_dir(root.join(at)).unwrap() {
        let path = at.join(entry.unwrap().file_name());
        let on_disk = root.join(&path);
        found.push((path.clone(), on_disk.exists()));
        if on_disk.symlink_metadata().unwrap().is_dir() {
            list(root, &path, found);
        }
    }
}

/// Opens directories to their owner, so that this test can list them without
/// being root.
fn open_up(members: &[Member]) -> Vec<Member> {
    let open = |member: &Member| Member { mode: member.mode | 0o700, ..member.clone() };
    members.iter().map(open).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn unpacked_files_match_the_index_of_names(members in members(), preserve: bool) {
        let workspace = tempfile::tempdir().unwrap();
        let closed = to_disk(&pack(&members), workspace.path(), preserve);
        prop_assert!(fs::read_dir(workspace.path()).unwrap().count() == 1, "something is outside");

        let packed = pack(&open_up(&members));
        let workspace = tempfile::tempdir().unwrap();
        let unpacked = to_disk(&packed, workspace.path(), preserve);
        let named = names(&packed);
        prop_assert_eq!(unpacked.is_ok(), named.is_ok(), "{:?} {:?}", unpacked, named);
        prop_assert_eq!(unpacked.is_ok(), closed.is_ok(), "modes decide: {:?}", closed);
        let Ok(index) = named else { return Ok(()) };

        let mut found = Vec::new();
        list(&workspace.path().join(REPOSITORY), Path::new(""), &mut found);
        prop_assert_eq!(index.len(), found.len(), "{:?}", found);
        let root = AppDirectory::resolve(&index, b".").unwrap();
        for (path, leads_somewhere) in found {
            let path = str::from_utf8(path.as_os_str().as_bytes()).unwrap();
            let there = FileNamePattern::new(path).unwrap().decide(&index, &root, &|| true).unwrap();
            prop_assert!(there.is_match(), "{} is on disk only", path);
            let followed = GlobPattern::new(path).unwrap().decide(&index, &root, &|| true);
            prop_assert_eq!(followed.is_ok(), leads_somewhere, "where {} leads", path);
        }
    }
}

#[test]
fn a_call_that_the_kernel_lacks_is_not_blamed_on_the_archive() {
    let workspace = tempfile::tempdir().unwrap();
    fs::create_dir(workspace.path().join(REPOSITORY)).unwrap();
    let directory = File::open(workspace.path()).unwrap();
    let mut archive = tempfile::tempfile().unwrap();
    let file = Member {
        kind: EntryType::Regular,
        name: "a".to_owned(),
        target: String::new(),
        mode: 0o644,
    };
    archive.write_all(&pack(&[file])).and_then(|()| archive.rewind()).unwrap();
    let unpacked = thread::spawn(move || {
        // It refuses openat2(2), in this thread.
        filter::forbid_truncation().unwrap();
        unpack(directory.as_fd(), &task(false), archive, None)
    });
    match unpacked.join().unwrap() {
        Err(JobError::Full { text, errno: Errno::ENOSYS }) => {
            assert!(text.contains("the archive is not at fault"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}
