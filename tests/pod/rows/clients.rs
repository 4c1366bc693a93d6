//! Clients that vanish in the middle of their requests.

use std::{thread, time::Duration};

use crate::{
    container::Container,
    plugin::Plugin,
    request::{Archive, Call, Request},
    running::{PATIENCE, Running},
};

/// Clients that vanish at the same time.
const CLIENTS: usize = 12;

/// Starts requests that vanish as soon as `is_there`, and expects no trace.
fn vanish(pod: &Running, request: &Request, is_there: impl FnMut(&Running) -> bool) {
    let victim = pod.victim();
    let calls: Vec<_> = (0..CLIENTS).map(|_| request.start()).collect();
    pod.until("requests", is_there);
    calls.into_iter().for_each(Call::vanish);
    victim.end().assert_unharmed(PATIENCE);
    pod.assert_baseline();
}

#[test]
fn clients_that_vanish_while_they_send_leave_nothing() {
    let Some(pod) = Container::new().pids(400).start(&[], &[]) else { return };
    let (archive, _open) = Archive::stalled(&pod.file("stalled"));
    let in_flight = |pod: &Running| {
        pod.metric("argocd_cmp_requests_in_flight").is_some_and(|count| count >= 8.0)
    };
    vanish(&pod, &pod.request("victim").archive(&archive), in_flight);
}

#[test]
fn clients_that_vanish_while_a_command_runs_leave_nothing() {
    let script = "trap '' TERM HUP; (setsid sleep 1001 &); sleep 1002";
    let Some(pod) = Container::new().pids(400).start(&[Plugin::new("slow", script)], &[]) else {
        return;
    };
    vanish(&pod, &pod.request("slow"), |pod| pod.runs("sleep 1001"));
}

#[test]
fn clients_that_vanish_while_a_command_prints_leave_nothing() {
    let plugin = Plugin::new("loud", "yes 'a: 1\n---' | head -c 90000000; sleep 1003");
    let Some(pod) = Container::new().memory("4Gi").pids(400).start(&[plugin], &[]) else {
        return;
    };
    vanish(&pod, &pod.request("loud"), |pod| {
        pod.runs("head -c 90000000") || pod.runs("sleep 1003")
    });
}

#[test]
fn clients_that_vanish_at_any_moment_leave_nothing() {
    let plugin = Plugin::new("brief", "sleep 0.05; echo '{a: 1}'");
    let Some(pod) = Container::new().pids(400).start(&[plugin], &[]) else { return };
    let victim = pod.victim();
    for milliseconds in 0..60 {
        let calls: Vec<_> = (0..4).map(|_| pod.request("brief").start()).collect();
        thread::sleep(Duration::from_millis(milliseconds * 2));
        calls.into_iter().for_each(Call::vanish);
    }
    victim.end().assert_unharmed(PATIENCE);
    pod.assert_baseline();
}
