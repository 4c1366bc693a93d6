//! Local ports, which all containers of a Pod share.

use std::{
    fs::File,
    net::UdpSocket,
    os::fd::AsFd,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    process::geteuid,
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

use crate::{
    sandbox_settings::{
        bench::{Bench, Server, tiers},
        network::has_python,
    },
    skip::skip,
};

/// Opens as many UDP sockets as there are ports, in ten processes, and holds them.
const TAKE: &str = r#"
import os, socket, time
for _ in range(9):
    if os.fork() == 0:
        break
held = []
for _ in range(4000):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        one.bind(("0.0.0.0", 0))
    except OSError:
        break
    held.append(one)
time.sleep(40)
"#;

/// The longest time for which others may have no port: some passes, on a busy machine.
const OUTAGE: Duration = Duration::from_secs(30);

/// A container of the same Pod that needs a UDP port every 10 ms, such as a resolver.
struct Neighbour {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Neighbour {
    fn of(server: &Server) -> Self {
        let network = File::open(format!("/proc/{}/ns/net", server.pid())).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            // It moves this thread alone.
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(network.as_fd(), kind).unwrap();
            let (mut longest, mut last) = (Duration::ZERO, Instant::now());
            while !is_over.load(Ordering::Relaxed) {
                if UdpSocket::bind("0.0.0.0:0").is_ok() {
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                }
                thread::sleep(Duration::from_millis(10));
            }
            longest.max(last.elapsed())
        });
        Self { ends, thread }
    }

    /// The longest time without a port.
    fn longest(self) -> Duration {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Serves in a network of its own.
fn serve(bench: &Bench, tier: &str) -> Server {
    let mut command = Command::new("unshare");
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    command.args(["--net", env!("CARGO_BIN_EXE_cmp-supervisor"), "serve"]);
    bench.start(command, tier, &[])
}

#[test]
fn a_request_that_takes_the_local_ports_of_the_pod_is_ended() {
    if !geteuid().is_root() {
        return skip("needs root, to make a network");
    }
    if !has_python() {
        return;
    }
    for tier in tiers() {
        let bench = Bench::new("", &format!("exec python3 -c '{TAKE}'"));
        bench.add("other", "", "sleep 5; echo 'kind: A'");
        let server = serve(&bench, tier);
        let neighbour = Neighbour::of(&server);
        let (taker, other) = thread::scope(|scope| {
            let other = scope.spawn(|| bench.ask("other", &[]));
            (bench.ask("tried", &[]), other.join().unwrap())
        });
        let longest = neighbour.longest();
        println!("{tier}: no port for {longest:?}: {}", taker.error());
        let error = taker.error();
        assert!(error.contains("took more than the 7058 local ports"), "{tier}: {error}");
        assert!(error.contains("net.ipv4.ip_local_port_range"), "{tier}: {error}");
        assert!(longest < OUTAGE, "{tier}: {longest:?}");
        assert_eq!(other.manifests()[0]["kind"], "A", "{tier}: {}", other.stderr);
    }
}
