//! Large repositories, which fill memory while they are unpacked.

use std::{thread, time::Duration};

use crate::{
    container::Container,
    plugin::Plugin,
    repository::large_repository,
    request::{Archive, Call},
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
    let request = pod.request("reader").timeout(Duration::from_mins(10));
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
        assert!(error.contains(", because the work volume /tmp "), "{error}");
    }
    pod.assert_baseline();
}

/// Requests with archives of zeros at a time.
const BOMBS: usize = 4;

/// The archive has less than 64 KiB, so all of it is on the way at once.
#[test]
fn short_archives_of_zeros_leave_space_to_others() {
    let without_root = Container::new().user(999).capabilities(&[]);
    let tiers: [(_, &[&str]); 3] = [
        (Container::new(), &["uid"]),
        (without_root.clone(), &["landlock"]),
        (without_root, &["none", "--accept-no-isolation"]),
    ];
    for (container, tier) in tiers {
        zeros_leave_space_to_others(&container.volume_in_memory("64Mi"), tier, (40, 10));
    }
}

#[test]
fn long_archives_of_zeros_leave_space_to_others() {
    zeros_leave_space_to_others(&Container::new().volume_in_memory("256Mi"), &["uid"], (500, 10));
}

/// Sends archives of so many MiB, each so many times.
fn zeros_leave_space_to_others(container: &Container, tier: &[&str], (mib, times): (usize, usize)) {
    let reader = Plugin::new("reader", "echo '{a: 1}'");
    // By itself, a request may take half of the volume, and is stopped if it is measured while
    // its short command runs.
    let limits = ["--max-repository", "1Gi", "--max-disk", "1Gi", "--isolation"];
    let flags = [&limits, tier].concat();
    let Some(pod) = container.start(&[reader], &flags) else { return };
    let zeros = Archive::zeros(&pod.file("zeros.tgz"), mib);
    let bomb = pod.request("reader").archive(&zeros);
    let victim = pod.victim();
    let answers: Vec<_> = thread::scope(|scope| {
        let send = || (0..times).map(|_| bomb.generate()).collect::<Vec<_>>();
        let senders: Vec<_> = (0..BOMBS).map(|_| scope.spawn(send)).collect();
        senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect()
    });
    let seen = victim.end();
    println!("{answers:?}\n{seen}");
    seen.assert_unharmed(PATIENCE);
    for error in answers.into_iter().filter_map(Result::err) {
        assert!(error.contains(", because the work volume /tmp "), "{error}");
    }
    pod.assert_baseline();
}
