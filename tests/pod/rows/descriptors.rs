//! More clients than the container has descriptors for.

use std::time::Duration;

use crate::{
    container::Container,
    request::{Archive, Call},
    running::PATIENCE,
    victim::Kind,
};

/// Clients at a time: each needs a connection.
const CLIENTS: usize = 400;

#[test]
fn more_clients_than_descriptors_do_not_stop_the_probes() {
    let Some(pod) = Container::new().descriptors(256, 256).start(&[], &[]) else { return };
    let victim = pod.victim();
    let (archive, open) = Archive::stalled(&pod.file("stalled"));
    let request = pod.request("victim").archive(&archive).timeout(Duration::from_secs(20));
    let calls: Vec<_> = (0..CLIENTS).map(|_| request.start()).collect();
    pod.until("clients that wait for a connection", |pod| {
        pod.metric("argocd_cmp_connections_waiting_total") > Some(0.0)
    });
    assert!(pod.is_alive(), "{}", pod.log());
    calls.into_iter().for_each(Call::vanish);
    drop(open);
    pod.until("the next answer", |pod| pod.request("victim").generate().is_ok());
    victim.end().assert_answered(&[Kind::Live], PATIENCE);
    pod.assert_baseline();
}

#[test]
fn the_soft_limit_of_descriptors_is_raised() {
    let Some(pod) = Container::new().descriptors(64, 4096).start(&[], &[]) else { return };
    let request = pod.request("victim");
    let calls: Vec<_> = (0..200).map(|_| request.start()).collect();
    for call in calls {
        call.wait().unwrap();
    }
    pod.assert_baseline();
}
