//! `spec.limits`.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::sandbox_settings::bench::{Bench, tiers};

const FINE: &str = "echo 'kind: A'";

#[test]
fn a_plugins_own_clock_is_named_when_it_stops_a_request() {
    for tier in tiers() {
        let began = Instant::now();
        let rendered = Bench::new("  limits: {timeout: 700ms}", "sleep 60").render(tier, &[]);
        let error = rendered.error();
        assert!(error.contains("the plugin's own spec.limits.timeout of 0.7s passed"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(20), "{tier}");
    }
}

#[test]
fn more_output_than_a_plugin_may_print_stops_it() {
    let bench = Bench::new("  limits: {output: 1Ki}", "head -c 4096 /dev/zero");
    let rendered = bench.render("none", &[]);
    let error = rendered.error();
    assert!(error.contains("it wrote more than 1Ki: raise"), "{error}");
    assert!(error.contains("spec.limits.output"), "{error}");
}

#[test]
fn fewer_manifests_than_demanded_are_refused() {
    let bench = |count| Bench::new(&format!("  limits: {{minimumManifests: {count}}}"), FINE);
    assert_eq!(bench(1).render("none", &[]).code, Some(0));
    let rendered = bench(2).render("none", &[]);
    let error = rendered.error();
    assert!(error.contains("error generating manifests: "), "{error}");
    assert!(error.contains("printed 1 manifest,"), "{error}");
    assert!(error.contains("minimumManifests demands at least 2"), "{error}");
}

#[test]
fn nothing_at_all_is_refused_where_something_is_demanded() {
    let bench = Bench::new("  limits: {minimumManifests: 1}", "true");
    assert!(bench.render("none", &[]).error().contains("printed 0 manifests"));
}

#[test]
fn a_plugins_requests_wait_for_each_other() {
    let spec = "  limits: {requests: 1}";
    let bench = Bench::new(spec, "sleep 1.5; echo 'kind: A'");
    bench.add("other", "", FINE);
    let _server = bench.serve("none", &[]);
    let began = Instant::now();
    thread::scope(|scope| {
        let first = scope.spawn(|| bench.ask("tried", &[]));
        let second = scope.spawn(|| bench.ask("tried", &[]));
        thread::sleep(Duration::from_millis(300));
        assert_eq!(bench.ask("other", &[]).code, Some(0), "others do not wait");
        assert!(began.elapsed() < Duration::from_millis(1400), "others do not wait");
        assert_eq!(first.join().unwrap().code, Some(0));
        assert_eq!(second.join().unwrap().code, Some(0));
    });
    assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
}

#[test]
fn a_request_that_finds_no_place_in_time_says_whose_limit_it_was() {
    let bench = Bench::new("  limits: {requests: 1}", "sleep 4; echo 'kind: A'");
    let _server = bench.serve("none", &[]);
    thread::scope(|scope| {
        scope.spawn(|| bench.ask("tried", &[]));
        thread::sleep(Duration::from_millis(500));
        let rendered = bench.ask("tried", &["--timeout", "1s"]);
        let error = rendered.error();
        assert!(
            error.contains("no free place: the limit is 1 request of plugin tried at a time"),
            "{error}"
        );
        assert!(error.contains("spec.limits.requests"), "{error}");
    });
}

#[test]
fn processor_time_that_is_used_up_is_named() {
    for tier in tiers() {
        let bench = Bench::new("  limits: {cpu: 1s}", "while :; do :; done");
        let rendered = bench.render(tier, &[]);
        let error = rendered.error();
        assert!(error.contains("failed signal: CPU time limit exceeded"), "{tier}: {error}");
        assert!(error.contains("limit of 1s of processor time"), "{tier}: {error}");
        assert!(error.contains("raise the plugin's spec.limits.cpu"), "{tier}: {error}");
    }
}

#[test]
fn a_file_that_grows_too_large_is_named() {
    for tier in tiers() {
        let script = "head -c 100000 /dev/zero > file";
        let rendered = Bench::new("  limits: {fileSize: 10k}", script).render(tier, &[]);
        let error = rendered.error();
        assert!(error.contains("a file reached the limit of 10k"), "{tier}: {error}");
        assert!(error.contains("spec.limits.fileSize"), "{tier}: {error}");
    }
}

#[test]
fn memory_that_is_not_to_be_had_is_named() {
    for tier in tiers() {
        let script = "dd if=/dev/zero of=/dev/null bs=200M count=1";
        let rendered = Bench::new("  limits: {memory: 32Mi}", script).render(tier, &[]);
        let error = rendered.error();
        assert!(error.contains("may have 32Mi of memory"), "{tier}: {error}");
    }
}

/// Whom an error is about.
const ABOUT: &str = "(plugin tried, application app, phase generate)";

#[test]
fn memory_of_all_processes_together_is_named() {
    for tier in tiers() {
        // Each holds 24 MB and is within its own limit.
        let hold = "h() { x=$(head -c 24000000 /dev/zero | tr '\\0' x); sleep 30; }";
        let script = format!("{hold}; h & h & h & h & wait");
        let rendered = Bench::new("  limits: {memory: 64Mi}", &script).render(tier, &[]);
        let error = rendered.error().trim_end();
        assert!(error.contains("took more than 64Mi of memory"), "{tier}: {error}");
        assert!(error.contains("[raise the plugin's spec.limits.memory]"), "{tier}: {error}");
        assert!(error.ends_with(ABOUT), "{tier}: {error}");
    }
}

#[test]
fn disk_that_all_files_together_take_is_named() {
    for tier in tiers() {
        let script = "for i in 1 2 3 4; do head -c 1000000 /dev/zero > $i; done; sleep 30";
        let rendered = Bench::new("  limits: {disk: 3Mi}", script).render(tier, &[]);
        let error = rendered.error().trim_end();
        assert!(error.contains("took more than 3Mi of disk"), "{tier}: {error}");
        assert!(error.contains("[raise the plugin's spec.limits.disk]"), "{tier}: {error}");
        assert!(error.ends_with(ABOUT), "{tier}: {error}");
    }
}

#[test]
fn too_many_files_are_named() {
    for tier in tiers() {
        let script = "for i in 1 2 3 4 5 6 7 8 9; do > $TMPDIR/$i; done; sleep 30";
        let bench = Bench::new("", script);
        let _server = bench.serve(tier, &["--max-files", "10"]);
        let rendered = bench.ask("tried", &[]);
        let error = rendered.error();
        assert!(error.contains("more than 10 files and directories"), "{tier}: {error}");
        let raise = "[raise --max-files, or give the plugin a spec.limits.files]";
        assert!(error.contains(raise), "{tier}: {error}");
    }
}

#[test]
fn what_is_within_its_limits_is_let_be() {
    for tier in tiers() {
        let script = "head -c 1000000 /dev/zero > file; sleep 1; echo 'kind: A'";
        let spec = "  limits: {memory: 64Mi, disk: 2Mi, files: 9}";
        let rendered = Bench::new(spec, script).render(tier, &[]);
        assert_eq!(rendered.code, Some(0), "{tier}: {}", rendered.stderr);
    }
}

#[test]
fn limits_of_0_are_none() {
    for tier in tiers() {
        let script = "head -c 1000000 /dev/zero > file; sleep 0.6; echo 'kind: A'";
        let spec = "  limits: {memory: 0, disk: 0, files: 0}";
        let flags = ["--max-disk", "10", "--max-files", "1"];
        let bench = Bench::new(spec, script);
        let _server = bench.serve(tier, &flags);
        let rendered = bench.ask("tried", &[]);
        assert_eq!(rendered.code, Some(0), "{tier}: {}", rendered.stderr);
    }
}

/// Only there is it known whose a file in a cache is.
#[test]
fn what_a_request_puts_into_its_caches_counts_where_it_has_its_own_user() {
    let spec = "  sandbox: {caches: [{name: store, env: STORE}]}\n  limits: {disk: 2Mi}";
    let script = "eval \"$ARGOCD_ENV_DO\"; sleep 0.5; echo 'kind: A'";
    for tier in tiers().into_iter().filter(|tier| matches!(*tier, "uid" | "namespaces")) {
        let bench = Bench::new(spec, script);
        let _server = bench.serve(tier, &["--max-requests", "1"]);
        let say = |what: &str| bench.ask("tried", &["--env", &format!("DO={what}")]);
        let fill = "mkdir $STORE/d; head -c 1500000 /dev/zero > $STORE/d/";
        assert_eq!(say(&format!("{fill}1")).code, Some(0), "{tier}");
        // So often that one of these has the first one's user again. What that
        // one made would be too much together with this.
        for _ in 0..9 {
            let rendered = say("head -c 1000000 /dev/zero > file");
            assert_eq!(rendered.code, Some(0), "{tier}: what was there: {}", rendered.stderr);
        }
        let over =
            say("mkdir $STORE/e; for i in 1 2; do head -c 1500000 /dev/zero > $STORE/e/$i; \
                        done; sleep 30");
        assert!(over.error().contains("more than 2Mi of disk"), "{tier}: {}", over.stderr);
    }
}

#[test]
fn processes_that_are_not_to_be_had_are_named() {
    for tier in tiers().into_iter().filter(|tier| matches!(*tier, "uid" | "namespaces")) {
        let script = "for i in 1 2 3 4 5 6 7 8; do sleep 2 & done; wait";
        let rendered = Bench::new("  limits: {processes: 4}", script).render(tier, &[]);
        let error = rendered.error();
        assert!(error.contains("may have 4 processes"), "{tier}: {error}");
        assert!(error.contains("spec.limits.processes"), "{tier}: {error}");
    }
}
