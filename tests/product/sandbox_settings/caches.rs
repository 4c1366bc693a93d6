//! `spec.sandbox.caches`.

use std::{
    fs::{self, DirEntry},
    os::unix::fs::{MetadataExt, chown},
    path::PathBuf,
    thread,
};

use crate::{
    sandbox_settings::{
        bench::{Bench, Server, isolating_tiers, tiers},
        healing::{sleeps_before_all, unique},
        network::has_python,
    },
    skip::skip,
    waiting::{eventually, one_of_few},
};

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

/// Waits for the end of all earlier requests, which is after their answers, and compares
/// the output of one more.
#[track_caller]
fn says_then(bench: &Bench, what: &str, expected: &str) {
    all_ended(bench);
    assert_eq!(say(bench, "tried", what), expected, "{what}");
}

/// Waits until no request has a workspace.
#[track_caller]
pub(super) fn all_ended(bench: &Bench) {
    let has_request = |entry: DirEntry| {
        let inside = fs::read_dir(entry.path()).into_iter().flatten().flatten();
        inside.into_iter().any(|inner| inner.path().join("caches").exists())
    };
    eventually("the end of all requests", || {
        !fs::read_dir(bench.path("work")).unwrap().flatten().any(has_request)
    });
}

/// In the other tiers, there is no directory in memory that only one request sees.
#[test]
fn sockets_cannot_be_made_in_a_cache_below_a_private_directory() {
    if !tiers().contains(&"namespaces") || !has_python() {
        return;
    }
    let (bench, _server) = serve("namespaces");
    assert!(bench.path("work").starts_with("/tmp"));
    let made = |path: &str| {
        let bind = "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])";
        let what = format!("cd; python3 -c '{bind}' {path} 2>/dev/null && echo yes || echo no");
        say(&bench, "tried", &what)
    };
    assert_eq!(made("`printenv TMPDIR`/s"), "yes");
    assert_eq!(made(&cache(&bench).join("s").display().to_string()), "no");
    // This must not keep files from being moved, as chartify and `git clone` do it.
    let moves = "cd $TMPDIR; mkdir a b b/d; touch a/file; python3 -c 'import os
os.link(\"a/file\", \"b/link\"); os.rename(\"a/file\", \"b/file\"); os.rename(\"b/d\", \"a/d\")'; ls a b";
    assert_eq!(say(&bench, "tried", moves), "a: d  b: file link");
}

/// The process that ends a request could not remove what another UID has closed.
#[test]
fn a_directory_of_another_request_cannot_be_moved_out_of_a_cache() {
    if !tiers().contains(&"uid") || !has_python() {
        return;
    }
    let (bench, _server) = serve("uid");
    say(&bench, "tried", "true");
    let path = cache(&bench).display().to_string();
    thread::scope(|scope| {
        let made = format!(
            "cd {path}; mkdir -m 2777 d; mkdir -m 0700 d/e; touch d/e/f; until test -e go; do sleep \
             0.1; done"
        );
        let first = &bench;
        scope.spawn(move || assert_eq!(say(first, "tried", &made), ""));
        eventually("a file of the first request", || cache(&bench).join("d/e/f").exists());
        let moves = format!(
            "import os\ntry: os.rename('{path}/d', os.environ['HOME'] + '/d')\nexcept OSError as e: \
             print(e.strerror)"
        );
        let what = format!("python3 -c \"{moves}\"; touch {path}/go");
        assert_eq!(say(&bench, "tried", &what), "Invalid cross-device link");
    });
    all_ended(&bench);
}

fn cache(bench: &Bench) -> PathBuf {
    bench.path("work/_cmp_caches/tried/store")
}

#[test]
fn files_of_one_request_are_there_for_the_next() {
    for tier in tiers() {
        let (bench, _server) = serve(tier);
        let uid = say(&bench, "tried", "echo one > file; id -u");
        eventually("the file", || cache(&bench).join("file").exists());
        assert_eq!(uid, uid_of(&bench, tier));
        says_then(&bench, "cat file", "one");
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
        says_then(&bench, "cat d/f", "one");
        says_then(&bench, "echo two > d/f && cat d/f", "two");
        says_then(&bench, "touch d/new e/new && rm -r d e && ls", "");
    }
}

#[test]
fn programs_in_a_cache_stay_executable() {
    for tier in tiers() {
        let (bench, _server) = serve(tier);
        say(&bench, "tried", "printf \"#!/bin/sh\\necho ran\\n\" > p; chmod 0700 p");
        says_then(&bench, "./p", "ran");
    }
}

/// Fills a cache as Helm does: directories with mode 0755, temporary files that
/// are renamed, and files with mode 0644 that are written again in place.
const FILL: &str = r"
fill() {
    for d in repository repository/charts; do
        mkdir -m 0755 $d 2>/dev/null || test -d $d
    done
    sleep 0.3
    t=$(mktemp repository/charts/t.XXXXXX) && echo chart > $t && chmod 0644 $t &&
        mv -f $t repository/charts/a.tgz && echo index > repository/index.yaml &&
        { test ! -O repository/index.yaml || chmod 0644 repository/index.yaml; } &&
        cat repository/charts/a.tgz
}
";

#[test]
fn a_cold_cache_is_filled_by_many_requests_at_once() {
    for tier in tiers() {
        let bench = Bench::new(SPEC, &format!("{FILL}{SCRIPT}"));
        let _server = bench.serve(tier, &["--max-requests", "8"]);
        for _ in 0..4 {
            thread::scope(|scope| {
                let clients: Vec<_> =
                    (0..6).map(|_| scope.spawn(|| say(&bench, "tried", "fill"))).collect();
                for client in clients {
                    assert_eq!(client.join().unwrap(), "chart", "{tier}");
                }
            });
        }
        says_then(&bench, "cat repository/index.yaml; ls repository/charts", "index a.tgz");
    }
}

#[test]
fn files_of_concurrent_requests_are_in_the_cache_in_the_end() {
    for tier in tiers() {
        let (bench, _server) = serve(tier);
        say(&bench, "tried", "mkdir d; echo old > d/f");
        says_then(&bench, "cat d/f", "old");
        thread::scope(|scope| {
            for name in ["a", "b"] {
                let made = format!(
                    "cat d/f; mkdir -m 0700 {name}; sleep 1; echo {name} > {name}/1; chmod 0600 \
                     {name}/1; echo {name} > d/{name}"
                );
                let bench = &bench;
                scope.spawn(move || assert_eq!(say(bench, "tried", &made), "old", "{tier}"));
            }
        });
        says_then(&bench, "cat d/f d/a d/b a/1 b/1", "old a b a b");
    }
}

#[test]
fn half_written_files_of_a_request_that_was_cut_off_stay_out() {
    for tier in tiers() {
        let (bench, _server) = serve(tier);
        say(&bench, "tried", "echo whole > index");
        says_then(&bench, "cat index", "whole");
        one_of_few("a command that was cut off", || {
            let time = unique(60);
            let what = format!("DO=echo half > index; touch lock; sleep {time}");
            thread::scope(|scope| {
                let ask = || bench.ask("tried", &["--env", &what, "--timeout", "3s"]);
                let asked = [scope.spawn(ask)];
                let has_begun = sleeps_before_all(&time, &asked);
                let [asked] = asked.map(|one| one.join().unwrap());
                assert_ne!(asked.code, Some(0), "{tier}");
                has_begun.then_some(())
            })
        });
        says_then(&bench, "cat index; ls", "whole index");
    }
}

/// Without root, nothing repairs modes, and nobody is exempt from them.
#[test]
fn a_directory_that_its_owner_cannot_enter_blocks_nothing() {
    const USER: u32 = 65_534;
    if !rustix::process::geteuid().is_root() || !tiers().contains(&"landlock") {
        skip("needs root, to become another user, and Landlock");
        return;
    }
    let (bench, user) = (Bench::new(SPEC, SCRIPT), USER.to_string());
    chown(bench.path(""), Some(USER), Some(USER)).unwrap();
    let mut server = bench.serve_as(USER, "landlock", &["--run-as-uid", &user]);
    say(&bench, "tried", "mkdir d; echo one > d/f");
    says_then(&bench, "cat d/f", "one");
    say(&bench, "tried", "echo two > e; chmod 0444 d");
    says_then(&bench, "cat e", "two");
    let log = server.last_log();
    assert!(!log.contains("ended incompletely"), "{log}");
}

#[test]
fn a_hostile_request_changes_only_what_it_could_change_anyway() {
    for tier in isolating_tiers() {
        let (bench, _server) = serve(tier);
        say(&bench, "tried", "mkdir d; echo old > d/f");
        says_then(&bench, "cat d/f", "old");
        let outside = bench.path("outside");
        fs::write(&outside, "kept").unwrap();
        let mode = fs::metadata(&outside).unwrap().mode();
        let attack = format!(
            "rm -r d; ln -s /etc d; ln -s {} l; mkfifo p; echo x > s; chmod 4755 s; mkdir z; echo \
             x > z/y; chmod 0 z/y",
            outside.display()
        );
        assert_eq!(say(&bench, "tried", &attack), "", "{tier}");
        says_then(&bench, "echo *; cat d/f", "d l s z old");
        let deep = "p=x; for i in $(seq 70); do p=$p/x; done; mkdir -p $p; echo x > new";
        assert_eq!(say(&bench, "tried", &deep.replace('$', "$$")), "", "{tier}");
        says_then(&bench, "echo *; cat d/f", "d l s z old");
        assert_eq!(fs::metadata(&outside).unwrap().mode(), mode);
    }
}

#[test]
fn another_plugin_has_no_access_to_a_cache() {
    for tier in isolating_tiers() {
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
        assert!(said.contains("/caches/one "), "{tier}: {said}");
        assert!(said.ends_with("/caches/two"), "{tier}: {said}");
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

#[test]
fn caches_of_another_isolation_are_an_error_that_names_their_owner() {
    if !["uid", "landlock"].iter().all(|tier| tiers().contains(tier)) {
        return skip("needs root and Landlock");
    }
    for (first, second) in [("uid", "landlock"), ("landlock", "uid")] {
        let (bench, mut server) = serve(first);
        assert_eq!(say(&bench, "tried", "echo made"), "made", "{first}");
        server.stop();
        fs::remove_dir_all(bench.path("sockets")).unwrap();
        let _server = bench.serve(second, &[]);
        let rendered = bench.ask("tried", &["--env", "DO=true"]);
        let error = rendered.error();
        let remedy = "not to this supervisor: remove it, or choose another --work-dir";
        assert!(error.contains("_cmp_caches") && error.contains(remedy), "{second}: {error}");
    }
}
