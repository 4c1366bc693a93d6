//! The kernel's order of victims when memory runs out.

use std::{fs, thread};

use crate::{
    sandbox_settings::bench::{Bench, tiers},
    waiting::{eventually, retry},
};

/// Argument of the command, by which the test finds its process.
const MARK: &str = "86399.25";

#[test]
fn commands_are_killed_before_the_supervisor_and_the_spawner() {
    let own = score("self");
    for tier in tiers() {
        let bench = Bench::new("", &format!("sleep {MARK}"));
        let mut server = bench.serve(tier, &[]);
        thread::scope(|scope| {
            let request = scope.spawn(|| bench.ask("tried", &["--timeout", "60s"]));
            let command = retry(|| commands().pop().ok_or("the command"));
            assert_eq!(score(&command), "1000", "{tier}");
            assert_eq!(score(&server.pid().to_string()), own, "{tier}: the supervisor");
            let spawner = server.spawner().to_string();
            assert_eq!(score(&spawner), own, "{tier}: the spawner");
            server.kill();
            request.join().unwrap().error();
            eventually("the end of the command", || commands().is_empty());
        });
    }
}

fn score(process: &str) -> String {
    let score = fs::read_to_string(format!("/proc/{process}/oom_score_adj"));
    score.unwrap_or_else(|error| panic!("{process}: {error}")).trim().to_owned()
}

fn commands() -> Vec<String> {
    let wanted = format!("sleep\0{MARK}\0");
    let line = |pid: &String| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let pids = cmp_procfs::pids().unwrap().into_iter().map(|pid| pid.to_string());
    pids.filter(|pid| line(pid) == wanted.as_bytes()).collect()
}
