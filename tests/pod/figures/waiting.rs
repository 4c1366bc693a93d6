//! Loads of clients that wait.

use std::time::Duration;

use super::load::{Load, pass, together};
use crate::{container::Container, plugin::Plugin, request::Archive, running::Running};

pub(crate) fn all() -> Vec<Load> {
    let load = |row, name, script: &str, run| {
        let container = Container::new().memory("4Gi");
        Load { row, name, container, plugins: vec![Plugin::new("slow", script)], run }
    };
    vec![
        load("4", "200 idle connections to the HTTP port", "true", |pod| {
            let network = pod.network();
            let kept: Vec<_> = network.within(|| (0..200).map(|_| network.connect()).collect());
            pass(8);
            format!("{} connected", kept.iter().filter(|kept| kept.is_ok()).count())
        }),
        load("6", "64 clients wait 10 s each, deadline 30 s", "sleep 10; echo '{a: 1}'", |pod| {
            together(&pod.request("slow").timeout(Duration::from_secs(30)), 64)
        }),
        load("6", "16 streams that stall after their header", "true", stall),
        load("7", "400 clients with archives of 5 MB", "sleep 3; echo '{a: 1}'", |pod| {
            wait(pod, 400)
        }),
        load("7", "512 clients with archives of 5 MB", "sleep 3; echo '{a: 1}'", |pod| {
            wait(pod, 512)
        }),
    ]
}

fn stall(pod: &Running) -> String {
    let (archive, _open) = Archive::stalled(&pod.file("stalled"));
    let calls: Vec<_> = (0..16).map(|_| pod.request("slow").archive(&archive).start()).collect();
    pass(8);
    let ended = calls.iter().filter(|call| call.has_ended()).count();
    calls.into_iter().for_each(crate::request::Call::vanish);
    format!("{ended} ended")
}

/// Clients that wait for a place, with archives that cannot be compressed.
fn wait(pod: &Running, count: usize) -> String {
    let noise: Vec<u8> = (0..5_000_000).map(|_| rand::random()).collect();
    let archive = pod.pack([("noise", noise.as_slice())]);
    let remark =
        together(&pod.request("slow").archive(&archive).timeout(Duration::from_secs(30)), count);
    pass(5);
    let resident: u64 = pod.processes().iter().map(|process| process.resident).sum();
    format!("{remark}; {} MiB resident afterwards", resident >> 20)
}
