//! Large repositories, which fill memory while they are unpacked.

use std::time::Duration;

use crate::{
    container::Container, plugin::Plugin, repository::large_repository, request::Call,
    running::PATIENCE,
};

/// More than fit into the memory of all requests at the same time.
const REQUESTS: usize = 16;

/// The volume is as large as the container: it refuses nothing before the container
/// is full.
#[test]
fn repositories_that_do_not_fit_together_are_unpacked_in_turns() {
    are_unpacked_in_turns("1Gi");
}

/// The volume is full before the memory of requests, 640Mi, is.
#[test]
fn repositories_that_do_not_fit_into_the_volume_together_are_unpacked_in_turns() {
    are_unpacked_in_turns("576Mi");
}

fn are_unpacked_in_turns(volume: &str) {
    let reader = Plugin::new("reader", "sleep 1; echo '{a: 1}'");
    let container = Container::new().memory("1Gi").volume_in_memory(volume);
    let Some(pod) = container.start(&[reader], &[]) else { return };
    let request = pod.request("reader").timeout(Duration::from_secs(100));
    let request = request.archive(&large_repository(&pod));
    let victim = pod.victim();
    let calls: Vec<_> = (0..REQUESTS).map(|_| request.start()).collect();
    let answers: Vec<_> = calls.into_iter().map(Call::wait).collect();
    println!("{answers:?}");
    let seen = victim.end();
    println!("{seen}, peak {} MiB", pod.groups().memory_peak() >> 20);
    seen.assert_unharmed(PATIENCE);
    let errors: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
    assert!(errors.len() <= REQUESTS / 4, "{errors:?}");
    for error in errors {
        assert!(error.contains("the work volume /tmp is almost full"), "{error}");
    }
    pod.assert_baseline();
}
