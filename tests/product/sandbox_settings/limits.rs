//! `spec.limits`.

use std::{
    fs::{self, File},
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::geteuid;

use crate::{
    mounted::InMemory,
    sandbox_settings::{
        bench::{Bench, FINE, Rendered, tiers},
        network::has_python,
    },
    skip::skip,
};

#[test]
fn an_error_names_the_plugins_own_timeout() {
    for tier in tiers() {
        let began = Instant::now();
        let rendered = Bench::new("  limits: {timeout: 700ms}", "sleep 60").render(tier, &[]);
        let error = rendered.error();
        assert!(error.contains("the plugin's own spec.limits.timeout of 0.7s passed"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(50), "{tier}");
    }
}

#[test]
fn too_much_output_stops_a_plugin() {
    const LIMIT: &str = "  limits: {output: 1Ki}";
    let init = format!("{LIMIT}\n  init: {{command: [head, -c, '4096', /dev/zero]}}");
    for (spec, script, remedy) in [
        (LIMIT, "head -c 4096 /dev/zero", "[raise the plugin's spec.limits.output]"),
        (&init, FINE, "[let init write to /dev/null, because its output is dropped, or raise the"),
    ] {
        let rendered = Bench::new(spec, script).render("none", &[]);
        let error = rendered.error();
        assert!(error.contains(&format!("it wrote more than 1Ki {remedy}")), "{error}");
    }
}

#[test]
fn the_remedy_for_a_large_repository_fits_the_origin_of_the_limit() {
    if !geteuid().is_root() {
        return skip("needs root, to mount");
    }
    let bench = Bench::new("", FINE);
    File::create(bench.path("app/large")).and_then(|file| file.set_len(32 << 20)).unwrap();
    let work = bench.path("work");
    fs::create_dir(&work).unwrap();
    let _volume = InMemory::at(&work, "size=16m,mode=0777");
    let error = |arguments: &[&str]| {
        let mut server = bench.serve("none", arguments);
        let rendered = bench.ask("tried", &[]);
        server.stop();
        rendered.error().to_owned()
    };
    let of_volume = error(&[]);
    assert!(
        of_volume
            .contains("volume had no more for requests when the supervisor started: raise its"),
        "{of_volume}"
    );
    assert!(!of_volume.contains("--max-repository"), "{of_volume}");
    let of_flag = error(&["--max-repository", "1Mi"]);
    assert!(of_flag.contains("more than 1Mi of files: raise --max-repository, or"), "{of_flag}");
    assert!(!of_flag.contains("volume"), "{of_flag}");
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
fn an_empty_output_is_refused_if_manifests_are_demanded() {
    let bench = Bench::new("  limits: {minimumManifests: 1}", "true");
    assert!(bench.render("none", &[]).error().contains("printed 0 manifests"));
}

/// The request that an error names.
const ABOUT: &str = "(plugin tried, application app, phase generate)";

/// Limits of a definition, scripts that exceed them, and texts of the error.
const EXCEEDED: [(&str, &str, [&str; 2]); 5] = [
    (
        "cpu: 1s",
        "while :; do :; done",
        ["failed signal: CPU time limit exceeded", "limit of 1s of CPU time"],
    ),
    (
        "fileSize: 10k",
        "head -c 100000 /dev/zero > file",
        ["a file reached the limit of 10k", "raise the plugin's spec.limits.fileSize"],
    ),
    (
        "memory: 32Mi",
        "dd if=/dev/zero of=/dev/null bs=200M count=1",
        ["may have 32Mi of memory", "raise the plugin's spec.limits.memory"],
    ),
    // Each process holds 24 MB and stays within its own limit.
    (
        "memory: 64Mi",
        "h() { x=$(head -c 24000000 /dev/zero | tr '\\0' x); sleep 30; }; h & h & h & h & wait",
        ["took more than 64Mi of memory", "[raise the plugin's spec.limits.memory]"],
    ),
    (
        "disk: 3Mi",
        "for i in 1 2 3 4; do head -c 1000000 /dev/zero > $i; done; sleep 30",
        ["took more than 3Mi of disk", "[raise the plugin's spec.limits.disk]"],
    ),
];

#[test]
fn an_error_names_the_limit_its_key_and_the_request() {
    for (tier, (limit, script, texts)) in
        tiers().into_iter().flat_map(|tier| EXCEEDED.map(|exceeded| (tier, exceeded)))
    {
        let rendered = Bench::new(&format!("  limits: {{{limit}}}"), script).render(tier, &[]);
        let error = rendered.error().trim_end();
        let (key, _) = limit.split_once(':').unwrap();
        for text in texts.into_iter().chain([&*format!("spec.limits.{key}"), ABOUT]) {
            assert!(error.contains(text), "{tier}: {limit}: {error}");
        }
    }
}

/// The command itself ends before anybody would look at it.
#[test]
fn processes_that_hold_the_output_of_a_command_that_ended_are_measured() {
    for tier in tiers() {
        let fill = "for i in 1 2 3 4; do head -c 1000000 /dev/zero > $i; done";
        let script = format!("({fill}; while :; do echo '# x'; sleep 0.3; done) & exit 0");
        let bench = Bench::new("  limits: {disk: 3Mi, timeout: 60s}", &script);
        let rendered = bench.render(tier, &[]);
        let error = rendered.error();
        assert!(error.contains("took more than 3Mi of disk"), "{tier}: {error}");
    }
}

#[test]
fn files_in_directories_in_memory_of_its_own_count_for_a_request() {
    if !tiers().contains(&"namespaces") {
        return;
    }
    let script = "head -c 40M /dev/zero >/tmp/a; head -c 40M /dev/zero >/dev/shm/b; sleep 60";
    let rendered = Bench::new("  limits: {memory: 64Mi}", script).render("namespaces", &[]);
    let error = rendered.error();
    assert!(error.contains("raise the plugin's spec.limits.memory"), "{error}");
}

#[test]
fn an_error_names_the_limit_of_files() {
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
fn a_request_within_its_limits_succeeds() {
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

/// Only with separate UIDs is it known which request wrote a file in a cache.
#[test]
fn files_in_caches_count_with_separate_uids() {
    let spec = "  sandbox: {caches: [{name: store, env: STORE}]}\n  limits: {disk: 2Mi}";
    // Argo CD replaces references in values of variables; `$$` is a dollar sign.
    let script = "eval \"$ARGOCD_ENV_DO\"; sleep 0.5; echo 'kind: A'";
    for tier in tiers().into_iter().filter(|tier| matches!(*tier, "uid" | "namespaces")) {
        let bench = Bench::new(spec, script);
        let _server = bench.serve(tier, &["--max-requests", "1"]);
        let say = |what: &str| bench.ask("tried", &["--env", &format!("DO={what}")]);
        let fill = "mkdir $$STORE/d; head -c 1500000 /dev/zero > $$STORE/d/";
        assert_eq!(say(&format!("{fill}1")).code, Some(0), "{tier}");
        // Enough requests for the first UID to be leased again. If its old files
        // counted, this request would exceed the limit.
        for _ in 0..9 {
            let rendered = say("head -c 1000000 /dev/zero > file");
            assert_eq!(rendered.code, Some(0), "{tier}: what was there: {}", rendered.stderr);
        }
        let over =
            say("mkdir $$STORE/e; for i in 1 2; do head -c 1500000 /dev/zero > $$STORE/e/$$i; \
                        done; sleep 30");
        assert!(over.error().contains("more than 2Mi of disk"), "{tier}: {}", over.stderr);
    }
}

#[test]
fn an_error_names_the_limit_of_processes() {
    for tier in tiers().into_iter().filter(|tier| matches!(*tier, "uid" | "namespaces")) {
        let script = "for i in 1 2 3 4 5 6 7 8; do sleep 5 & done; wait";
        let rendered = Bench::new("  limits: {processes: 4}", script).render(tier, &[]);
        let error = rendered.error();
        assert!(error.contains("may have 4 processes"), "{tier}: {error}");
        assert!(error.contains("spec.limits.processes"), "{tier}: {error}");
    }
}

/// Half of the CPU time that a request may cost for a list of its watches, in seconds. A
/// machine whose kernel needs more ends the request too, but without the limit's name.
const MOST_LISTING_TIME: f64 = 0.25;

/// The CPU time in which the kernel lists the watches that this program takes.
fn listing_time(take: &str) -> f64 {
    let list = "begin = time.process_time()\nfor epoll in kept: \
                open(f'/proc/self/fdinfo/{epoll.fileno()}', 'rb').read()\n\
                print(time.process_time() - begin)";
    let output = Command::new("python3").args(["-c", &format!("{take}\n{list}")]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number of seconds")
}

/// Maps and deletes three files of this many MiB in each directory, and then works.
const HIDE: &str = "import mmap, os, sys, time
kept = []
for place in sys.argv[2:]:
    for number in range(3):
        file = os.open(place + \"/hidden\", os.O_RDWR | os.O_CREAT)
        os.write(file, bytes(int(sys.argv[1]) << 20))
        kept.append(mmap.mmap(file, 4096))
        os.remove(place + \"/hidden\")
        os.closerange(3, 99)
while time.process_time() < 3: pass";

/// The answer to a request on a work volume in memory.
fn in_memory(tier: &str, limits: &str, script: &str) -> Rendered {
    let bench = Bench::new(&format!("  limits: {{{limits}}}"), script);
    let work = bench.path("work");
    fs::create_dir(&work).unwrap();
    let _volume = InMemory::at(&work, "size=256m,mode=0777");
    let mut server = bench.serve(tier, &[]);
    let rendered = bench.ask("tried", &[]);
    server.stop();
    rendered
}

#[test]
fn a_program_may_map_libraries_that_it_has_deleted() {
    if !geteuid().is_root() || !has_python() {
        return skip("needs root, to mount, and python3");
    }
    for tier in tiers() {
        let places = if tier == "namespaces" { "$TMPDIR /dev/shm" } else { "$TMPDIR" };
        let script = format!("python3 -c '{HIDE}' 2 {places} && {FINE}");
        let rendered = in_memory(tier, "", &script);
        assert_eq!(rendered.code, Some(0), "{tier}: {}", rendered.stderr);
    }
}

#[test]
fn files_that_are_mapped_and_deleted_cannot_take_more_than_the_limit() {
    if !geteuid().is_root() || !has_python() {
        return skip("needs root, to mount, and python3");
    }
    for tier in tiers() {
        let script = format!("python3 -c '{HIDE}' 8 $TMPDIR");
        let rendered = in_memory(tier, "disk: 16Mi, fileSize: 10Mi", &script);
        let error = rendered.error();
        assert!(error.contains("each of them may have 10Mi [give the plugin a lower"), "{error}");
    }
}

#[test]
fn a_request_that_takes_the_watches_of_its_uid_is_ended() {
    let most = fs::read_to_string("/proc/sys/fs/epoll/max_user_watches").unwrap();
    let most: u64 = most.trim().parse().unwrap();
    if most > 20_000_000 {
        return skip("needs less than 90 GB of memory: more watches take too many descriptors");
    }
    // Each instance watches copies of one descriptor.
    let take = format!(
        "import os, select, time\nread, _ = os.pipe()\ncopies = [os.dup(read) for _ in range(3000)]\n\
         kept = [select.epoll() for _ in range({} // 3000 + 2)]\nfor epoll in kept:\n    for copy in \
         copies: epoll.register(copy, 1)",
        most / 16
    );
    let is_slow = has_python() && listing_time(&take) > MOST_LISTING_TIME;
    let script = format!("python3 -c '{take}\ntime.sleep(60)'");
    let shared = |tier: &&str| matches!(*tier, "landlock" | "none") && has_python();
    for tier in tiers().into_iter().filter(shared) {
        let rendered = Bench::new("  limits: {memory: unlimited}", &script).render(tier, &[]);
        let error = rendered.error();
        if is_slow && error.contains("its use of memory and disk could not be measured") {
            continue;
        }
        assert!(error.contains("fs.epoll.max_user_watches"), "{tier}: {error}");
        assert!(error.contains("use --isolation uid or namespaces"), "{tier}: {error}");
    }
}

#[test]
fn stacks_have_the_size_that_they_have_outside() {
    // Each thread of Node.js gets one, and they count as memory.
    let script = "echo \"kind: S$(ulimit -s)\"";
    let output = Command::new("sh").args(["-c", "ulimit -s"]).output().unwrap();
    let outside = String::from_utf8(output.stdout).unwrap();
    let is_small = |size: &u64| *size <= 64 * 1024;
    let size = outside.trim().parse().ok().filter(is_small).unwrap_or(8 * 1024);
    for tier in tiers() {
        let rendered = Bench::new("  limits: {memory: 128Mi}", script).render(tier, &[]);
        let expected = format!("S{size}");
        assert_eq!(rendered.manifests()[0]["kind"], *expected, "{tier}: {}", rendered.stderr);
    }
}
