//! Requests that take too much memory.

use crate::guest::{
    container::{Container, View, children},
    server::{Settings, VICTIM, payload, until},
    victim,
};

/// A limit that the payloads exceed, and one that the container sets for all.
const LIMITED: &str = "  limits: {memory: 96Mi, fileSize: unlimited}";
const UNLIMITED: &str = "  limits: {memory: unlimited, fileSize: unlimited}";

const REQUIRE: &[&str] = &["--request-cgroups", "require", "--isolation", "uid"];

pub(super) fn a_greedy_request_is_killed_alone() {
    exceeds("file 400");
}

pub(super) fn memory_that_nobody_can_measure_is_limited() {
    exceeds("buffers 400");
}

/// The work volume is in memory, so its limit is added to that of memory. It is
/// small: the supervisor measures, too, and must not be faster than the kernel.
fn exceeds(taken: &str) {
    // The kubelet sets `memory.oom.group`: the whole container must not end.
    let container = Container::new(View::Writable, &[("memory.oom.group", "1")]);
    let script = payload(taken);
    let plugins = [("greedy", script.as_str(), LIMITED), VICTIM];
    let arguments = [REQUIRE, &["--max-disk", "1Mi"]].concat();
    let settings = Settings {
        container: Some(&container),
        plugins: &plugins,
        arguments: &arguments,
        work: None,
    };
    let mut server = settings.start();
    let error = victim::during(&server, || server.ask("greedy", 60)).unwrap_err();
    assert!(error.contains("its processes took more than 96Mi of memory"), "{error}");
    assert!(error.contains("raise the plugin's spec.limits.memory"), "{error}");
    assert!(server.is_alive());
    assert!(container.number("memory.events", "oom_kill") > 0, "no process was killed: {error}");
    let requests = container.requests();
    until("the request's cgroup is removed", || children(&requests).is_empty());
}

/// Neither cgroups of requests nor limits: the container's own limit is reached.
pub(super) fn a_container_without_cgroups_loses_the_tenant() {
    let container =
        Container::new(View::ReadOnly, &[("memory.max", "256M"), ("memory.oom.group", "0")]);
    // Buffers belong to no process: the kernel chooses by the OOM score alone. It
    // chooses again before those of a killed process are free, so there are many
    // processes. In this tier, the supervisor cannot measure buffers.
    let script = payload("crowd 12");
    let plugins = [("greedy", script.as_str(), UNLIMITED), VICTIM];
    let settings = Settings {
        container: Some(&container),
        plugins: &plugins,
        arguments: &["--request-cgroups", "off", "--isolation", "landlock"],
        work: None,
    };
    let mut server = settings.start();
    let error = server.ask("greedy", 60).unwrap_err();
    assert!(server.is_alive(), "{}", server.log());
    // The supervisor ends the request first if it sees in time how the container
    // fills.
    let reason = if container.number("memory.events", "oom_kill") > 0 {
        "the kernel killed it because the container reached its memory limit of 256Mi (cgroup v2 \
         memory.max)"
    } else {
        "container limit 256Mi (cgroup v2 memory.max)"
    };
    assert!(error.contains(reason), "{error}");
    server.ask("victim", 30).unwrap();
}
