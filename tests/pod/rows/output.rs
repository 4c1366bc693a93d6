//! Much output of many requests.

use std::time::Duration;

use crate::{
    manifest::shipped,
    plugin::Plugin,
    request::Call,
    running::{PATIENCE, Running},
};

/// Requests at the same time. The container is too small for all of their outputs
/// together.
const REQUESTS: usize = 16;

/// A debug build gets outputs and a container of a sixth of the size.
const SCALE: usize = if cfg!(debug_assertions) { 6 } else { 1 };

/// A request counts for this many times its memory, because it may grow.
const HEADROOM: f64 = 1.25;

/// Bytes that outputs share in a container of 512 MiB, less the step in which they grow.
const SHARED: f64 = 31.0 * 1024.0 * 1024.0;

/// Manifests of 1,035 bytes in 90 MB.
const MANIFESTS: usize = 87_000 / SCALE;

/// Makes requests beside a victim, and returns their answers.
fn answers(pod: &Running, count: usize) -> Vec<Result<usize, String>> {
    let supervisor = pod.supervisor().pid;
    let victim = pod.victim();
    let request = pod.request("loud").timeout(Duration::from_mins(4));
    let calls: Vec<_> = (0..count).map(|_| request.start()).collect();
    // The answers are not kept: this process would hold all of them.
    let wait = |call: Call| call.wait().map(|manifests| manifests.len());
    let answers: Vec<_> = calls.into_iter().map(wait).collect();
    let seen = victim.end();
    println!("peak {} MiB\n{seen}", pod.groups().memory_peak() >> 20);
    assert!(pod.is_alive(), "the container ended");
    assert_eq!((pod.supervisor().pid, pod.groups().oom_kills()), (supervisor, 0));
    seen.assert_unharmed(PATIENCE);
    answers
}

#[test]
fn sixteen_ordinary_outputs_of_90_mb_do_not_stop_others() {
    let script = format!(
        "yes \"$(printf 'kind: ConfigMap\\ndata:\\n  a: %01000d\\n---' 0)\" | head -n {}",
        MANIFESTS * 4
    );
    let container = shipped().0;
    let container = if SCALE == 1 { container } else { container.memory("512Mi") };
    let Some(pod) = container.start(&[Plugin::new("loud", &script)], &[]) else { return };
    for answer in answers(&pod, REQUESTS) {
        assert_eq!(answer, Ok(MANIFESTS));
    }
    pod.assert_baseline();
}

/// Documents and directives that cost more than their bytes.
#[test]
fn outputs_of_many_small_parts_do_not_stop_others() {
    let empty = format!("yes '1\n---' | head -c {}", 30_000_000 / SCALE);
    let tags = r#"python3 -c 'for i in range(100000): print("%TAG !t{}! tag:example,2000:".format(i))'
printf -- '---\na: 1\n'"#;
    for script in [empty.as_str(), tags] {
        let Some(pod) = shipped().0.start(&[Plugin::new("loud", script)], &[]) else { return };
        let _ = answers(&pod, 4);
        pod.assert_baseline();
    }
}

/// Other plugins get their first place even if one uses almost all of the memory, and with
/// its room to grow more than there is.
#[test]
fn a_plugin_that_uses_the_memory_leaves_others_a_place() {
    let script = "python3 -c 'x = \"x\" * (70 << 20); import time; time.sleep(200)'; echo '{a: 1}'";
    let Some(pod) = shipped().0.start(&[Plugin::new("large", script)], &[]) else { return };
    let request = pod.request("large").timeout(Duration::from_mins(4));
    let calls: Vec<_> = (0..REQUESTS).map(|_| request.start()).collect();
    pod.until("their memory", |pod| {
        let used = pod.metric(r#"argocd_cmp_budget_used{resource="memory"}"#);
        let all = pod.metric(r#"argocd_cmp_budget{resource="memory"}"#);
        used.map(|used| used * HEADROOM) > all
    });
    let answer = pod.request("victim").generate();
    println!("{answer:?}");
    assert!(!calls.iter().any(Call::has_ended), "one of them has ended");
    assert!(answer.is_ok(), "{answer:?}");
    calls.into_iter().for_each(Call::vanish);
    pod.assert_baseline();
}

/// Ordinary answers need no memory of the budget for outputs.
#[test]
fn outputs_that_fill_the_budget_leave_others_alone() {
    let script = "yes 'a: 1234567' | head -c 15000000; sleep 1008";
    let container = shipped().0.memory("512Mi");
    let Some(pod) = container.start(&[Plugin::new("loud", script)], &[]) else { return };
    let request = pod.request("loud").timeout(Duration::from_mins(4));
    let calls: Vec<_> = (0..REQUESTS).map(|_| request.start()).collect();
    pod.until("outputs that wait", |pod| {
        let used = pod.metric(r#"argocd_cmp_budget_used{resource="outputs"}"#);
        // One has printed everything, and the others cannot.
        used > Some(SHARED) && pod.runs("sleep 1008") && pod.runs("head -c 15000000")
    });
    for _ in 0..3 {
        let answer = pod.request("victim").generate();
        assert!(answer.is_ok(), "{answer:?}");
    }
    assert!(!calls.iter().any(Call::has_ended), "one of them has ended");
    calls.into_iter().for_each(Call::vanish);
    pod.assert_baseline();
}
