//! Thousands of clients.

use std::{os::unix::net::UnixStream, time::Duration};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::{manifest::shipped, plugin::Plugin, request::Call, running::PATIENCE};

/// Clients that connect and say nothing, and clients that make a request.
const IDLE: usize = 1_700;
const ACTIVE: usize = 300;

#[test]
fn two_thousand_connections_do_not_stop_others() {
    let most = getrlimit(Resource::RLIMIT_NOFILE).unwrap().1;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let plugin = Plugin::new("crowded", "echo '{a: 1}'");
    let Some(pod) = shipped().0.start(&[plugin], &[]) else { return };
    let victim = pod.victim();
    let socket = pod.parts.bundle.at("sockets/crowded.sock");
    let idle: Vec<_> = (0..IDLE).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let request = pod.request("crowded").timeout(Duration::from_mins(4));
    let calls: Vec<_> = (0..ACTIVE).map(|_| request.start()).collect();
    let errors: Vec<_> = calls.into_iter().map(Call::wait).filter_map(Result::err).collect();
    assert_eq!(errors, [""; 0]);
    assert!(pod.supervisor().descriptors > IDLE, "{}", pod.supervisor().descriptors);
    let seen = victim.end();
    println!("peak {} MiB\n{seen}", pod.groups().memory_peak() >> 20);
    seen.assert_unharmed(PATIENCE);
    drop(idle);
    pod.assert_baseline();
}
