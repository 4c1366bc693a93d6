//! Requests that wait for each other.

use std::time::Duration;

use cmp_sandbox::RequestUsage;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use super::*;
use crate::{budget::Share, plugin::definition_of, ready::poll_once};

fn name(text: &str) -> PluginName {
    PluginName::new(text, "").unwrap()
}

pub(super) fn with_places(places: usize) -> (watch::Sender<Budget>, Admission) {
    let (resize, budget) = watch::channel(Budget {
        requests: Share::new(places, ""),
        leases: Share::new(1000, ""),
        memory: Share::new(1 << 40, ""),
        processes: Share::new(1 << 20, ""),
        queue: Share::new(100, ""),
        ..Budget::default()
    });
    (resize, Admission::new(budget))
}

async fn ask(
    admission: &Admission,
    plugin: &str,
    seconds: u64,
    unread: u64,
) -> Result<Permit, NoPermit> {
    let deadline = &Deadline::new(Some(Duration::from_secs(seconds)), None);
    let (class, plugin) = (Class::Generate, &name(plugin));
    admission.enter(Ask { class, plugin, unread, held: 0 }, deadline).await
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_until_its_deadline_and_learns_why() {
    let (_resize, admission) = with_places(1);
    let _first = ask(&admission, "p", 10, 0).await.unwrap();
    let error = ask(&admission, "p", 10, 0).await.unwrap_err().to_string();
    assert!(error.starts_with("no free place: the limit is 1 request at a time ("), "{error}");
    assert!(error.contains("--max-requests"), "{error}");
    assert!(error.contains("the client's deadline of 10.0s passed"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_early_if_much_must_still_be_read() {
    let (_resize, admission) = with_places(1);
    let _first = ask(&admission, "p", 10, 0).await.unwrap();
    let began = Instant::now();
    let error = ask(&admission, "p", 10, 1 << 30).await.unwrap_err().to_string();
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert!(error.contains("minus 5.0s to read the rest of the archive"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_place_is_never_lost_with_a_request_that_gave_up() {
    let (_resize, admission) = with_places(1);
    for _ in 0..20 {
        let first = ask(&admission, "p", 10, 0).await.unwrap();
        let mut second = JoinSet::new();
        let waiting = admission.clone();
        second.spawn(async move { ask(&waiting, "p", 10, 0).await.map(drop) });
        sleep(Duration::from_millis(1)).await;
        // The second request is admitted and cancelled at the same time.
        drop(first);
        second.abort_all();
        while second.join_next().await.is_some() {}
    }
    ask(&admission, "p", 10, 0).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slow_plugin_does_not_stop_others() {
    let (_resize, admission) = with_places(4);
    let _members = ["slow", "other"].map(|plugin| admission.join(&name(plugin)));
    let mut slow = JoinSet::new();
    for _ in 0..64 {
        let admission = admission.clone();
        slow.spawn(async move {
            let _permit = ask(&admission, "slow", 3600, 0).await.unwrap();
            sleep(Duration::from_mins(10)).await;
        });
    }
    sleep(Duration::from_secs(1)).await;
    for _ in 0..10 {
        ask(&admission, "other", 1, 0).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn measured_requests_make_room_and_a_larger_container_too() {
    let (resize, admission) = with_places(100);
    resize.send_modify(|budget| budget.memory.amount = 128 << 20);
    let (report, reports) = watch::channel(Consumption::default());
    let mut following = JoinSet::new();
    following.spawn(admission.clone().follow(reports));
    let mut held = Vec::new();
    while let Ok(permit) = ask(&admission, "p", 1, 0).await {
        permit.bind(held.len() as u64);
        held.push(permit);
    }
    // 128 MiB, minus an eighth for discovery.
    assert_eq!(held.len(), 3);
    let error = ask(&admission, "p", 1, 0).await.unwrap_err().to_string();
    assert!(
        error.contains("112Mi of memory for all requests, and 3 running requests count for 96Mi"),
        "{error}"
    );
    let usage = RequestUsage { memory: 1 << 20, processes: 1, ..RequestUsage::default() };
    report.send_replace((0..3).map(|lease| (lease, usage)).collect());
    held.push(ask(&admission, "p", 1, 0).await.unwrap());
    assert!(ask(&admission, "p", 1, 0).await.is_ok());
    resize.send_modify(|budget| budget.memory.amount = 1 << 30);
    for _ in 0..8 {
        held.push(ask(&admission, "p", 1, 0).await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_names_the_obstacle_although_it_has_just_gone() {
    let (resize, admission) = with_places(100);
    resize.send_modify(|budget| budget.memory.amount = 80 << 20);
    let running = [ask(&admission, "p", 1, 0).await, ask(&admission, "p", 1, 0).await];
    assert!(running.iter().all(Result::is_ok));
    let plugin = &name("p");
    let waits = Ask { class: Class::Generate, plugin, unread: 0, held: 0 };
    let Queued { permit, obstacle, wait, .. } = admission.queue(waits, &Deadline::none()).unwrap();
    drop(running);
    let error = permit.passed(obstacle, DeadlinePassed(wait)).to_string();
    assert!(error.contains("70Mi of memory for all requests, and 2 running requests"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_limit_for_which_requests_wait_is_known_while_they_do() {
    let (resize, admission) = with_places(100);
    resize.send_modify(|budget| budget.memory.amount = 128 << 20);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(ask(&admission, "p", 60, 0).await.unwrap());
    }
    assert_eq!((admission.waits_for(&name("p")), admission.short_of()), (None, vec![]));
    let mut fourth = Box::pin(ask(&admission, "p", 60, 0));
    assert!(poll_once(fourth.as_mut()).await.is_pending());
    let obstacle = admission.waits_for(&name("p")).unwrap().to_string();
    assert!(obstacle.starts_with("the limit is 112Mi of memory for all requests"), "{obstacle}");
    assert_eq!(admission.short_of(), [Shared::Memory]);
    drop(fourth);
    assert_eq!((admission.waits_for(&name("p")), admission.short_of()), (None, vec![]));
}

#[tokio::test(start_paused = true)]
async fn discovery_gets_a_lease_while_all_others_generate() {
    let (resize, admission) = with_places(7);
    resize.send_modify(|budget| budget.leases = Share::new(7, "7 leases"));
    let mut held = Vec::new();
    let refused = loop {
        match ask(&admission, "p", 1, 0).await {
            Ok(permit) => held.push(permit),
            Err(refused) => break refused.to_string(),
        }
    };
    assert_eq!(held.len(), 6);
    assert!(refused.contains("it comes from 7 leases"), "{refused}");
    let plugin = &name("p");
    let discovery = Ask { class: Class::Discover, plugin, unread: 0, held: 0 };
    assert!(admission.enter(discovery, &Deadline::none()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn requests_that_would_hold_too_much_while_they_wait_learn_the_remedy() {
    let (_resize, admission) = with_places(1);
    let _first = ask(&admission, "p", 10, 0).await.unwrap();
    let plugin = &name("p");
    let deadline = Deadline::new(Some(Duration::from_secs(1)), None);
    let large = Ask { class: Class::Generate, plugin, unread: 0, held: 20 << 20 };
    let error = admission.enter(large, &deadline).await.unwrap_err().to_string();
    assert!(error.contains("those that wait would hold more than 12Mi: "), "{error}");
    assert!(error.contains("lower ARGOCD_CMP_CHUNK_SIZE on the repo-server"), "{error}");
}

#[tokio::test]
async fn requests_that_wait_for_their_own_plugin_wait_too() {
    let (_resize, admission) = with_places(1);
    let lanes = admission.lanes();
    let plugin = Arc::new(definition_of("p", "limits: {requests: 1}"));
    let newest = watch::channel(plugin).1;
    let _first = lanes.enter(&newest, 0, &Deadline::none()).await.unwrap();
    let deadline = Deadline::none();
    let mut second = Box::pin(lanes.enter(&newest, 0, &deadline));
    assert!(poll_once(second.as_mut()).await.is_pending());
    assert_eq!(admission.load(), Load { running: 0, waiting: 1, held: 0 });
    let obstacle = admission.waits_for(&name("p"));
    assert!(matches!(obstacle, Some(Obstacle::Own { limit: 1, .. })), "{obstacle:?}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_link_does_not_end_the_measurements() {
    let (_resize, admission) = with_places(1);
    let (report, reports) = watch::channel(Consumption::default());
    drop(report);
    assert!(timeout(Duration::from_mins(1), admission.follow(reports)).await.is_err());
}
