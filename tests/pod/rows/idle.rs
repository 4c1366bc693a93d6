//! Requests that only wait.

use std::{thread, time::Duration};

use crate::{
    container::Container,
    plugin::Plugin,
    request::Call,
    running::{PATIENCE, Running},
};

/// Requests that wait, and the time for which they are looked at.
const SLEEPERS: usize = 12;
const TIME: Duration = Duration::from_secs(8);

/// Most processes that may start meanwhile. With one for each request every
/// 250 ms, there are 384.
const MOST: i32 = 100;

/// Processes and threads that have started in the container so far.
fn started(pod: &Running) -> i32 {
    let manifests = pod.request("counter").generate().unwrap();
    let number = manifests[0].trim_start_matches(r#"{"pid":"#).trim_end_matches('}');
    number.parse().unwrap()
}

#[test]
fn requests_that_wait_are_not_looked_at_all_the_time() {
    let plugins = [
        Plugin::new("sleeper", "exec sleep 1007"),
        // PIDs of a namespace are given one after another.
        Plugin::new("counter", "echo \"{pid: $$}\""),
    ];
    let Some(pod) = Container::new().start(&plugins, &[]) else { return };
    let request = pod.request("sleeper");
    let calls: Vec<_> = (0..SLEEPERS).map(|_| request.start()).collect();
    pod.until("all of them", |pod| pod.commands("sleep 1007").len() == SLEEPERS);
    // The first measurement of each follows its start.
    thread::sleep(Duration::from_secs(2));
    let (before, used) = (started(&pod), pod.groups().processor_time());
    thread::sleep(TIME);
    let used = pod.groups().processor_time().saturating_sub(used);
    let new = started(&pod) - before;
    println!("{new} processes and {used:.2?} of CPU time in {TIME:.1?}");
    assert!(new < MOST, "{new} processes");
    calls.into_iter().for_each(Call::vanish);
    pod.assert_baseline();
}

/// Places are given by memory, not by a count: all of them fit into a container
/// of 1 GiB at the same time.
#[test]
fn sixty_four_requests_that_wait_for_the_network_are_served_together() {
    const REQUESTS: usize = 64;
    let plugin = Plugin::new("waiting", "exec sleep 1009");
    let Some(pod) = Container::new().memory("1Gi").start(&[plugin], &[]) else { return };
    let victim = pod.victim();
    let request = pod.request("waiting").timeout(Duration::from_mins(3));
    let calls: Vec<_> = (0..REQUESTS).map(|_| request.start()).collect();
    pod.until("all of them", |pod| pod.commands("sleep 1009").len() == REQUESTS);
    calls.into_iter().for_each(Call::vanish);
    let seen = victim.end();
    println!("{seen}");
    seen.assert_unharmed(PATIENCE);
    pod.assert_baseline();
}
