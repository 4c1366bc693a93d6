//! Leases that a link gives, and those that it ends.

use std::{future, pin::Pin, task::Poll, thread, time::Duration};

use tokio::{task::JoinSet, time::timeout};

use super::*;
use crate::{
    client::start::Abilities,
    wire::{
        message::{LeaseOrder, OrderKind},
        tier::Tier,
    },
};

const PATIENCE: Duration = Duration::from_secs(10);

/// Time that a release takes.
const PAUSE: Duration = Duration::from_millis(100);

/// A spawner with one UID. Returns the number of leases it gave.
fn obey(control: &OwnedFd) -> u64 {
    let (mut lease, mut queue, mut is_free) = (0, Vec::new(), true);
    while let Some((order, _)) = channel::receive::<Order>(control).unwrap() {
        match order.what {
            Some(OrderKind::Lease(LeaseOrder { ticket, .. })) => queue.push(ticket),
            Some(OrderKind::Release(_)) => is_free = true,
            Some(OrderKind::Beat(_)) => {}
            _ => panic!("{order:?}"),
        }
        while is_free && let Some(ticket) = queue.pop() {
            lease += 1;
            is_free = false;
            let leased = SpawnerEvent::Leased(Leased { ticket, lease, uid: 1 });
            channel::send(control, &SpawnerReport::from(leased), &[]).unwrap();
        }
    }
    lease
}

fn abilities(leases: u32) -> Abilities {
    Abilities {
        leases,
        tier: Tier::Uid,
        landlock: 0,
        missing: Vec::new(),
        root: "/".into(),
        unlimited: false,
        closed: Vec::new(),
        no_cgroups: None,
    }
}

fn link(leases: u32) -> (Link, impl Future<Output = SpawnerGone>, thread::JoinHandle<u64>) {
    let (control, theirs) = channel::packet_pair().unwrap();
    let (link, driver) = Link::new(Spawner { control, abilities: abilities(leases) }).unwrap();
    (link, driver, thread::spawn(move || obey(&theirs)))
}

#[tokio::test]
async fn many_requests_wait_for_one_uid_and_none_is_lost() {
    const REQUESTS: u64 = 100;
    let (link, driver, spawner) = link(1);
    let mut drivers = JoinSet::new();
    drivers.spawn(driver);
    let mut requests = JoinSet::new();
    for _ in 0..REQUESTS {
        let link = link.clone();
        requests.spawn(async move { link.lease(Bounds::default()).await.map(drop) });
    }
    let leased = timeout(PATIENCE, requests.join_all()).await.unwrap();
    assert!(leased.iter().all(Result::is_ok), "{leased:?}");
    drop(link);
    drivers.join_next().await.unwrap().unwrap();
    assert_eq!(spawner.join().unwrap(), REQUESTS);
}

#[tokio::test]
async fn a_request_that_stops_waiting_does_not_block_others() {
    let (link, driver, _spawner) = link(1);
    let mut drivers = JoinSet::new();
    drivers.spawn(driver);
    let held = link.lease(Bounds::default()).await.unwrap();
    for _ in 0..50 {
        let mut given_up = Box::pin(link.lease(Bounds::default()));
        assert!(is_pending(given_up.as_mut()).await);
    }
    drop(held);
    timeout(PATIENCE, link.lease(Bounds::default())).await.unwrap().unwrap();
    drop(link);
    drivers.join_next().await.unwrap().unwrap();
}

/// Polls a future once and returns true if it is pending.
async fn is_pending(mut future: Pin<&mut impl Future>) -> bool {
    future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

/// Hears the releases of a tenant's lease, which reads a repository, and of the lease
/// that holds it. Reports the first as done only after a pause.
fn release_slowly(control: &OwnedFd) -> Vec<u64> {
    let (mut lease, mut heard) = (0, Vec::new());
    let report = |event| channel::send(control, &SpawnerReport::from(event), &[]).unwrap();
    while let Some((order, _)) = channel::receive::<Order>(control).unwrap() {
        match order.what {
            Some(OrderKind::Lease(LeaseOrder { ticket, .. })) => {
                lease += 1;
                report(SpawnerEvent::Leased(Leased { ticket, lease, uid: 1 }));
                report(SpawnerEvent::WorkerEnded(WorkerEnded {
                    job: ticket,
                    ..WorkerEnded::default()
                }));
            }
            Some(OrderKind::Release(released)) => {
                heard.push(released.lease);
                thread::sleep(PAUSE);
                heard.push(released.lease);
                report(SpawnerEvent::Released(Released { lease: released.lease }));
            }
            _ => {}
        }
    }
    heard
}

#[tokio::test]
async fn a_repository_outlives_every_process_that_may_read_it() {
    let (control, theirs) = channel::packet_pair().unwrap();
    let (link, driver) = Link::new(Spawner { control, abilities: abilities(2) }).unwrap();
    let spawner = thread::spawn(move || release_slowly(&theirs));
    let mut drivers = JoinSet::new();
    drivers.spawn(driver);
    let holder = link.lease(Bounds::default()).await.unwrap();
    let repository = Some(holder.share().await.unwrap());
    let reader = link.lease(Bounds { repository, ..Bounds::default() }).await.unwrap();
    drop(reader);
    // Two places: both leases have ended.
    let both = [link.lease(Bounds::default()), link.lease(Bounds::default())];
    for one in both {
        drop(timeout(PATIENCE, one).await.unwrap().unwrap());
    }
    tokio::time::sleep(4 * PAUSE).await;
    drop(link);
    drivers.join_next().await.unwrap().unwrap();
    let heard = spawner.join().unwrap();
    assert!(heard.starts_with(&[2, 2, 1, 1]), "{heard:?}");
}
