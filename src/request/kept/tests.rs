//! Archives that are kept, and those that are not.

use std::{convert::Infallible, fs::File, io::Write, os::unix::fs::FileExt};

use bytes::Bytes;
use cmp_archive::{Entry, EntryKind, EntryPath, Reader, Sink, UnpackLimits};
use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use tokio::{sync::watch, time::advance};

use super::*;
use crate::{
    budget::{Budget, Share},
    request::{admission::Admission, hex},
};

const LIMITS: UnpackLimits = UnpackLimits { bytes: 1 << 30, files: 1000, is_volume: false };

const MIB: u64 = 1 << 20;

fn shelf(bytes: u64) -> KeptArchives {
    let archives = Share::new(bytes, "a test");
    shelf_within(watch::channel(Budget { archives, ..Budget::default() }).1)
}

fn shelf_within(budget: watch::Receiver<Budget>) -> KeptArchives {
    let share = ArchiveShare::new(budget.clone(), Admission::new(budget));
    KeptArchives::new(share, &IndexResources::default(), true)
}

fn used(shelf: &KeptArchives) -> u64 {
    shelf.0.share.in_use()
}

/// A packed repository of files with these names and lengths.
fn pack(tar: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(tar).unwrap();
    encoder.finish().unwrap()
}

/// A repository of one file. All with different letters are different.
fn repository(letter: u8, length: u64) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let contents = vec![letter; usize::try_from(length).unwrap()];
    append(&mut builder, "file", &contents);
    builder.into_inner().unwrap()
}

fn append(builder: &mut tar::Builder<Vec<u8>>, name: &str, contents: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_size(contents.len() as u64);
    header.set_mode(0o644);
    builder.append_data(&mut header, name, contents).unwrap();
}

fn header(packed: &[u8]) -> RequestHeader {
    let checksum = hex(&Sha256::digest(packed)).into();
    RequestHeader { checksum, size: LEAST, ..RequestHeader::default() }
}

fn way(shelf: &KeptArchives, packed: &[u8]) -> Way {
    shelf.way(&header(packed), &Repository::Own)
}

fn maker(shelf: &KeptArchives, packed: &[u8]) -> Maker {
    match way(shelf, packed) {
        Way::Keep(turn) => Maker::begin(turn, LIMITS, Deadline::none()).unwrap(),
        other @ (Way::Worker | Way::Kept(_)) => panic!("{other:?}"),
    }
}

/// Sends an archive twice.
async fn keep(shelf: &KeptArchives, packed: &[u8]) {
    assert!(matches!(way(shelf, packed), Way::Worker));
    let mut maker = maker(shelf, packed);
    for piece in packed.chunks(1000) {
        maker.push(piece).await;
    }
    maker.finish().await;
}

fn kept(shelf: &KeptArchives, packed: &[u8]) -> Option<Arc<KeptArchive>> {
    match way(shelf, packed) {
        Way::Kept(archive) => Some(archive),
        Way::Worker | Way::Keep(_) => None,
    }
}

fn file(archive: &KeptArchive) -> File {
    archive.file().try_clone_to_owned().unwrap().into()
}

#[tokio::test]
async fn an_archive_that_comes_again_is_kept_and_sealed() {
    let (shelf, tar) = (shelf(64 * MIB), repository(b'a', 3 * MIB));
    let packed = pack(&tar);
    keep(&shelf, &packed).await;
    let archive = kept(&shelf, &packed).unwrap();
    let everything = Selection::default();
    let needed = Arc::clone(&archive).needed(everything, &shelf, &Deadline::none()).await;
    assert_eq!(needed.unwrap(), Needed::everything(archive.length));
    let mut bytes = vec![0; tar.len()];
    file(&archive).read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == tar, "the archive is another one");
    assert!(file(&archive).write_at(b"x", 0).is_err() && file(&archive).set_len(0).is_err());
    assert!(used(&shelf) >= archive.length && used(&shelf) <= archive.length + 2 * MIB);
}

#[tokio::test]
async fn other_bytes_are_never_kept() {
    let shelf = shelf(64 * MIB);
    let tar = repository(b'a', MIB);
    let packed = pack(&tar);
    // Half of an archive, and one whose entry the worker would refuse.
    let mut outside = tar::Builder::new(Vec::new());
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    outside.append_link(&mut link, "link", "../out").unwrap();
    let outside = pack(&outside.into_inner().unwrap());
    let mut many = tar::Builder::new(Vec::new());
    (0..=LIMITS.files).for_each(|number| append(&mut many, &number.to_string(), b""));
    let many = pack(&many.into_inner().unwrap());
    let whole = |packed: &Vec<u8>| packed.clone();
    let half = packed[..packed.len() / 2].to_vec();
    for (stated, sent) in [(&packed, half), (&outside, whole(&outside)), (&many, whole(&many))] {
        assert!(matches!(way(&shelf, stated), Way::Worker));
        let mut maker = maker(&shelf, stated);
        maker.push(&sent).await;
        maker.finish().await;
        assert!(matches!(way(&shelf, stated), Way::Worker), "it is not tried again");
    }
    assert_eq!(used(&shelf), 0);
}

#[tokio::test]
async fn small_archives_and_second_makers_are_left_to_workers() {
    let shelf = shelf(64 * MIB);
    let [one, other] = [b'a', b'b'].map(|letter| pack(&repository(letter, 1)));
    let small = RequestHeader { size: LEAST - 1, ..header(&one) };
    for _ in 0..3 {
        assert!(matches!(shelf.way(&small, &Repository::Own), Way::Worker));
    }
    for packed in [&one, &other] {
        assert!(matches!(way(&shelf, packed), Way::Worker));
    }
    let maker = maker(&shelf, &one);
    for packed in [&one, &other] {
        assert!(matches!(way(&shelf, packed), Way::Worker));
    }
    drop(maker);
    assert!(matches!(way(&shelf, &other), Way::Keep(_)));
}

#[tokio::test]
async fn all_archives_together_have_a_bound() {
    let shelf = shelf(8 * MIB);
    let packed: Vec<_> = (b'a'..b'i').map(|letter| pack(&repository(letter, 2 * MIB))).collect();
    let mut in_use = None;
    for (number, archive) in packed.iter().enumerate() {
        keep(&shelf, archive).await;
        assert!(used(&shelf) <= 8 * MIB, "{}", used(&shelf));
        assert!(kept(&shelf, archive).is_some(), "{number}");
        in_use = in_use.or_else(|| kept(&shelf, archive));
    }
    // The one that is in use stays; the others were used last.
    assert!(kept(&shelf, &packed[0]).is_some() && kept(&shelf, &packed[1]).is_none());
    let large = pack(&repository(b'z', 7 * MIB));
    keep(&shelf, &large).await;
    assert!(kept(&shelf, &large).is_none(), "it does not fit beside the one in use");
    drop(in_use);
    assert!(used(&shelf) <= 8 * MIB);
}

#[tokio::test]
async fn something_that_can_never_fit_takes_no_room_from_others() {
    let (shelf, packed) = (shelf(8 * MIB), pack(&repository(b'a', 2 * MIB)));
    keep(&shelf, &packed).await;
    let mut memory = ArchiveMemory::new(shelf.clone());
    assert!(!memory.grow(9 * MIB) && kept(&shelf, &packed).is_some());
    assert!(memory.grow(7 * MIB) && kept(&shelf, &packed).is_none());
}

#[tokio::test]
async fn an_archive_that_is_known_to_be_too_large_gets_no_maker() {
    let (shelf, packed) = (shelf(8 * MIB), pack(&repository(b'a', MIB)));
    let unpacked = |bytes| {
        let unpacked = Unpacked { files: 1, bytes, left_out: 0, dangling: None };
        shelf.unpacked(&header(&packed).checksum, &unpacked);
    };
    unpacked(9 * MIB);
    assert!(matches!(way(&shelf, &packed), Way::Worker), "it was never stated");
    unpacked(9 * MIB);
    assert!(matches!(way(&shelf, &packed), Way::Worker));
    unpacked(7 * MIB);
    assert!(matches!(way(&shelf, &packed), Way::Keep(_)));
}

#[tokio::test]
async fn memory_is_lent_while_half_of_it_is_free() {
    let (shelf, packed) = (shelf(8 * MIB), pack(&repository(b'a', MIB)));
    let share = &shelf.0.share;
    let lent: Vec<_> = iter::from_fn(|| share.lend(MIB)).collect();
    assert_eq!(lent.len(), 4);
    assert_eq!(used(&shelf), 0, "no archive");
    drop(lent);
    assert!(share.lend(4 * MIB).is_some());
    keep(&shelf, &packed).await;
    assert!(kept(&shelf, &packed).is_some());
    assert!(share.lend(4 * MIB).is_none() && share.lend(MIB).is_some());
}

#[tokio::test(start_paused = true)]
async fn an_archive_that_nobody_uses_is_dropped() {
    let (shelf, packed) = (shelf(64 * MIB), pack(&repository(b'a', MIB)));
    keep(&shelf, &packed).await;
    advance(IDLE / 2).await;
    assert!(kept(&shelf, &packed).is_some());
    advance(IDLE / 2).await;
    shelf.sweep();
    assert!(kept(&shelf, &packed).is_some(), "it was used");
    advance(IDLE).await;
    shelf.sweep();
    assert_eq!(used(&shelf), 0);
    // One request long ago is no reason to keep it.
    advance(IDLE).await;
    assert!(matches!(way(&shelf, &packed), Way::Worker));
}

#[tokio::test]
async fn archives_go_when_their_share_shrinks() {
    let archives = |bytes| Budget { archives: Share::new(bytes, ""), ..Budget::default() };
    let (resize, budget) = watch::channel(archives(64 * MIB));
    let shelf = shelf_within(budget);
    let packed = pack(&repository(b'a', MIB));
    keep(&shelf, &packed).await;
    resize.send_replace(archives(LEAST));
    assert!(matches!(way(&shelf, &packed), Way::Worker));
    shelf.sweep();
    assert_eq!(used(&shelf), 0);
}

#[test]
fn what_a_worker_does_not_see_is_left_out() {
    let seen = Unpacked { files: 1, bytes: 2, left_out: 3, dangling: None };
    let all = Unseen { entries: 10, bytes: 20 }.add_to(seen);
    assert_eq!((all.files, all.bytes, all.left_out), (11, 22, 13));
}

/// Records the entries that a worker would see.
#[derive(Debug, Default, PartialEq)]
struct Seen(Vec<(Entry, Vec<u8>)>);

impl Sink for Seen {
    type Error = Infallible;

    fn entry(&mut self, entry: &Entry) -> Result<(), Infallible> {
        self.0.push((entry.clone(), Vec::new()));
        Ok(())
    }

    fn data(&mut self, piece: &[u8]) -> Result<(), Infallible> {
        self.0.last_mut().unwrap().1.extend_from_slice(piece);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn extension(&mut self, _size: u64) -> Result<(), Infallible> {
        Ok(())
    }
}

fn read(tar: &[u8]) -> Seen {
    let mut reader = Reader::decompressed(Seen::default());
    reader.push(tar).unwrap();
    reader.finish().unwrap()
}

/// Entries with short and long names, of which some are links, with contents of
/// all lengths.
fn entries() -> impl Strategy<Value = Vec<(String, Option<usize>)>> {
    let name = "[ab]{1,2}(/([ab]|[c]{120})){0,3}";
    proptest::collection::vec((name, proptest::option::of(0..2000_usize)), 0..12)
}

proptest! {
    /// A worker gets exactly the entries that it would have taken.
    #[test]
    fn the_needed_parts_have_the_selected_entries(
        entries in entries(),
        pattern in "/?([ab*]|\\*\\*)(/[ab*]){0,2}",
    ) {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, contents) in &entries {
            if let Some(length) = contents {
                append(&mut builder, name, &vec![b'x'; *length]);
            } else {
                let mut header = tar::Header::new_gnu();
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                builder.append_link(&mut header, name, "b").unwrap();
            }
        }
        let tar = builder.into_inner().unwrap();
        let selection = Selection::read(&[pattern], b"a", b"").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (archive, needed) = runtime.block_on(async {
            let (shelf, packed) = (shelf(64 * MIB), Bytes::from(pack(&tar)));
            keep(&shelf, &packed).await;
            let archive = kept(&shelf, &packed).unwrap();
            let until = Deadline::none();
            let needed = Arc::clone(&archive).needed(selection.clone(), &shelf, &until).await;
            (archive, needed.unwrap())
        });
        let mut parts = Vec::new();
        for part in &needed.parts {
            let mut bytes = vec![0; usize::try_from(part.end - part.start).unwrap()];
            file(&archive).read_exact_at(&mut bytes, part.start).unwrap();
            parts.extend(bytes);
        }
        let mut expected = read(&tar);
        let all = expected.0.len();
        let bytes = |seen: &Seen| seen.0.iter().map(|(_, data)| data.len() as u64).sum::<u64>();
        let all_bytes = bytes(&expected);
        let path = |entry: &Entry| EntryPath::new(&entry.name).unwrap();
        let takes = |entry: &Entry| {
            let path = path(entry);
            selection.takes(path.as_path().as_os_str().as_encoded_bytes(), entry.kind)
        };
        expected.0.retain(|(entry, _)| takes(entry));
        let is_file = |kind| matches!(kind, EntryKind::File { .. } | EntryKind::Link);
        prop_assert!(expected.0.iter().all(|(entry, _)| is_file(entry.kind)));
        prop_assert_eq!(needed.unseen.entries, (all - expected.0.len()) as u64);
        prop_assert_eq!(needed.unseen.bytes, all_bytes - bytes(&expected));
        prop_assert_eq!(read(&parts), expected);
    }
}
