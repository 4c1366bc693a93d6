//! The timeout of commands, and the time that they have to end.

use std::{fs, path::Path, process::Command, thread};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::{
    mounted::Silent,
    sandbox_settings::{
        bench::{Bench, Rendered, tiers},
        healing::{all_on_standby, killers_on_standby, sleeper, sleeps_before_all, unique},
    },
    skip::skip,
    spawned::children,
    waiting::{eventually, one_of_few, retry},
};

#[test]
fn an_error_names_the_timeout_of_commands() {
    let flag = (Bench::new("", "sleep 60"), ["--exec-timeout", "600ms"].as_slice());
    let variable = Bench::new("", "sleep 60").with("ARGOCD_EXEC_TIMEOUT", "600ms");
    for (bench, flags) in [flag, (variable, &[])] {
        let _server = bench.serve("none", flags);
        let rendered = bench.ask("tried", &["--timeout", "60s"]);
        let expected = "the command's timeout of 0.6s passed: raise --exec-timeout (or \
                        $ARGOCD_EXEC_TIMEOUT), or give the plugin a spec.limits.timeout (plugin \
                        tried, application app, phase generate)";
        assert!(rendered.error().contains(expected), "{}", rendered.stderr);
    }
}

#[test]
fn each_command_has_the_whole_timeout() {
    let init = "  init: {command: [sh, -c, 'sleep 8']}";
    let bench = Bench::new(init, "sleep 8; echo 'kind: A'");
    let _server = bench.serve("none", &["--exec-timeout", "15s"]);
    assert_eq!(bench.ask("tried", &["--timeout", "60s"]).value("kind"), "A");
}

#[test]
fn a_plugins_own_timeout_replaces_that_of_commands() {
    let bench = Bench::new("  limits: {timeout: 50s}", "sleep 1; echo 'kind: A'");
    let _server = bench.serve("none", &["--exec-timeout", "200ms"]);
    assert_eq!(bench.ask("tried", &["--timeout", "60s"]).value("kind"), "A");
}

#[test]
fn a_command_has_the_time_to_end_that_the_operator_grants() {
    // The default of 5 s is too short for this command.
    // A signal before `wait` would count only at the end of what is waited for.
    let script = "trap 'sleep 6; touch $MARKS/late; exit' TERM; touch $MARKS/ready; \
                  while :; do sleep 0.1; done";
    let bench = Bench::new("", script).with("ARGOCD_EXEC_FATAL_TIMEOUT", "50s");
    let marks = bench.open_directory("marks");
    let bench = bench.with("MARKS", marks.to_str().unwrap());
    let _server = bench.serve("none", &["--exec-timeout", "3s"]);
    let rendered = one_of_few("a command that has set its trap", || {
        let rendered = bench.ask("tried", &["--timeout", "60s"]);
        marks.join("ready").exists().then_some(rendered)
    });
    assert!(rendered.error().contains("the command's timeout of 3.0s"), "{}", rendered.stderr);
    eventually("the end of a command that was not killed", || marks.join("late").exists());
}

#[test]
fn a_command_that_has_time_to_end_keeps_its_limits() {
    let fill = "for i in 1 2 3 4; do head -c 1000000 /dev/zero > late-$i; done";
    for tier in tiers() {
        let bench = Bench::new("", "");
        let gate = bench.path("gate");
        fs::create_dir(&gate).unwrap();
        let waits =
            format!("touch late; until test -e {}/open; do sleep 0.1; done", gate.display());
        // Nobody reads what the shell says about its children that a signal has ended.
        let script = format!(
            "exec 2> /dev/null; trap '{waits}; {fill}; while :; do sleep 1; done' TERM; \
             touch ready; while :; do sleep 0.1; done"
        );
        let spec = format!("  limits: {{disk: 3Mi}}\n  sandbox: {{read: [{}]}}", gate.display());
        bench.add("tried", &spec, &script);
        let bench = bench.with("ARGOCD_EXEC_FATAL_TIMEOUT", "10m");
        let _server = bench.serve(tier, &["--exec-timeout", "3s"]);
        let has = |name| has_file(&bench.path("work"), name);
        let rendered = one_of_few("a command that has set its trap", || {
            let rendered = bench.ask("tried", &["--timeout", "60s"]);
            has("ready").then_some(rendered)
        });
        assert!(rendered.error().contains("timeout of 3.0s"), "{tier}: {}", rendered.stderr);
        eventually(&format!("{tier}: its file"), || has("late"));
        fs::write(gate.join("open"), "").unwrap();
        eventually(&format!("{tier}: the end of its files"), || !has("late"));
    }
}

/// Their processes may have ended before their leases are released.
#[test]
fn files_of_commands_that_have_ended_do_not_wait_for_the_time_to_end() {
    for tier in tiers() {
        let time = unique(60);
        let bench = Bench::new("", &format!("touch ended; sleep {time}"))
            .with("ARGOCD_EXEC_FATAL_TIMEOUT", "10m");
        let _server = bench.serve(tier, &[]);
        let ask_all = || {
            thread::scope(|scope| {
                let ask = || bench.ask("tried", &["--timeout", "2s"]);
                let asked: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
                let has_begun = sleeps_before_all(&time, &asked);
                for one in asked {
                    let rendered = one.join().unwrap();
                    let expected = "raise --timeout";
                    assert!(rendered.error().contains(expected), "{tier}: {}", rendered.stderr);
                }
                has_begun.then_some(())
            })
        };
        one_of_few("a command that has begun", ask_all);
        let what = format!("{tier}: the end of all files");
        eventually(&what, || !has_file(&bench.path("work"), "ended"));
    }
}

/// A server that gets little of the processor learns of both at once.
#[test]
fn a_client_that_gave_up_at_its_deadline_has_not_cancelled() {
    const CLIENTS: usize = 2;
    let time = unique(60);
    let bench = Bench::new("", &format!("sleep {time}; true"));
    let server = bench.serve("none", &[]);
    let supervisor = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
    for clients in 1..=CLIENTS {
        thread::scope(|scope| {
            let asked = scope.spawn(|| bench.ask("tried", &["--timeout", "10s"]));
            eventually("the command", || sleeper(&time).is_some());
            kill_process(supervisor, Signal::STOP).unwrap();
            let rendered = asked.join().unwrap();
            kill_process(supervisor, Signal::CONT).unwrap();
            assert!(rendered.error().contains("raise --timeout"), "{}", rendered.stderr);
        });
        let ended = "\"method\":\"generate\",\"msg\":\"request\",";
        eventually("the end of the call", || server.log().matches(ended).count() == clients);
        eventually("the end of the command", || sleeper(&time).is_none());
    }
    let log = server.log();
    assert_eq!(log.matches("\"outcome\":\"deadline\"").count(), CLIENTS, "{log}");
    assert_eq!(log.matches("the client's deadline of 10.0s passed").count(), CLIENTS, "{log}");
}

/// The first SIGTERM, for the last output, may come late on a busy machine.
#[test]
fn a_command_keeps_its_time_to_end_if_the_first_signal_comes_late() {
    for tier in tiers().into_iter().filter(|tier| ["namespaces", "uid"].contains(tier)) {
        let (runs, ends) = (unique(60), unique(60));
        let script = format!("trap 'trap \"\" TERM; exec sleep {ends}' TERM; sleep {runs} & wait");
        let bench = Bench::new("", &script).with("ARGOCD_EXEC_FATAL_TIMEOUT", "50s");
        let server = bench.serve(tier, &["--exec-timeout", "15s"]);
        let spawner = server.spawner();
        let standby = || killers_on_standby(spawner);
        let signal = |pid: i32, signal| kill_process(Pid::from_raw(pid).unwrap(), signal);
        let stopped = thread::scope(|scope| {
            let asked = scope.spawn(|| bench.ask("tried", &["--timeout", "60s"]));
            eventually("the command", || sleeper(&runs).is_some());
            eventually("all on standby", || standby().len() == all_on_standby(tier));
            let stopped = standby();
            for pid in &stopped {
                signal(*pid, Signal::STOP).unwrap();
            }
            assert!(asked.join().unwrap().error().contains("timeout of 15.0s"), "{tier}");
            stopped
        });
        // One has the order to send the first signal, and one the order to send the last
        // one and to wait for the end. Others replace them.
        eventually("both orders", || standby().len() == all_on_standby(tier) + 2);
        signal(stopped[0], Signal::CONT).unwrap();
        eventually("the end of the first", || signal(stopped[0], Signal::CONT).is_err());
        eventually("the rest of the command", || sleeper(&ends).is_some());
        for pid in &stopped[1..] {
            signal(*pid, Signal::CONT).unwrap();
        }
        let killers = || children(spawner, &["cmp-killer", "cmp-ender"]);
        eventually("the second", || killers().contains(&stopped[1]));
        let rest = sleeper(&ends).unwrap_or_else(|| panic!("{tier}: killed too early"));
        kill_process(rest, Signal::KILL).unwrap();
    }
}

fn has_file(directory: &Path, name: &str) -> bool {
    let found = Command::new("find").arg(directory).args(["-name", name]).output().unwrap();
    !found.stdout.is_empty()
}

#[test]
fn variables_of_argo_cd_that_cannot_be_read_are_reported() {
    let bench = Bench::new("", "echo 'kind: A'").with("ARGOCD_EXEC_TIMEOUT", "90");
    let server = bench.serve("none", &[]);
    assert_eq!(bench.ask("tried", &[]).value("kind"), "A");
    let reason = "ARGOCD_EXEC_TIMEOUT is \\\"90\\\": expected a duration, for example 90s";
    server.says(reason);
}

/// A plugin whose requests have this many seconds.
fn add_timed(bench: &Bench, name: &str, seconds: u32, spec: &str) {
    let text = format!(
        "kind: ConfigManagementPlugin\nmetadata: {{name: {name}}}\nspec: {{{spec}, limits: {{timeout: \
         {seconds}s}}}}\n"
    );
    fs::write(bench.path("plugins").join(format!("{name}.yaml")), text).unwrap();
}

/// The worker of such a request never says that its command runs. In `namespaces`, its root
/// is made of earlier mounts.
#[test]
fn a_worker_that_waits_for_storage_ends_at_the_deadline_and_holds_up_no_other() {
    if !geteuid().is_root() {
        return skip("needs root, to mount");
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("below").display().to_string();
    for tier in tiers().into_iter().filter(|tier| *tier != "namespaces") {
        let time = unique(60);
        fs::create_dir_all(&path).unwrap();
        let bench = Bench::new("", "echo 'kind: A'");
        let read = format!("generate: {{command: ['true']}}, sandbox: {{read: [{path}]}}");
        // A command that cannot be measured is stopped after 5 s. The others have time for steps.
        add_timed(&bench, "program", 4, &format!("generate: {{command: [{path}]}}"));
        add_timed(&bench, "reader", 12, &read);
        let init = format!("init: {{command: [sh, -c, 'sleep {time}; true']}}");
        add_timed(&bench, "second", 12, &format!("{init}, {read}"));
        let server = bench.serve(tier, &[]);
        let ask = |plugin| bench.ask(plugin, &["--timeout", "60s"]);
        let (silent, answers) = thread::scope(|scope| {
            let second = scope.spawn(|| ask("second"));
            let init = retry(|| sleeper(&time).ok_or("init"));
            let silent = Silent::mount(place.path());
            kill_process(init, Signal::KILL).unwrap();
            // On a busy machine, its few seconds may end before its command is started.
            let is_early = |rendered: &Rendered| {
                ["phase queue", "phase receive"].iter().any(|phase| rendered.stderr.contains(phase))
            };
            let program = move || {
                one_of_few("a command", || Some(ask("program")).filter(|one| !is_early(one)))
            };
            let asked = [second, scope.spawn(|| ask("reader")), scope.spawn(program)];
            (silent, asked.map(|one| one.join().unwrap()))
        });
        let Some(_silent) = silent else { return skip("needs /dev/fuse") };
        let expected =
            [("second", "generate", 12), ("reader", "receive", 12), ("program", "generate", 4)];
        for ((plugin, phase, seconds), rendered) in expected.into_iter().zip(answers) {
            let expected = format!(
                "the plugin's own spec.limits.timeout of {seconds}.0s passed: raise it (plugin {plugin}, \
                 application app, phase {phase})"
            );
            assert!(rendered.error().contains(&expected), "{tier}: {}", rendered.stderr);
            assert_eq!(bench.ask("tried", &[]).value("kind"), "A", "{tier}: {}", server.log());
        }
    }
}
