//! Bundles of failed requests: kept, closed to tenants, and sent again.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::PathBuf,
    process::Command,
    thread,
};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use super::{
    bench::{Bench, Server, as_in_a_container, is_ok, isolating_tiers, tiers},
    healing::{sleeper, unique},
};
use crate::{skip::skip, waiting::retry};

/// A name that says nothing, and values that must not be kept.
const SECRET: &str = "hunter22-hunter22";
const PASSWORD: &str = "swordfish-swordfish";

/// Fails with secrets in both of its outputs.
const FAILING: &str = "echo \"kind: $ARGOCD_ENV_GREETING\"; echo \"said $DB_PASSWORD\" >&2; \
                       cat x >&2; exit 3";

fn bench(script: &str) -> Bench {
    Bench::new("", script).with("DB_PASSWORD", PASSWORD)
}

/// Runs `bundle` for the bench's server.
pub(super) fn bundle(bench: &Bench, arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.arg("bundle").args(arguments).arg("--work-dir").arg(bench.path("work"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Waits for a number of bundles.
pub(super) fn listed(bench: &Bench, wanted: usize) -> Vec<Value> {
    retry(|| {
        let list = bundle(bench, &["list", "-o", "json"]);
        let list: Vec<Value> = serde_json::from_slice(&list).unwrap();
        if list.len() == wanted { Ok(list) } else { Err(format!("{wanted} bundles: {list:?}")) }
    })
}

fn file(bench: &Bench, id: &str) -> PathBuf {
    let path = bench.path("failed.tar");
    fs::write(&path, bundle(bench, &["get", id])).unwrap();
    path
}

#[test]
fn a_failed_request_is_kept_without_secrets_and_can_be_sent_again() {
    let Some(tier) = isolating_tiers().next() else { return };
    let bench = bench(FAILING);
    let _server = bench.serve(tier, &["--keep-failed", "5"]);
    let greeting = format!("GREETING={SECRET}");
    let asked = bench.ask("tried", &["--env", &greeting, "--name", "shop"]);
    assert!(asked.error().contains("exit status 3"), "{}", asked.stderr);
    let list = listed(&bench, 1);
    assert_eq!((&list[0]["application"], &list[0]["plugin"]), (&"shop".into(), &"tried".into()));
    let id = list[0]["requestId"].as_str().unwrap().to_owned();
    let shown = String::from_utf8(bundle(&bench, &["show", &id])).unwrap();
    for text in
        ["exit status 3", "ARGOCD_ENV_GREETING", "\"shop\"", "kind: ***", "said ***", "\"memory\""]
    {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let path = file(&bench, &id);
    let content = fs::read(&path).unwrap();
    for secret in [SECRET, PASSWORD] {
        let is_there = content.windows(secret.len()).any(|piece| piece == secret.as_bytes());
        assert!(!is_there && !shown.contains(secret), "{secret}: {shown}");
    }
    // The repository of the bundle, the values of the flags.
    bench.add("tried", "", "printf 'kind: \"%s %s\"' \"$ARGOCD_ENV_GREETING\" \"$(cat x)\"");
    let path = path.to_str().unwrap();
    let replayed = replay(&bench, tier, &["--from-bundle", path, "--env", "GREETING=hello"]);
    assert_eq!(replayed.0, "[\n  {\n    \"kind\": \"hello x\"\n  }\n]\n", "{}", replayed.1);
    let (_, said) = replay(&bench, tier, &["--from-bundle", path]);
    assert!(said.contains("does not have their values: ARGOCD_ENV_GREETING"), "{said}");
}

#[test]
fn only_those_who_send_it_again_see_the_line_of_an_output_that_is_no_yaml() {
    let Some(tier) = isolating_tiers().next() else { return };
    let bench = bench("printf 'password: @%s' decrypted");
    let server = bench.serve(tier, &["--keep-failed", "5"]);
    let asked = bench.ask("tried", &[]);
    let error = asked.error();
    assert!(error.contains("line 1 of the output, which is not shown"), "{error}");
    let log = server.says("bad_output");
    assert!(!asked.stderr.contains("@decrypted") && !log.contains("@decrypted"), "{log}");
    let list = listed(&bench, 1);
    let path = file(&bench, list[0]["requestId"].as_str().unwrap());
    let (_, said) = replay(&bench, tier, &["--from-bundle", path.to_str().unwrap()]);
    assert!(said.contains("| line 1 of the output: password: @decrypted"), "{said}");
    assert!(said.contains("line 1 of the output, which is shown above ("), "{said}");
}

#[test]
fn a_secret_that_an_excerpt_cuts_in_two_is_not_shown_in_part() {
    let Some(tier) = isolating_tiers().next() else { return };
    // Standard error is cut after 16 KiB and before the last 16 KiB.
    let bench = bench(
        "head -c 16374 /dev/zero | tr '\\0' - >&2; printf %s \"$ARGOCD_ENV_GREETING\" >&2; \
         head -c 60000 /dev/zero | tr '\\0' = >&2; printf %s \"$ARGOCD_ENV_GREETING\" >&2; \
         head -c 16378 /dev/zero | tr '\\0' + >&2; exit 3",
    );
    let server = bench.serve(tier, &["--keep-failed", "5"]);
    bench.ask("tried", &["--env", &format!("GREETING={SECRET}")]);
    let id = listed(&bench, 1)[0]["requestId"].as_str().unwrap().to_owned();
    let shown = String::from_utf8(bundle(&bench, &["show", &id])).unwrap();
    assert!(shown.contains("-***") && shown.contains("***+"), "{shown}");
    assert!(!shown.contains("hunter") && !shown.contains("ter22"), "{shown}");
    let log = server.says("exit_nonzero");
    let error = log.lines().find(|line| line.contains("exit_nonzero")).unwrap();
    assert!(!error.contains("-hunter") && !error.contains("ter22+"), "{error}");
}

#[test]
fn long_variables_displace_no_secret() {
    let Some(tier) = isolating_tiers().next() else { return };
    let bench = bench(FAILING);
    let _server = bench.serve(tier, &["--keep-failed", "5"]);
    let greeting = format!("GREETING={SECRET}");
    for (number, (lines, is_masked)) in [(300, true), (3000, false)].into_iter().enumerate() {
        let lines: Vec<_> = (0..lines).map(|line| format!("a longer line {line:09}")).collect();
        let long = format!("LONG={}", lines.join("\n"));
        bench.ask("tried", &["--env", &long, "--env", &greeting]);
        let list = listed(&bench, number + 1);
        let id = list[0]["requestId"].as_str().unwrap();
        let shown = String::from_utf8(bundle(&bench, &["show", id])).unwrap();
        assert_eq!(shown.contains("kind: ***") && shown.contains("said ***"), is_masked, "{shown}");
        assert_eq!(shown.contains("outputsLeftOut"), !is_masked, "{shown}");
        assert!(!shown.contains(SECRET) && !shown.contains(PASSWORD), "{shown}");
    }
}

/// Waits for a line of the server's log.
pub(super) fn logged(server: &Server, message: &str) -> Value {
    let log = server.says(message);
    serde_json::from_str(log.lines().find(|line| line.contains(message)).unwrap()).unwrap()
}

#[test]
fn the_log_names_the_request_whose_bundle_cannot_be_kept() {
    let Some(tier) = isolating_tiers().next() else { return };
    let bench = bench("exit 3");
    let server = bench.serve(tier, &["--keep-failed", "2"]);
    bench.ask("tried", &[]);
    let kept = logged(&server, "kept a bundle of the failed request");
    let list = listed(&bench, 1);
    assert_eq!((&kept["plugin"], &kept["request_id"]), (&"tried".into(), &list[0]["requestId"]));
    let directory = bench.path("work/_cmp_failed");
    fs::remove_dir_all(&directory).unwrap();
    fs::write(directory, "").unwrap();
    bench.ask("tried", &[]);
    let refused = logged(&server, "cannot keep a bundle of the failed request");
    assert_eq!(
        (&refused["level"], &refused["plugin"]),
        (&"warning".into(), &"tried".into()),
        "{refused}"
    );
    assert_ne!(refused["request_id"], kept["request_id"]);
    assert!(refused["directory"].as_str().unwrap().ends_with("work/_cmp_failed"), "{refused}");
    assert!(refused["error"].is_string(), "{refused}");
}

#[test]
fn a_request_that_fails_while_the_supervisor_stops_is_kept() {
    let Some(tier) = isolating_tiers().next() else { return };
    let time = unique(600);
    let bench = bench(&format!("sleep {time}; exit 3"));
    let mut server = bench.serve(tier, &["--keep-failed", "2", "--drain-timeout", "5m"]);
    thread::scope(|scope| {
        let asked = scope.spawn(|| bench.ask("tried", &[]));
        let sleeping =
            retry(|| sleeper(&time).ok_or_else(|| format!("the command: {}", server.log())));
        server.terminate();
        server.says("\"msg\":\"stopping\"");
        // The shell goes on without it.
        kill_process(sleeping, Signal::KILL).unwrap();
        let asked = asked.join().unwrap();
        assert!(asked.error().contains("exit status 3"), "{}", asked.stderr);
    });
    server.ends();
    assert_eq!(listed(&bench, 1)[0]["outcome"], "exit_nonzero", "{}", server.log());
    assert!(!server.log().contains("is not kept"), "{}", server.log());
}

#[test]
fn root_needs_no_more_capabilities_than_the_manifests_give() {
    if !tiers().contains(&"uid") || !is_ok(Command::new("setpriv").arg("--version")) {
        skip("needs root and setpriv");
        return;
    }
    let bench = bench("exit 3");
    // Volumes of Kubernetes are writable for all. Earlier versions left the last one.
    for (name, mode) in [("work", 0o777), ("sockets", 0o777), ("work/_cmp_failed", 0o700)] {
        fs::create_dir(bench.path(name)).unwrap();
        fs::set_permissions(bench.path(name), Permissions::from_mode(mode)).unwrap();
    }
    let _server = bench.start(as_in_a_container("serve"), "uid", &["--keep-failed", "1"]);
    bench.ask("tried", &[]);
    let id = listed(&bench, 1)[0]["requestId"].as_str().unwrap().to_owned();
    for verb in [&["list"][..], &["show", &id], &["get", &id]] {
        let mut command = as_in_a_container("bundle");
        assert!(is_ok(command.args(verb).arg("--work-dir").arg(bench.path("work"))), "{verb:?}");
    }
}

#[test]
fn root_that_cannot_give_files_to_others_is_told_what_to_add() {
    if !tiers().contains(&"landlock") || !is_ok(Command::new("setpriv").arg("--version")) {
        skip("needs root, setpriv and Landlock");
        return;
    }
    let bench = bench("exit 3");
    let mut command = as_in_a_container("serve");
    command.args(["--isolation", "landlock", "--http", "off", "--plugins-dir"]);
    command.arg(bench.path("plugins"));
    for (name, flag) in [("work", "--work-dir"), ("sockets", "--socket-dir")] {
        fs::create_dir(bench.path(name)).unwrap();
        fs::set_permissions(bench.path(name), Permissions::from_mode(0o777)).unwrap();
        command.arg(flag).arg(bench.path(name));
    }
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    let remedy = "add the capability CHOWN, or run the container as this UID (runAsUser), or use \
                  --isolation uid";
    assert!(
        log.contains("cannot give the directory to UID 999: ") && log.contains(remedy),
        "{log}"
    );
    assert_eq!(output.status.code(), Some(78), "{log}");
}

fn replay(bench: &Bench, tier: &str, arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    command.arg("render").args(arguments).args(["--isolation", tier, "-o", "json"]);
    let output = command.arg("--plugins-dir").arg(bench.path("plugins")).output().unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (stdout, stderr)
}

#[test]
fn only_the_last_failed_requests_are_kept_and_none_by_default() {
    let Some(tier) = isolating_tiers().next() else { return };
    let bench = bench("exit $ARGOCD_ENV_CODE");
    let ask = |code: &str| bench.ask("tried", &["--env", &format!("CODE={code}")]).code;
    let mut server = bench.serve(tier, &["--keep-failed", "2"]);
    for code in ["3", "0", "4", "5"] {
        assert_eq!(ask(code) == Some(0), code == "0");
    }
    let show = |entry: &Value| {
        let shown = bundle(&bench, &["show", entry["requestId"].as_str().unwrap()]);
        String::from_utf8(shown).unwrap()
    };
    // A request is kept after its answer.
    let list = retry(|| {
        let list = listed(&bench, 2);
        let is_last = show(&list[0]).contains("exit status 5");
        is_last.then_some(list).ok_or("the bundle of the last request")
    });
    assert!(list.iter().all(|entry| entry["outcome"] == "exit_nonzero"), "{list:?}");
    assert!(show(&list[1]).contains("exit status 4"), "{list:?}");
    fs::write(bench.path("work/_cmp_failed/000_bad.tar"), "no tar archive").unwrap();
    let texts = String::from_utf8(bundle(&bench, &["list"])).unwrap();
    let lines: Vec<_> = texts.lines().collect();
    assert!(lines.len() == 4 && lines[3].starts_with("bad "), "{texts}");
    assert!(lines[3].contains("000_bad.tar: not a bundle"), "{texts}");
    assert!(listed(&bench, 3)[2]["unreadable"].is_string());
    server.stop();
    fs::remove_dir_all(bench.path("sockets")).unwrap();
    let _server = bench.serve(tier, &[]);
    ask("3");
    let left = fs::read_dir(bench.path("work/_cmp_failed")).into_iter().flatten().count();
    assert_eq!(left, 0, "bundles of the earlier start");
}

#[test]
fn no_tenant_reads_a_bundle_in_any_tier() {
    for tier in tiers() {
        let directory = "work/_cmp_failed";
        let bench = bench("exit 3");
        if tier == "none" {
            let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
            command.args([
                "serve",
                "--isolation",
                "none",
                "--accept-no-isolation",
                "--http",
                "off",
            ]);
            command.args(["--keep-failed", "1", "--work-dir"]).arg(bench.path("work"));
            command.arg("--plugins-dir").arg(bench.path("plugins"));
            let refused = command.arg("--socket-dir").arg(bench.path("sockets")).output().unwrap();
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(said.contains("every plugin could read the failed requests"), "{said}");
            assert_eq!(refused.status.code(), Some(78));
            continue;
        }
        let path = bench.path(directory);
        let path = path.display();
        bench.add(
            "thief",
            &format!("  sandbox: {{network: any, caches: [], read: [{}]}}", bench.path("app").display()),
            &format!(
                "chmod 777 {path}; ls {path} && echo 'kind: listed' && exit; cat {path}/* && echo 'kind: read' \
                 && exit; touch {path}/x && echo 'kind: written' && exit; echo 'kind: Nothing'"
            ),
        );
        bench.add("bold", &format!("  sandbox: {{read: [{path}]}}"), &format!("ls {path}"));
        let _server = bench.serve(tier, &["--keep-failed", "3"]);
        bench.ask("tried", &[]);
        listed(&bench, 1);
        assert_eq!(bench.ask("thief", &[]).value("kind"), "Nothing", "{tier}");
        assert!(bench.ask("bold", &[]).error().contains("would expose"), "{tier}");
        // In tier `landlock`, the mode can be changed, which opens nothing.
        bench.ask("tried", &[]);
        listed(&bench, 3);
        let about = fs::metadata(bench.path(directory)).unwrap();
        assert_eq!(about.mode() & 0o777, 0o700, "{tier}");
    }
}
