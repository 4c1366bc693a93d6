//! Repositories that commands cannot change, and that requests share.

use std::{
    fs,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use rustix::fs::OFlags;
use serde_json::Value;

use crate::{
    reload::server::remove_at_once,
    sandbox_settings::bench::{Bench, Rendered, Server, isolating_tiers},
    waiting::retry,
};

const READ_ONLY: &str = "  workspace: {readOnly: true}";

/// Words in the log line of a request that reads the files of an earlier one.
const SHARED: &str = "\"repository\":\"shared\"";

/// Bytes of noise, so that the archive is worth sharing.
const NOISE: usize = 600 << 10;

/// The first request unpacks the repository, and the others read it.
const REQUESTS: usize = 3;

/// Tries to change the repository in every way, and prints the ways that succeeded.
/// A chmod(2) of its own files is no change of them.
const CHANGE: &str = r#"
chmod -R 777 . 2>&-
done=
try() { if (eval "$1") 2>&-; then done="$done $1;"; fi; }
try 'echo changed >> x'
try ': > x'
try 'echo new > new'
try 'rm x'
try 'mv x y'
try 'mv x "$TMPDIR/x"'
try 'mkdir directory'
try 'ln -s x link'
try 'ln x hard'
try 'ln x "$TMPDIR/hard" && echo changed >> "$TMPDIR/hard"'
try 'echo new > "$TMPDIR/new"; mv "$TMPDIR/new" x'
try 'mkfifo pipe'
try 'truncate -s 0 x'
echo new > "$TMPDIR/own"; mv "$TMPDIR/own" "$HOME/own"; rm "$HOME/own"
echo 'kind: A'; echo "done: '$done'"; echo "x: '$(cat x)'"; echo "at: '$PWD'"
"#;

/// The longest wait for another request's repository, in milliseconds.
const PATIENCE: f64 = 5000.0;

/// UIDs of one server. The servers of other tests leave a varying part of the default
/// range, and one with fewer than eight leases shares nothing.
const UIDS: u32 = 64;

/// The first UID that no server has yet.
static NEXT_UID: AtomicU32 = AtomicU32::new(72_000);

/// A server, and an application with this much noise.
fn serve(tier: &str, script: &str, bytes: usize) -> (Bench, Server) {
    let bench = Bench::new(READ_ONLY, script);
    fs::write(bench.path("app/noise"), noise(bytes)).unwrap();
    let server = bench.serve(tier, &["--uid-range", &range(UIDS)]);
    (bench, server)
}

/// Bytes that cannot be compressed.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let byte = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    (0..bytes).map(byte).collect()
}

/// A range of UIDs that no other server has.
pub(crate) fn range(uids: u32) -> String {
    let first = NEXT_UID.fetch_add(uids, Ordering::Relaxed);
    format!("{first}-{}", first + uids - 1)
}

fn ask(bench: &Bench) -> Vec<Rendered> {
    (0..REQUESTS).map(|_| bench.ask("tried", &[])).collect()
}

fn has_own_uids(tier: &str) -> bool {
    ["uid", "namespaces"].contains(&tier)
}

#[test]
fn no_command_changes_the_repository_and_later_requests_share_it() {
    for (tier, bytes) in isolating_tiers().flat_map(|tier| [(tier, 0), (tier, NOISE)]) {
        let (bench, mut server) = serve(tier, CHANGE, bytes);
        let rendered = ask(&bench);
        for one in &rendered {
            assert_eq!(
                (one.value("done"), one.value("x")),
                (String::new(), "x".to_owned()),
                "{tier}"
            );
        }
        let at: Vec<_> = rendered.iter().map(|one| one.value("at")).collect();
        let is_shared = has_own_uids(tier) && bytes > 0;
        assert_eq!(at.iter().all(|path| path == &at[0]), is_shared, "{tier}: {at:?}");
        let shared = server.last_log().matches(SHARED).count();
        assert_eq!(shared, if is_shared { REQUESTS - 1 } else { 0 }, "{tier}");
        let left = fs::read_dir(bench.path("work/_cmp_server")).unwrap().flatten();
        let left: Vec<_> = left.filter(|entry| entry.path().is_dir()).collect();
        assert!(left.iter().all(|entry| entry.file_name() == "caches"), "{tier}: {left:?}");
    }
}

#[test]
fn requests_at_the_same_time_share_one_repository() {
    for tier in isolating_tiers().filter(|tier| has_own_uids(tier)) {
        crowd(tier);
    }
}

/// Lets requests ask at the same time. One unpacks the repository, and all others
/// share it, except those that a busy machine lets wait for too long.
fn crowd(tier: &str) {
    const CROWD: usize = 8;
    let script = "echo 'kind: A'; echo \"at: '$PWD'\"; echo \"noise: '$(wc -c < noise)'\"";
    let (bench, mut server) = serve(tier, script, NOISE);
    let places: Vec<_> = thread::scope(|scope| {
        let ask = || bench.ask("tried", &[]);
        let asked: Vec<_> = (0..CROWD).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for one in &places {
        assert_eq!(one.value("noise"), NOISE.to_string(), "{tier}");
    }
    // The line of a request follows its answer.
    let log = server.last_log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let requests: Vec<_> = lines.filter(|line| line["msg"] == "request").collect();
    let is_late = |one: &&Value| one["queue_ms"].as_f64().is_some_and(|wait| wait >= PATIENCE);
    let alone = requests.iter().filter(|one| one["repository"] != "shared");
    let late = alone.clone().filter(is_late).count();
    assert_eq!((requests.len(), alone.count()), (CROWD, 1 + late), "{tier}: {log}");
    if late == 0 {
        let first = places[0].value("at");
        assert!(places.iter().all(|one| one.value("at") == first), "{tier}: {log}");
    }
}

#[test]
fn the_error_of_a_refused_change_names_the_key() {
    for tier in isolating_tiers() {
        let (bench, _server) = serve(tier, "echo new > new", NOISE);
        for one in ask(&bench) {
            let error = one.error();
            assert!(error.contains("spec.workspace.readOnly"), "{tier}: {error}");
        }
    }
}

#[test]
fn requests_with_another_archive_cannot_read_a_shared_one() {
    for tier in isolating_tiers().filter(|tier| has_own_uids(tier)) {
        let print =
            "echo 'kind: A'; echo \"at: '$PWD'\"; echo \"got: '$(cat $(cat x)/noise | wc -c)'\"";
        let (bench, _server) = serve(tier, print, NOISE);
        let shared = ask(&bench).pop().unwrap().value("at");
        fs::create_dir(bench.path("spy")).unwrap();
        fs::copy(bench.path("app/noise"), bench.path("spy/noise")).unwrap();
        fs::write(bench.path("spy/x"), &shared).unwrap();
        for _ in 0..REQUESTS {
            let spied = bench.ask_for("spy", "tried", &[]);
            assert_eq!(spied.value("got"), "0", "{tier}: {}", spied.stderr);
            assert_ne!(spied.value("at"), shared, "{tier}");
        }
    }
}

/// Changes of contents, names, modes, owners, times and attributes.
const HOSTILE: &str = r#"
for file in x noise .; do
  chmod 777 $file; chmod u+s $file; chown $(id -u) $file; chgrp $(id -G | tr ' ' '\n' | tail -1) $file
  touch -d 2001-01-01 $file; setfattr -n user.a -v b $file; truncate -s 1 $file; dd if=/dev/zero of=$file
  mv $file gone; rm -rf $file; ln -f $file "$TMPDIR/hard"; echo changed >> "$TMPDIR/hard"
done
mkdir ../added; mount --bind / .; echo 'kind: A'; echo "at: '$PWD'"
"#;

/// Everything about the files that a request can see.
const SURVEY: &str = "echo 'kind: A'; echo \"at: '$PWD'\"; echo \"id: '$(id -u)'\"; \
                      echo \"seen: '$(find .. -printf '%p %m %U %G %T@ %s %n,'; cat x noise | cksum)'\"";

#[test]
fn a_hostile_request_leaves_shared_files_as_they_were() {
    for tier in isolating_tiers().filter(|tier| has_own_uids(tier)) {
        let (bench, server) = serve(tier, SURVEY, NOISE);
        drop(server);
        bench.add("hostile", READ_ONLY, HOSTILE);
        let _server = bench.serve(tier, &["--uid-range", &range(UIDS)]);
        let before = bench.ask("tried", &[]);
        let hostile = bench.ask("hostile", &[]);
        let after = bench.ask("tried", &[]);
        assert_eq!(hostile.value("at"), before.value("at"), "{tier}");
        assert_eq!(after.value("at"), before.value("at"), "{tier}");
        assert_eq!(after.value("seen"), before.value("seen"), "{tier}");
        // Also without Landlock, only the group of this lease gets in.
        let repository = PathBuf::from(before.value("at"));
        let workspace = repository.parent().unwrap().metadata().unwrap();
        let (uid, gid) = (workspace.uid(), workspace.gid());
        assert_eq!((workspace.mode() & 0o7777, uid), (0o710, gid), "{tier}");
        for reader in [before, after] {
            assert_ne!(reader.value("id"), uid.to_string(), "{tier}");
        }
    }
}

#[test]
fn modes_that_are_preserved_let_readers_do_what_the_owner_may() {
    use std::os::unix::fs::PermissionsExt;
    for tier in isolating_tiers() {
        let bench = Bench::new(
            &format!("{READ_ONLY}\n  preserveFileMode: true"),
            "echo 'kind: A'; echo \"run: '$(./run)'\"; echo \"open: '$(cat open/file)'\"; \
             echo \"closed: '$(cat closed 2>/dev/null)'\"; echo \"at: '$PWD'\"",
        );
        let path = |name: &str| bench.path("app").join(name);
        fs::create_dir(path("open")).unwrap();
        fs::write(path("run"), "#!/bin/sh\necho ran").unwrap();
        fs::write(path("open/file"), "text").unwrap();
        fs::write(path("closed"), "text").unwrap();
        fs::write(path("noise"), vec![b'x'; NOISE << 9]).unwrap();
        for (name, mode) in
            [("run", 0o700), ("open/file", 0o602), ("open", 0o700), ("closed", 0o022)]
        {
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let _server = bench.serve(tier, &["--uid-range", &range(UIDS)]);
        let rendered = ask(&bench);
        for one in &rendered {
            let values = ["run", "open", "closed"].map(|key| one.value(key));
            assert_eq!(values, ["ran", "text", ""], "{tier}");
        }
        assert_eq!(
            rendered[0].value("at") == rendered[1].value("at"),
            has_own_uids(tier),
            "{tier}"
        );
    }
}

/// A person or a program may remove what is in the work directory.
#[test]
fn files_that_were_removed_are_unpacked_again_for_the_next_request() {
    for tier in isolating_tiers().filter(|tier| has_own_uids(tier)) {
        let script = "echo 'kind: A'; echo \"at: '$PWD'\"; echo \"x: '$(cat x)'\"";
        let (bench, mut server) = serve(tier, script, NOISE);
        let first = ask(&bench).pop().unwrap().value("at");
        remove_at_once(Path::new(&first).parent().unwrap());
        let error = bench.ask("tried", &[]).error().to_owned();
        assert!(error.contains("could not open the repository: No such file"), "{tier}: {error}");
        let again = ask(&bench);
        assert!(again.iter().all(|one| one.value("x") == "x"), "{tier}");
        assert_eq!(again[0].value("at"), again[1].value("at"), "{tier}");
        let log = server.last_log();
        assert_eq!(log.matches("files of a shared repository are gone").count(), 1, "{log}");
    }
}

/// UIDs of a server that has place for one shared repository.
const UIDS_FOR_ONE: u32 = 32;

/// Bytes of the repository that finds no place, and of the files that its command writes.
const PART_OF_LIMIT: usize = 12 << 20;

#[test]
fn a_repository_that_finds_no_place_counts_for_its_request() {
    for tier in isolating_tiers().filter(|tier| has_own_uids(tier)) {
        let bench = Bench::new("", "");
        let (gate, pipe) = two_applications(&bench);
        let spec = format!("{READ_ONLY}\n  sandbox: {{read: [{gate}]}}\n  limits: {{disk: 20Mi}}");
        let script = format!(
            "if test -s zeros; then head -c {PART_OF_LIMIT} zeros > \"$TMPDIR/more\"; sleep 60; \
             else cat {gate}/pipe; fi; echo 'kind: A'; echo \"ids: '$(stat -c %u .) $(id -u)'\""
        );
        bench.add("tried", &spec, &script);
        let _server = bench.serve(tier, &["--uid-range", &range(UIDS_FOR_ONE)]);
        let (first, second) = ask_both(&bench, &pipe);
        let ids = first.value("ids");
        let (owner, user) = ids.split_once(' ').unwrap();
        assert_ne!(owner, user, "{tier}: the first repository has no place either");
        let error = second.error();
        assert!(error.contains("its files took more than 20Mi of disk"), "{tier}: {error}");
    }
}

#[test]
fn a_repository_that_finds_no_place_has_the_links_of_home() {
    for tier in isolating_tiers().filter(|tier| has_own_uids(tier)) {
        let bench = Bench::new("", "");
        let (gate, pipe) = two_applications(&bench);
        let home = bench.path("home");
        fs::create_dir(&home).unwrap();
        fs::write(home.join("key"), "told").unwrap();
        let home = home.display();
        let spec = format!("{READ_ONLY}\n  sandbox: {{read: [{gate}, {home}/key]}}");
        let script = format!(
            "test -s zeros || cat {gate}/pipe; echo 'kind: A'; \
             echo \"key: '$(cat ~/key)'\"; echo \"ids: '$(stat -c %u .) $(id -u)'\""
        );
        bench.add("tried", &spec, &script);
        let bench = bench.with("HOME", &home.to_string());
        let _server = bench.serve(tier, &["--uid-range", &range(UIDS_FOR_ONE)]);
        let (first, second) = ask_both(&bench, &pipe);
        let ids = second.value("ids");
        let (owner, user) = ids.split_once(' ').unwrap();
        assert_eq!(owner, user, "{tier}: the second repository has a place");
        assert_eq!(first.value("key"), "told", "{tier}");
        assert_eq!(second.value("key"), "told", "{tier}");
    }
}

/// Makes two applications, and a pipe by which a request of the first one waits. Returns the
/// pipe's directory and its path.
fn two_applications(bench: &Bench) -> (String, PathBuf) {
    for (name, zeros) in [("app", 0), ("large", PART_OF_LIMIT)] {
        let application = bench.path(name);
        fs::create_dir_all(&application).unwrap();
        fs::write(application.join("noise"), noise(NOISE)).unwrap();
        fs::write(application.join("zeros"), vec![0; zeros]).unwrap();
    }
    let gate = bench.path("gate");
    fs::create_dir(&gate).unwrap();
    assert!(Command::new("mkfifo").arg(gate.join("pipe")).status().unwrap().success());
    (gate.display().to_string(), gate.join("pipe"))
}

/// Asks for both while the first one waits, until the second one is answered.
fn ask_both(bench: &Bench, pipe: &Path) -> (Rendered, Rendered) {
    thread::scope(|scope| {
        let first = scope.spawn(|| bench.ask("tried", &[]));
        let hold = hold(pipe);
        let second = bench.ask_for("large", "tried", &[]);
        drop(hold);
        (first.join().unwrap(), second)
    })
}

/// `O_NONBLOCK`: without a reader, opening a pipe fails instead of waiting.
pub(super) const NONBLOCK: i32 = OFlags::NONBLOCK.bits().cast_signed();

/// Waits until a command reads from a pipe; it goes on when the result is dropped.
fn hold(pipe: &Path) -> fs::File {
    retry(|| fs::OpenOptions::new().write(true).custom_flags(NONBLOCK).open(pipe))
}
