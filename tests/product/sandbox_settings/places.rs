//! Requests that wait: for a place, for a UID, or for a command that does not start.

use std::{
    fs::{self, File},
    io::Write,
    thread,
    time::Duration,
};

use cmp_supervisor::grpc::{Client, Parcel};
use nix::{sys::stat::Mode, unistd::mkfifo};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    sandbox_settings::{
        bench::{Bench, FINE, tiers},
        healing::{sleeper, unique},
        read_only::range,
    },
    waiting::{error_without, eventually, retry},
};

#[test]
fn a_plugins_requests_wait_for_each_other() {
    let bench = Bench::new("", FINE);
    let marks = bench.open_directory("marks");
    // Fails beside another request of the plugin.
    let script = format!(
        "cd {}; mkdir runs || exit 3; until test -e go; do sleep 0.05; done; rmdir runs; {FINE}",
        marks.display()
    );
    bench.add("tried", "  limits: {requests: 1}", &script);
    bench.add("other", "", FINE);
    let _server = bench.serve("none", &[]);
    thread::scope(|scope| {
        let asked = [(); 2].map(|()| scope.spawn(|| bench.ask("tried", &[])));
        eventually("a command", || marks.join("runs").exists());
        // Without the limit, the other request would run by now.
        thread::sleep(Duration::from_millis(300));
        let other = bench.ask("other", &[]);
        fs::write(marks.join("go"), "").unwrap();
        assert_eq!(other.code, Some(0), "others do not wait: {}", other.stderr);
        for one in asked {
            let rendered = one.join().unwrap();
            assert_eq!(rendered.code, Some(0), "{}", rendered.stderr);
        }
    });
}

/// The client's error at the end of its own clock. On a busy machine, it may come before the
/// answer, which has 100 ms.
const LATE: &str = "in time";

#[test]
fn a_request_without_a_place_names_the_plugins_limit() {
    let time = unique(600);
    let bench = Bench::new("  limits: {requests: 1}", &format!("sleep {time}"));
    let mut server = bench.serve("none", &[]);
    thread::scope(|scope| {
        scope.spawn(|| bench.ask("tried", &["--timeout", "10m"]));
        eventually("a command", || sleeper(&time).is_some());
        let error =
            error_without(LATE, || bench.ask("tried", &["--timeout", "3s"]).error().to_owned());
        server.kill();
        assert!(
            error.contains("no free place: the limit is 1 request of plugin tried at a time"),
            "{error}"
        );
        assert!(error.contains("spec.limits.requests"), "{error}");
    });
}

#[test]
fn a_changed_limit_of_requests_counts_on_old_connections_too() {
    let time = unique(600);
    let script = &format!("sleep {time}");
    let bench = Bench::new("  limits: {requests: 2}", script);
    let mut server = bench.serve("none", &[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let socket = bench.path("sockets/tried.sock");
    let mut old = runtime.block_on(Client::connect(&socket)).unwrap();
    runtime.block_on(old.check()).unwrap();
    bench.add("tried", "  limits: {requests: 1}", script);
    server.says("serving a changed definition");
    let parcel = Parcel { timeout: Duration::from_secs(3), ..bench.parcel() };
    thread::scope(|scope| {
        scope.spawn(|| bench.ask("tried", &["--timeout", "10m"]));
        eventually("a command", || sleeper(&time).is_some());
        let error = error_without(LATE, || {
            runtime.block_on(old.generate(&parcel)).unwrap_err().to_string()
        });
        server.kill();
        assert!(
            error.contains("no free place: the limit is 1 request of plugin tried at a time"),
            "{error}"
        );
    });
}

#[test]
fn a_raised_limit_of_requests_counts_for_those_that_wait_at_a_replaced_socket() {
    let bench = Bench::new("", FINE);
    let marks = bench.open_directory("marks");
    let script = format!(
        "cd {}; mktemp -d runXXXXXX >&2; until test -e go; do sleep 0.05; done; {FINE}",
        marks.display()
    );
    let run = |commands| {
        eventually("a command", || fs::read_dir(&marks).unwrap().count() == commands);
    };
    bench.add("tried", "  limits: {requests: 1}", &script);
    let server = bench.serve("none", &[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let socket = bench.path("sockets/tried.sock");
    let mut old = runtime.block_on(Client::connect(&socket)).unwrap();
    runtime.block_on(old.check()).unwrap();
    let parcel = Parcel { timeout: Duration::from_mins(2), ..bench.parcel() };
    thread::scope(|scope| {
        let first = scope.spawn(|| bench.ask("tried", &["--timeout", "2m"]));
        run(1);
        let second = scope.spawn(|| runtime.block_on(old.generate(&parcel)).map(drop));
        fs::remove_file(&socket).unwrap();
        server.says("a plugin has lost its socket");
        eventually("the socket", || socket.exists());
        bench.add("tried", "  limits: {requests: 2}", &script);
        run(2);
        fs::write(marks.join("go"), "").unwrap();
        assert_eq!(first.join().unwrap().code, Some(0));
        second.join().unwrap().unwrap();
    });
}

/// Requests whose streams are read first: four times as many as are read at a time.
const OTHERS: usize = 16;

#[test]
fn the_reason_of_an_ended_request_is_counted_although_its_client_leaves() {
    let bench = Bench::new("  limits: {timeout: 1s}", FINE);
    let server = bench.serve("none", &[]);
    let bytes = fs::read(bench.parcel().archive).unwrap();
    // The rest of these archives never comes, so their streams are read for two seconds
    // after their requests have ended. The last one waits for that when its client leaves.
    let times = [(0, 10_000); OTHERS].into_iter().chain([(100, 8_000)]).enumerate();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut pipes, mut clients) = (Vec::new(), JoinSet::new());
    for (number, (begin, stay)) in times {
        let archive = bench.path(&format!("fifo{number}"));
        mkfifo(&archive, Mode::S_IRWXU).unwrap();
        let mut pipe = File::options().read(true).write(true).open(&archive).unwrap();
        pipe.write_all(&bytes[..bytes.len() / 2]).unwrap();
        pipes.push(pipe);
        let parcel = Parcel { archive, ..bench.parcel() };
        let socket = bench.path("sockets/tried.sock");
        let client = async move {
            sleep(Duration::from_millis(begin)).await;
            let mut client = Client::connect(&socket).await.unwrap();
            timeout(Duration::from_millis(stay), client.generate(&parcel)).await.is_err()
        };
        clients.spawn_on(client, runtime.handle());
    }
    let left = runtime.block_on(clients.join_all());
    runtime.shutdown_background();
    assert!(left.contains(&true), "none waits for its answer");
    let log = retry(|| {
        let log = server.log();
        let ended = log.lines().filter(|line| line.contains("\"outcome\"")).count();
        if ended == OTHERS + 1 { Ok(log) } else { Err(format!("{ended} ended requests: {log}")) }
    });
    assert!(!log.contains("client_cancelled"), "{log}");
    assert_eq!(log.matches("spec.limits.timeout").count(), OTHERS + 1, "{log}");
}

#[test]
fn a_request_without_a_free_uid_names_its_deadline() {
    if !tiers().contains(&"uid") {
        return;
    }
    let time = unique(60);
    let bench = Bench::new("", &format!("sleep {time}"));
    bench.add("late", "  limits: {timeout: 1s}", FINE);
    let mut server = bench.serve("uid", &["--uid-range", &range(3)]);
    thread::scope(|scope| {
        scope.spawn(|| bench.ask("tried", &[]));
        eventually("a command", || sleeper(&time).is_some());
        let rendered = bench.ask("late", &[]);
        server.kill();
        let error = rendered.error();
        assert!(
            error.contains("no free place: the limit is 1 request at a time")
                && error.contains("--uid-range"),
            "{error}"
        );
        assert!(error.contains("spec.limits.timeout"), "{error}");
    });
}

#[test]
fn a_command_that_the_spawner_does_not_start_ends_at_the_deadline() {
    for tier in tiers() {
        let time = unique(60);
        let init = format!("  init: {{command: [sh, -c, 'sleep {time}; true']}}");
        let bench = Bench::new(&format!("{init}\n  limits: {{timeout: 15s}}"), FINE);
        let server = bench.serve(tier, &[]);
        let rendered = thread::scope(|scope| {
            let asked = scope.spawn(|| bench.ask("tried", &["--timeout", "60s"]));
            eventually("init", || sleeper(&time).is_some());
            let spawner = Pid::from_raw(server.spawner()).unwrap();
            kill_process(spawner, Signal::STOP).unwrap();
            // The command of init goes on, and ends.
            kill_process(sleeper(&time).unwrap(), Signal::KILL).unwrap();
            let rendered = asked.join().unwrap();
            kill_process(spawner, Signal::CONT).unwrap();
            rendered
        });
        let error = rendered.error();
        assert!(error.contains("spec.limits.timeout of 15.0s passed"), "{tier}: {error}");
        // In tier `uid`, the spawner also reports the end of init.
        let phase = if tier == "uid" { "phase init" } else { "phase generate" };
        assert!(error.contains(phase), "{tier}: {error}");
    }
}
