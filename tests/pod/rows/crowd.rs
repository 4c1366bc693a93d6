//! Many requests, many plugins, and few processors.

use std::{thread, time::Duration};

use crate::{container::Container, plugin::Plugin, request::Call, running::PATIENCE, turn};

#[test]
fn five_hundred_concurrent_requests_are_all_answered() {
    let plugin = Plugin::new("crowd", "echo \"{number: $ARGOCD_ENV_NUMBER}\"");
    let Some(pod) = Container::new().pids(1000).start(&[plugin], &[]) else { return };
    let victim = pod.victim();
    let request = pod.request("crowd").timeout(Duration::from_mins(5));
    let calls: Vec<_> = (0..500)
        .map(|number| request.clone().variable("NUMBER", &number.to_string()).start())
        .collect();
    for (number, call) in calls.into_iter().enumerate() {
        assert_eq!(call.wait().unwrap(), [format!(r#"{{"number":{number}}}"#)]);
    }
    victim.end().assert_unharmed(PATIENCE);
    pod.assert_baseline();
}

#[test]
fn waiting_requests_are_counted_for_each_plugin() {
    let slow = Plugin::new("slow", "sleep 100; echo '{}'");
    let Some(pod) = Container::new().start(&[slow], &["--max-requests", "1"]) else { return };
    let first = pod.request("slow").start();
    pod.until("a running request", |pod| !pod.tenants().is_empty());
    let waiting: Vec<_> = (0..3).map(|_| pod.request("slow").start()).collect();
    let metric = "argocd_cmp_requests_waiting{plugin=\"slow\"}";
    pod.until("three requests in the queue", |pod| pod.metric(metric) == Some(3.0));
    let (_, page) = pod.network().ask("GET", "/plugins", PATIENCE).unwrap();
    for shown in [
        "\"waiting\": 3",
        "\"longestSeconds\": ",
        "\"obstacle\": \"the limit is 1 request at a time\"",
    ] {
        assert!(page.contains(shown), "{page}");
    }
    first.vanish();
    waiting.into_iter().for_each(Call::vanish);
    pod.until("an empty queue", |pod| pod.metric(metric) == Some(0.0));
    let ended =
        "argocd_cmp_request_queue_duration_seconds_count{plugin=\"slow\",method=\"generate\"}";
    pod.until("four ended waits", |pod| pod.metric(ended) == Some(4.0));
    let (_, page) = pod.network().ask("GET", "/plugins", PATIENCE).unwrap();
    assert!(!page.contains("\"waiting\":"), "{page}");
    pod.assert_baseline();
}

#[test]
fn a_hundred_plugins_answer_before_and_after_a_change() {
    let plugins = |answer: &str| -> Vec<_> {
        let plugin = |number| {
            let name = format!("plugin-{number}");
            Plugin::new(&name, &format!("echo '{{{answer}: {number}}}'"))
        };
        (0..100).map(plugin).collect()
    };
    let Some(pod) = Container::new().start(&plugins("first"), &[]) else { return };
    let victim = pod.victim();
    let answered = |word: &str, number: usize| {
        let answer = pod.request(&format!("plugin-{number}")).generate();
        answer.is_ok_and(|manifests| manifests == [format!(r#"{{"{word}":{number}}}"#)])
    };
    for number in 0..100 {
        assert!(answered("first", number), "plugin-{number}");
    }
    pod.update(&plugins("second"));
    pod.until("the change", |_| answered("second", 99));
    for number in 0..100 {
        pod.until("the change", |_| answered("second", number));
    }
    victim.end().assert_unharmed(PATIENCE);
    pod.assert_baseline();
}

#[test]
fn one_core_with_busy_processes_answers_everybody() {
    let _turn = turn::take();
    let spin = "for i in 1 2 3 4; do (while :; do :; done) & done; sleep 5; kill 0";
    let plugins = [Plugin::new("spinner", spin), Plugin::new("short", "echo '{a: 1}'")];
    let Some(pod) = Container::new().cpus(100).pids(500).start(&plugins, &[]) else { return };
    let victim = pod.victim();
    let spinner = pod.request("spinner").timeout(Duration::from_secs(20));
    let spinners: Vec<_> = (0..4).map(|_| spinner.start()).collect();
    let calls: Vec<_> = (0..32).map(|_| pod.request("short").start()).collect();
    for call in calls {
        call.wait().unwrap();
    }
    for spinner in spinners {
        let _ = spinner.wait();
    }
    thread::sleep(Duration::from_secs(1));
    victim.end().assert_unharmed(PATIENCE);
    pod.assert_baseline();
}
