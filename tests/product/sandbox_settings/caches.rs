//! `spec.sandbox.caches`.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::sandbox_settings::bench::{Bench, Server, tiers};

const SPEC: &str = "  sandbox: {caches: [{name: store, env: STORE}]}";

/// Runs the command in `DO` in the cache's directory and prints its output.
const SCRIPT: &str = r#"cd "${STORE-/}"; echo "kind: A"
printf "said: \"%s\"\n" "$(eval "$ARGOCD_ENV_DO" 2>&1 | tr "\n\"" " '")""#;

fn serve(tier: &str) -> (Bench, Server) {
    let bench = Bench::new(SPEC, SCRIPT);
    let server = bench.serve(tier, &["--max-requests", "4"]);
    (bench, server)
}

fn say(bench: &Bench, plugin: &str, what: &str) -> String {
    let rendered = bench.ask(plugin, &["--env", &format!("DO={what}")]);
    rendered.value("said").trim().to_owned()
}

/// Repeats a request until the output is `expected`, because cleanup runs after
/// the answer. Makes fewer requests than there are UIDs, so that the first UID,
/// which owns the files, is not leased again.
#[track_caller]
fn says_eventually(bench: &Bench, what: &str, expected: &str) {
    let mut said = String::new();
    for _ in 0..3 {
        said = say(bench, "tried", what);
        if said == expected {
            return;
        }
        thread::sleep(Duration::from_millis(300));
    }
    panic!("{what}: expected {expected:?}, got {said:?}");
}

fn await_path(path: &Path) {
    let until = Instant::now() + Duration::from_secs(10);
    while !path.exists() {
        assert!(Instant::now() < until, "{} does not come", path.display());
        thread::sleep(Duration::from_millis(20));
    }
}

fn cache(bench: &Bench) -> PathBuf {
    bench.path("work/_cmp_caches/tried/store")
}

#[test]
fn files_of_one_request_are_there_for_the_next() {
    for tier in tiers() {
        let (bench, _server) = serve(tier);
        assert_eq!(say(&bench, "tried", "echo one > file; id -u"), uid_of(&bench, tier));
        assert_eq!(say(&bench, "tried", "cat file"), "one", "{tier}");
    }
}

/// The UID that owns the first request's file.
fn uid_of(bench: &Bench, tier: &str) -> String {
    let uid = fs::metadata(cache(bench).join("file")).unwrap().uid();
    assert_eq!(uid == 999, !matches!(tier, "uid" | "namespaces"), "{tier}: {uid}");
    uid.to_string()
}

#[test]
fn files_with_closed_modes_are_open_to_the_next_request() {
    for tier in tiers() {
        let (bench, _server) = serve(tier);
        let made = "mkdir -m 0755 d; mkdir -m 0700 e; echo one > d/f; chmod 0600 d/f";
        assert_eq!(say(&bench, "tried", made), "", "{tier}");
        says_eventually(&bench, "cat d/f", "one");
        says_eventually(&bench, "echo two > d/f && cat d/f", "two");
        says_eventually(&bench, "touch d/new e/new && rm -r d e && ls", "");
    }
}

#[test]
fn programs_in_a_cache_stay_executable() {
    for tier in tiers() {
        let (bench, _server) = serve(tier);
        say(&bench, "tried", "printf \"#!/bin/sh\\necho ran\\n\" > p; chmod 0700 p");
        says_eventually(&bench, "./p", "ran");
    }
}

#[test]
fn concurrent_requests_share_files_with_usual_modes() {
    for tier in tiers() {
        let (bench, _server) = serve(tier);
        thread::scope(|scope| {
            // Renamed into place, so that the other request never reads it empty.
            let made = "mkdir d; echo one > d/t; mv d/t d/f; sleep 2; cat d/g";
            let first = scope.spawn(|| say(&bench, "tried", made));
            await_path(&cache(&bench).join("d/f"));
            assert_eq!(say(&bench, "tried", "echo two > d/g; cat d/f"), "one", "{tier}");
            assert_eq!(first.join().unwrap(), "two", "{tier}");
        });
    }
}

#[test]
fn another_plugin_has_no_access_to_a_cache() {
    for tier in tiers().into_iter().filter(|tier| *tier != "none") {
        let bench = Bench::new(SPEC, SCRIPT);
        bench.add("other", SPEC, SCRIPT);
        bench.add("without", "", SCRIPT);
        let _server = bench.serve(tier, &[]);
        say(&bench, "tried", "echo secret > file; chmod 0777 .; chmod 0666 file");
        let path = cache(&bench);
        let path = path.display();
        for plugin in ["other", "without"] {
            for attack in [
                format!("cat {path}/file"),
                format!("ls {path}"),
                format!("ls {path}/.."),
                format!("ls {path}/../.."),
                format!("touch {path}/planted"),
                format!("echo x > {path}/file"),
            ] {
                let said = say(&bench, plugin, &attack);
                let refused = ["Permission denied", "No such file", "nonexistent"];
                assert!(refused.iter().any(|why| said.contains(why)), "{tier} {attack}: {said}");
            }
        }
        assert_eq!(say(&bench, "tried", "cat file; ls"), "secret file", "{tier}");
        if matches!(tier, "uid" | "namespaces") {
            closed_without_landlock(&bench);
        }
    }
}

/// Without Landlock, the modes keep owners' directories apart, each by its group.
fn closed_without_landlock(bench: &Bench) {
    let about = |owner: &str| fs::metadata(bench.path("work/_cmp_caches").join(owner)).unwrap();
    let (tried, other) = (about("tried"), about("other"));
    for about in [&tried, &other] {
        assert_eq!((about.mode() & 0o7777, about.uid()), (0o750, 0));
        assert!(about.gid() > 60_706, "{}", about.gid());
    }
    assert_ne!(tried.gid(), other.gid());
}

#[test]
fn caches_outlive_the_supervisor() {
    for tier in tiers() {
        let (bench, mut server) = serve(tier);
        say(&bench, "tried", "mkdir -m 0755 d; echo one > d/f");
        server.stop();
        let _server = bench.serve(tier, &["--max-requests", "4"]);
        assert_eq!(say(&bench, "tried", "echo two > d/g; cat d/f"), "one", "{tier}");
    }
}

#[test]
fn a_plugin_finds_all_its_caches() {
    let bench = Bench::new(
        "  sandbox: {caches: [{name: one, env: ONE}, {name: two, env: HELM_CACHE_HOME}]}",
        "echo 'kind: A'; touch \"$ONE/f\" \"$HELM_CACHE_HOME/f\"; echo \"said: $ONE \
         $HELM_CACHE_HOME\"",
    );
    for tier in tiers() {
        let rendered = bench.render(tier, &[]);
        let said = rendered.value("said");
        assert!(said.contains("/_cmp_caches/tried/one "), "{tier}: {said}");
        assert!(said.ends_with("/_cmp_caches/tried/two"), "{tier}: {said}");
    }
}

#[test]
fn a_plugin_whose_name_is_not_a_file_name_gets_no_cache() {
    let bench = Bench::new("", "true");
    fs::remove_file(bench.path("plugins/tried.yaml")).unwrap();
    bench.add("\"..\"", SPEC, SCRIPT);
    let rendered = bench.render("none", &["--plugin", ".."]);
    assert!(rendered.error().contains("`..` cannot be part of a cache's path"));
}
