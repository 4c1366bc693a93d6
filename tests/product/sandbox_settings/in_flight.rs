//! Requests that keep as many descriptors in messages as they can.

use std::{thread, time::Duration};

use crate::sandbox_settings::{
    bench::{Bench, tiers},
    network::has_python,
};

/// Sends descriptors to itself until the kernel refuses more, and keeps them for a while.
const FLOOD: &str = r#"exec python3 -c '
import socket, time
pairs, reason = [], "none"
try:
    for _ in range(1000):
        pairs.append(socket.socketpair())
        for _ in range(20):
            socket.send_fds(pairs[-1][0], [b"x"], [0] * 250)
except OSError as error:
    reason = error.strerror
time.sleep(3)
print("kind: A")
print("data: \"" + reason + "\"")
'"#;

/// The kernel counts descriptors in messages for all processes of a UID.
#[test]
fn descriptors_in_messages_of_one_request_stop_no_other() {
    if !has_python() {
        return;
    }
    for tier in tiers() {
        let bench = Bench::new("", "echo 'kind: A'; echo 'data: told'");
        bench.add("floods", "", FLOOD);
        let server = bench.serve(tier, &[]);
        thread::scope(|scope| {
            let flood = scope.spawn(|| bench.ask("floods", &[]));
            while !flood.is_finished() {
                let other = bench.ask("tried", &[]);
                assert_eq!(other.code, Some(0), "{tier}: {}\n{}", other.stderr, server.log());
                thread::sleep(Duration::from_millis(100));
            }
            assert_eq!(flood.join().unwrap().value("data"), "Too many references: cannot splice");
        });
        assert_eq!(bench.ask("tried", &[]).code, Some(0), "{tier}: {}", server.log());
    }
}
