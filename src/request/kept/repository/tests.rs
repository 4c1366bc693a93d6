//! Tests of requests that share a repository, or wait for it.

use std::{iter, pin::pin};

use tokio::time::{advance, timeout};

use super::*;
use crate::{
    budget::{Budget, Share},
    plugin::definition_of,
    request::{
        admission::Admission,
        index::IndexResources,
        kept::{ArchiveShare, IDLE, Way},
    },
};

const MIB: u64 = 1 << 20;

const READ_ONLY: &str = "workspace: {readOnly: true}";

fn shelf(leases: u32, has_own_uids: bool) -> KeptArchives {
    let budget = Budget {
        archives: Share::new(MIB, "a test"),
        leases: Share::new(leases, "a test"),
        ..Budget::default()
    };
    shelf_within(budget, has_own_uids)
}

fn shelf_within(budget: Budget, has_own_uids: bool) -> KeptArchives {
    let budget = watch::channel(budget).1;
    let share = ArchiveShare::new(budget.clone(), Admission::new(budget));
    KeptArchives::new(share, &IndexResources::default(), has_own_uids)
}

fn header(letter: char, size: u64) -> RequestHeader {
    let checksum = String::from(letter).repeat(64).into();
    RequestHeader { checksum, size, ..RequestHeader::default() }
}

/// The way of a request that has a repository of its own.
fn way(shelf: &KeptArchives, letter: char) -> Way {
    shelf.way(&header(letter, LEAST), &Repository::Own)
}

async fn ask(shelf: &KeptArchives, spec: &str, header: RequestHeader) -> Repository {
    shelf.repository(&header, &definition_of("x", spec), &Deadline::none()).await
}

#[tokio::test]
async fn a_repository_is_shared_only_if_its_plugin_changes_nothing_and_needs_all() {
    for (spec, leases, has_own_uids, size, is_shared) in [
        (READ_ONLY, 8, true, LEAST, true),
        ("", 8, true, LEAST, false),
        ("workspace: {readOnly: true, include: ['.']}", 8, true, LEAST, false),
        (READ_ONLY, 8, false, LEAST, false),
        (READ_ONLY, 8, true, LEAST - 1, false),
        (READ_ONLY, 7, true, LEAST, false),
    ] {
        let got = ask(&shelf(leases, has_own_uids), spec, header('a', size)).await;
        assert_eq!(matches!(got, Repository::New(_)), is_shared, "{spec} {leases} {size}: {got:?}");
    }
    let short = RequestHeader { checksum: "abc".into(), ..header('a', LEAST) };
    assert!(matches!(ask(&shelf(8, true), READ_ONLY, short).await, Repository::Own));
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_the_one_that_unpacks_its_archive_and_for_no_other() {
    let shelf = shelf(8, true);
    let first = ask(&shelf, READ_ONLY, header('a', LEAST)).await;
    assert!(matches!(ask(&shelf, READ_ONLY, header('b', LEAST)).await, Repository::New(_)));
    let mut second = pin!(ask(&shelf, READ_ONLY, header('a', LEAST)));
    assert!(timeout(Duration::ZERO, &mut second).await.is_err());
    // The first one fails, so the second one unpacks the archive.
    drop(first);
    assert!(matches!(second.await, Repository::New(_)));
}

#[tokio::test(start_paused = true)]
async fn repositories_with_and_without_the_modes_of_files_are_two() {
    let shelf = shelf(8, true);
    let _first = ask(&shelf, READ_ONLY, header('a', LEAST)).await;
    let preserved = format!("{READ_ONLY}, preserveFileMode: true");
    assert!(matches!(ask(&shelf, &preserved, header('a', LEAST)).await, Repository::New(_)));
}

#[tokio::test]
async fn an_archive_without_space_is_not_tried_again_at_once() {
    let shelf = shelf(8, true);
    let Repository::New(turn) = ask(&shelf, READ_ONLY, header('a', LEAST)).await else { panic!() };
    let unpacked = Unpacked { files: 1, bytes: 0, left_out: 0, dangling: None };
    assert!(turn.space(&unpacked).is_none(), "a file takes space even if it is empty");
    drop(turn);
    assert!(matches!(ask(&shelf, READ_ONLY, header('a', LEAST)).await, Repository::Own));
}

#[tokio::test]
async fn a_place_is_taken_before_the_files_are_shared() {
    let disk = Share::new(16 * MIB, "a test");
    let leases = Share::new(8, "a test");
    let shelf = shelf_within(Budget { leases, disk, ..Budget::default() }, true);
    let turn = async |letter| match ask(&shelf, READ_ONLY, header(letter, LEAST)).await {
        Repository::New(turn) => turn,
        other @ (Repository::Own | Repository::Shared(_)) => panic!("{other:?}"),
    };
    let unpacked = Unpacked { files: 1, bytes: 0, left_out: 0, dangling: None };
    let (first, second, third) = (turn('a').await, turn('b').await, turn('c').await);
    assert!(first.space(&unpacked).is_some() && second.space(&unpacked).is_none());
    drop(first);
    assert!(third.space(&unpacked).is_some(), "the first one failed");
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_delays_others_only_briefly() {
    let shelf = shelf(8, true);
    let _first = ask(&shelf, READ_ONLY, header('a', LEAST)).await;
    let patient = pin!(ask(&shelf, READ_ONLY, header('a', LEAST)));
    let began = Instant::now();
    assert!(matches!(patient.await, Repository::Own));
    assert_eq!(began.elapsed(), PATIENCE);
    let left = PATIENCE;
    let (plugin, hurried) = (definition_of("x", READ_ONLY), Deadline::new(None, Some(left)));
    let began = Instant::now();
    let header = header('a', LEAST);
    assert!(matches!(shelf.repository(&header, &plugin, &hurried).await, Repository::Own));
    assert!(began.elapsed() <= left / PART_OF_DEADLINE);
}

#[tokio::test]
async fn repositories_have_a_part_of_the_disk_or_of_the_memory() {
    for (in_memory, most) in [(false, 4), (true, 1)] {
        let budget = Budget {
            archives: Share::new(MIB, "a test"),
            disk: Share::new(16 * MIB, "a test"),
            in_memory,
            ..Budget::default()
        };
        let shelf = shelf_within(budget, true);
        let take = || Space::take(&shelf, MIB);
        let taken: Vec<_> = iter::from_fn(take).collect();
        assert_eq!((taken.len(), take().is_some()), (most, false), "{in_memory}");
        drop(taken);
        assert!(take().is_some(), "{in_memory}");
    }
}

#[test]
fn a_repository_that_can_never_fit_takes_no_room_from_others() {
    let used = AtomicU64::new(4);
    assert!(!take_of(&used, (9, 8), || panic!("others made room")));
    let make_room = || used.fetch_sub(2, Ordering::Relaxed) > 0;
    assert!(take_of(&used, (8, 8), make_room) && !take_of(&used, (1, 8), || false));
}

#[tokio::test(start_paused = true)]
async fn an_archive_that_does_not_fit_is_tried_again_after_a_while() {
    let shelf = shelf(8, true);
    let checksum = Checksum::try_from(&*header('a', LEAST).checksum).unwrap();
    shelf.table().seen_now(checksum).unshared = Some(Instant::now());
    for _ in 0..2 {
        assert!(matches!(ask(&shelf, READ_ONLY, header('a', LEAST)).await, Repository::Own));
        // Requests that go on asking do not prolong it.
        way(&shelf, 'a');
        advance(IDLE / 2).await;
    }
    assert!(matches!(ask(&shelf, READ_ONLY, header('a', LEAST)).await, Repository::New(_)));
}

#[tokio::test(start_paused = true)]
async fn an_archive_too_large_for_memory_can_be_shared_and_the_other_way_round() {
    let shelf = shelf(8, true);
    let checksum = |letter| Checksum::try_from(&*header(letter, LEAST).checksum).unwrap();
    shelf.give_up(checksum('a'));
    assert!(matches!(way(&shelf, 'a'), Way::Worker));
    assert!(matches!(ask(&shelf, READ_ONLY, header('a', LEAST)).await, Repository::New(_)));
    shelf.table().seen_now(checksum('b')).unshared = Some(Instant::now());
    assert!(matches!(ask(&shelf, READ_ONLY, header('b', LEAST)).await, Repository::Own));
    assert!(matches!(way(&shelf, 'b'), Way::Keep(_)));
}
