//! Leases that a link gives, and those that it ends.

use std::{future, pin::Pin, task::Poll, thread, time::Duration};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, poll},
};
use tokio::{task::JoinSet, time::timeout};

use super::*;
use crate::{
    client::start::Abilities,
    wire::{
        message::{LeaseOrder, OrderKind, ReleaseOrder},
        tier::Tier,
        usage::{LeaseUsage, UsageReport},
    },
};

const PATIENCE: Duration = Duration::from_mins(1);

/// Milliseconds that a release takes.
const PAUSE: u8 = 100;

/// A spawner with one UID. Returns the number of leases it gave.
fn obey(control: &OwnedFd) -> u64 {
    let (mut lease, mut queue, mut is_free) = (0, Vec::new(), true);
    while let Some((order, _)) = channel::receive::<Order>(control).unwrap() {
        match order.what {
            Some(OrderKind::Lease(LeaseOrder { job, .. })) => queue.push(job),
            Some(OrderKind::Release(_)) => is_free = true,
            Some(OrderKind::Beat(_)) => {}
            _ => panic!("{order:?}"),
        }
        while is_free && let Some(job) = queue.pop() {
            lease += 1;
            is_free = false;
            let leased = SpawnerEvent::Leased(Leased { job, lease, ..Leased::default() });
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
        unlisted_sockets: None,
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
        requests.spawn(async move { link.lease(Bounds::default(), None).await.map(drop) });
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
    let held = link.lease(Bounds::default(), None).await.unwrap();
    for _ in 0..50 {
        let mut given_up = Box::pin(link.lease(Bounds::default(), None));
        assert!(is_pending(given_up.as_mut()).await);
    }
    drop(held);
    timeout(PATIENCE, link.lease(Bounds::default(), None)).await.unwrap().unwrap();
    drop(link);
    drivers.join_next().await.unwrap().unwrap();
}

/// Polls a future once and returns true if it is pending.
async fn is_pending(mut future: Pin<&mut impl Future>) -> bool {
    future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

/// Waits a while for an order. Other tests change the groups of this process, which
/// interrupts all of its threads.
fn comes(control: &OwnedFd) -> bool {
    loop {
        let mut orders = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
        match poll(&mut orders, PAUSE) {
            Err(Errno::EINTR) => {}
            ready => return ready.unwrap() > 0,
        }
    }
}

/// Takes a while for each release. Tells each lease, and whether another release was
/// ordered meanwhile.
fn release_slowly(control: &OwnedFd, heard: &mpsc::Sender<(u64, bool)>) {
    let mut lease = 0;
    let report = |event| channel::send(control, &SpawnerReport::from(event), &[]).unwrap();
    while let Some((order, _)) = channel::receive::<Order>(control).unwrap() {
        match order.what {
            Some(OrderKind::Lease(LeaseOrder { job, .. })) => {
                lease += 1;
                report(SpawnerEvent::Leased(Leased { job, lease, ..Leased::default() }));
                let end = Some(WorkerEnd::Exited(Exited::default()));
                report(SpawnerEvent::WorkerEnded(WorkerEnded { job, end }));
            }
            Some(OrderKind::Release(released)) => {
                let mut is_hurried = false;
                while !is_hurried && comes(control) {
                    let (order, _) = channel::receive::<Order>(control).unwrap().unwrap();
                    is_hurried = matches!(order.what, Some(OrderKind::Release(_)));
                }
                report(SpawnerEvent::Released(released.lease));
                heard.blocking_send((released.lease, is_hurried)).unwrap();
            }
            _ => {}
        }
    }
}

/// A link to a spawner whose releases are slow, what it released, and the link's driver.
fn with_slow_releases() -> (Link, mpsc::Receiver<(u64, bool)>, JoinSet<SpawnerGone>) {
    let (control, theirs) = channel::packet_pair().unwrap();
    let (link, driver) = Link::new(Spawner { control, abilities: abilities(2) }).unwrap();
    let (tell, heard) = mpsc::channel(4);
    thread::spawn(move || release_slowly(&theirs, &tell));
    let mut drivers = JoinSet::new();
    drivers.spawn(driver);
    (link, heard, drivers)
}

#[tokio::test]
async fn a_command_that_has_begun_gets_the_time_to_end_of_its_bounds() {
    let (control, theirs) = channel::packet_pair().unwrap();
    let (link, driver) = Link::new(Spawner { control, abilities: abilities(1) }).unwrap();
    let grace = thread::spawn(move || {
        loop {
            match channel::receive::<Order>(&theirs).unwrap().unwrap().0.what {
                Some(OrderKind::Lease(LeaseOrder { job, .. })) => {
                    let leased = SpawnerEvent::Leased(Leased { job, ..Leased::default() });
                    channel::send(&theirs, &SpawnerReport::from(leased), &[]).unwrap();
                }
                Some(OrderKind::Release(order)) => return order.grace_ms,
                _ => {}
            }
        }
    });
    let mut drivers = JoinSet::new();
    drivers.spawn(driver);
    let stop_grace = Some(Duration::from_mins(7));
    let bounds = Bounds { stop_grace, ..Bounds::default() };
    let mut lease = link.lease(bounds, None).await.unwrap();
    lease.begin();
    drop((lease, link));
    drivers.join_next().await.unwrap().unwrap();
    assert_eq!(grace.join().unwrap(), 7 * 60 * 1000);
}

#[tokio::test]
async fn a_repository_outlives_every_process_that_may_read_it() {
    let (link, mut heard, _driver) = with_slow_releases();
    let holder = link.lease(Bounds::default(), None).await.unwrap();
    let repository = Some(holder.share().await.unwrap());
    drop(link.lease(Bounds::default(), repository).await.unwrap());
    for released in [(2, false), (1, false)] {
        assert_eq!(timeout(PATIENCE, heard.recv()).await.unwrap(), Some(released));
    }
}

#[tokio::test]
async fn a_repository_outlives_the_lease_of_a_request_that_stops_waiting() {
    let (link, mut heard, _driver) = with_slow_releases();
    let holder = link.lease(Bounds::default(), None).await.unwrap();
    let repository = Some(holder.share().await.unwrap());
    let mut given_up = Box::pin(link.lease(Bounds::default(), repository));
    assert!(is_pending(given_up.as_mut()).await);
    drop(given_up);
    for released in [(2, false), (1, false)] {
        assert_eq!(timeout(PATIENCE, heard.recv()).await.unwrap(), Some(released));
    }
}

fn driver() -> (Driver, mpsc::Receiver<Outgoing>, OwnedFd) {
    let (control, theirs) = channel::packet_pair().unwrap();
    let (orders, outgoing) = mpsc::channel(1);
    let driver = Driver {
        socket: Socket::new(control).unwrap(),
        waiting: Arc::default(),
        link: orders.downgrade(),
        consumption: watch::Sender::default(),
        health: watch::Sender::default(),
        beats: watch::Sender::new(0),
        root: "/".into(),
    };
    (driver, outgoing, theirs)
}

#[tokio::test]
async fn an_order_that_cannot_be_sent_fails_its_own_request() {
    let (driver, _orders, _spawner) = driver();
    let error = io::Error::from(Errno::ENOBUFS);
    let place = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
    let (answer, leased) = oneshot::channel();
    let (_first, endpoints) = WorkerHandle::new(JobKind::Run).unwrap();
    let request = LeaseRequest { answer, place, repository: None };
    let (kind, grants) = (JobKind::Run, Bounds::default().grants(None).unwrap());
    let lease = Outgoing::Lease { request, kind, grants: grants.clone(), endpoints };
    let (mut next, endpoints) = WorkerHandle::new(JobKind::Run).unwrap();
    let start = Outgoing::Start { lease: 7, grants, endpoints };
    for order in [lease, start] {
        let (number, _, _) = driver.enter(order);
        assert!(driver.give_up(number, &error));
    }
    let told = leased.await.unwrap().unwrap_err().to_string();
    assert!(told.contains("order cannot be sent to the spawner: No buffer"), "{told}");
    assert_eq!(next.unexpected_end().await.to_string(), told);
}

#[tokio::test]
async fn nothing_of_a_released_request_is_kept() {
    let (driver, _orders, _spawner) = driver();
    let leases = vec![LeaseUsage { lease: 7, memory: 1, ..LeaseUsage::default() }];
    driver.consumption.send_modify(|all| all.update(&UsageReport { leases }));
    driver.waiting.lock().unwrap().limits.insert(7, oneshot::channel().0);
    driver.released(7);
    assert!(driver.waiting.lock().unwrap().limits.is_empty());
    assert!(driver.consumption.borrow().of(7).is_none());
}

#[tokio::test]
async fn an_order_that_ends_a_request_is_never_given_up() {
    let (driver, _orders, _spawner) = driver();
    let order = ReleaseOrder { lease: 7, ..ReleaseOrder::default() };
    let (number, _, _) = driver.enter(Outgoing::Release {
        order,
        repository: None,
        late_usage: LateUsage::default(),
    });
    assert!(!driver.give_up(number, &Errno::ENOBUFS.into()));
}
