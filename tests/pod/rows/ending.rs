//! Requests that are hard to end.

use std::time::Duration;

use crate::{
    container::Container,
    plugin::Plugin,
    request::Call,
    running::{PATIENCE, Running},
};

const DEADLINE: Duration = Duration::from_secs(5);

fn assert_nothing_left(pod: &Running) {
    pod.until("the end of the tenants", |pod| pod.tenants().is_empty());
    pod.until("no quarantined lease", |pod| {
        pod.metric("argocd_cmp_leases_quarantined") == Some(0.0)
    });
    assert!(pod.is_alive());
    let answer = pod.request("victim").generate();
    assert!(answer.is_ok(), "{answer:?}\n{}", pod.log());
    pod.assert_baseline();
}

/// The plugin may start more processes than the container has.
#[test]
fn plugins_that_take_all_processes_are_ended() {
    for pids in [200, 400] {
        let bomb = Plugin::bomb().spec("limits: {processes: 1000}");
        let Some(pod) = Container::new().pids(pids).start(&[bomb], &[]) else { return };
        let call = || pod.request("bomb").timeout(DEADLINE).start();
        let calls: Vec<Call> = (0..3).map(|_| call()).collect();
        pod.until("a refused process", |pod| pod.groups().forks_refused() > 0);
        // Each of these fails, and leaves a lease in which little or nothing ran.
        for _ in 0..20 {
            let _ = pod.request("victim").timeout(DEADLINE).generate();
        }
        for call in calls {
            assert!(call.wait().is_err());
        }
        assert_nothing_left(&pod);
    }
}

#[test]
fn requests_with_many_directories_do_not_delay_others() {
    let script = "seq 1 20000 | xargs mkdir; echo 'a: b'";
    let many = Plugin::new("many", script).spec("limits: {files: 100000, disk: 512Mi}");
    let Some(pod) = Container::new().start(&[many], &[]) else { return };
    let victim = pod.victim();
    let calls: Vec<Call> = (0..8).map(|_| pod.request("many").start()).collect();
    for call in calls {
        let answer = call.wait();
        assert!(answer.is_ok(), "{answer:?}");
    }
    let seen = victim.end();
    println!("{seen}");
    seen.assert_unharmed(PATIENCE);
    assert_nothing_left(&pod);
}

#[test]
fn closed_directories_of_a_cache_are_opened_for_the_next_request() {
    let leave = "mkdir -p $STORE/a/b && echo x > $STORE/a/b/file && chmod 0 $STORE/a/b $STORE/a; \
                 echo 'a: b'";
    let read = "echo \"found: '$(find $STORE -type f | wc -l)'\"";
    let script = format!("if [ -e $STORE/a ]; then {read}; else {leave}; fi");
    let plugin = Plugin::new("cache", &script).spec("sandbox: {caches: [{name: a, env: STORE}]}");
    let Some(pod) = Container::new().start(&[plugin], &[]) else { return };
    pod.request("cache").generate().unwrap();
    pod.until("the end of the first request", |pod| pod.tenants().is_empty());
    pod.until("the file", |pod| {
        let answer = pod.request("cache").generate().unwrap();
        answer == [r#"{"found":"1"}"#]
    });
}
