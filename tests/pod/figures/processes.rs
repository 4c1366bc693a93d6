//! Loads of processes and of the processor.

use std::time::{Duration, Instant};

use super::load::{Load, outcome, pass, together};
use crate::{container::Container, plugin::Plugin, running::Running};

pub(crate) fn all() -> Vec<Load> {
    let load = |row, name, container, plugins, run| Load { row, name, container, plugins, run };
    let sleepers = || vec![Plugin::new("sleeper", "sleep 8")];
    vec![
        load("0", "nothing", Container::new(), vec![], |_| {
            pass(5);
            String::new()
        }),
        load("1", "fork bomb, 300 PIDs", Container::new().pids(300), bombs(), bomb),
        load(
            "5, 18",
            "500 spinning processes, 1 core",
            Container::new().cpus(100),
            spinners(),
            |pod| {
                let request = pod.request("spinner").timeout(Duration::from_secs(12));
                together(&request, 1)
            },
        ),
        load(
            "11",
            "a cache of 200,000 entries, 70 short requests",
            Container::new(),
            hoarders(),
            hoard,
        ),
        load("13", "16 idle requests", Container::new(), sleepers(), |pod| {
            together(&pod.request("sleeper"), 16)
        }),
    ]
}

fn bombs() -> Vec<Plugin> {
    vec![Plugin::bomb(), Plugin::new("failing", "exit 1")]
}

/// A bomb, and requests that fail while it goes off.
fn bomb(pod: &Running) -> String {
    let start = Instant::now();
    let bomb = pod.request("bomb").timeout(Duration::from_secs(8)).start();
    pass(2);
    let failing = together(&pod.request("failing").timeout(Duration::from_secs(5)), 20);
    let bomb = outcome(vec![bomb], start);
    pass(5);
    format!("bomb: {bomb}; failing: {failing}")
}

fn spinners() -> Vec<Plugin> {
    let script = "i=0; while [ $i -lt 500 ]; do (while :; do :; done) & i=$((i+1)); done; wait";
    vec![Plugin::new("spinner", script)]
}

fn hoarders() -> Vec<Plugin> {
    let script = "cd \"$CACHE\"; if [ -e full ]; then echo '{a: 1}'; exit; fi; \
                  python3 -c \"import os\nfor i in range(2000):\n os.mkdir('%d' % i)\n for j in range(100): open('%d/%d' % (i, j), 'w')\n\"; \
                  touch full; echo '{a: 1}'";
    let cache = "sandbox: {caches: [{name: hoard, env: CACHE}]}";
    vec![Plugin::new("hoarder", script).spec(cache)]
}

fn hoard(pod: &Running) -> String {
    let first = pod.request("hoarder").generate();
    let filled = format!("{} files", pod.used().files);
    let mut rest = String::new();
    for _ in 0..7 {
        rest = together(&pod.request("hoarder").timeout(Duration::from_secs(30)), 10);
    }
    format!("first: {}; {filled}; last ten: {rest}", first.map_or("failed", |_| "answered"))
}
