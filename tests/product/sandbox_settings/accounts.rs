//! Names of the UIDs that requests run under.

use std::{path::Path, process::Command};

use crate::{
    sandbox_settings::{
        bench::{Bench, tiers},
        read_only::range,
    },
    skip::skip,
};

/// Prints the names that a program finds for its UID.
const SHOW: &str = "echo 'kind: A'; echo \"user: '$USER'\"; echo \"login: '$LOGNAME'\"; \
                    echo \"uid: '$(id -u)'\"; echo \"name: '$(id -un 2>/dev/null || true)'\"; \
                    echo \"group: '$(id -gn 2>/dev/null)'\"; \
                    echo \"home: '$(getent passwd \"$(id -u)\" | cut -d: -f6)'\"; echo \"own: '$HOME'\"";

#[test]
fn user_and_logname_are_set() {
    for tier in tiers() {
        let rendered = Bench::new("", SHOW).render(tier, &[]);
        let (user, uid) = (rendered.value("user"), rendered.value("uid"));
        assert_eq!(user, rendered.value("login"), "{tier}");
        // Without a name, `id` prints the UID.
        let name = rendered.value("name");
        let expected = if name == uid { format!("cmp-{uid}") } else { name };
        assert_eq!(user, expected, "{tier}");
    }
}

#[test]
fn a_name_that_the_sidecar_has_stays() {
    for tier in tiers() {
        let rendered = Bench::new("", SHOW).with("USER", "argocd").render(tier, &[]);
        assert_eq!(rendered.value("user"), "argocd", "{tier}");
    }
}

#[test]
fn namespaces_have_an_account_for_the_request() {
    if !tiers().contains(&"namespaces") {
        return;
    }
    let rendered = Bench::new("", SHOW).render("namespaces", &[]);
    let name = format!("cmp-{}", rendered.value("uid"));
    assert_eq!([rendered.value("name"), rendered.value("group")], [name.clone(), name]);
    assert_eq!(rendered.value("home"), rendered.value("own"));
    let script = "echo 'kind: A'; echo x >> /etc/passwd || echo \"root: '$(id -un 0)'\"";
    assert_eq!(Bench::new("", script).render("namespaces", &[]).value("root"), "root");
}

fn passwd(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    let output = command.arg("passwd").args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn lines_for_an_image_name_each_uid_of_the_range() {
    let range = ["--uid-range", "70000-70003"];
    let lines = passwd(&range);
    assert_eq!(lines.lines().count(), 4);
    let first = "cmp-70000:x:70000:70000:request of cmp-supervisor:/nonexistent:/sbin/nologin";
    assert_eq!(lines.lines().next(), Some(first));
    let groups = passwd(&["--uid-range", "70000-70003", "--group"]);
    assert_eq!(groups.lines().last(), Some("cmp-70003:x:70003:"));
}

#[test]
fn the_commands_that_doctor_prints_make_the_account_of_all_requests() {
    let work = tempfile::tempdir().unwrap();
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    doctor.args(["doctor", "--isolation", "landlock", "--run-as-uid", "70000", "--work-dir"]);
    let report = doctor.arg(work.path()).output().unwrap().stdout;
    let report = String::from_utf8(report).unwrap();
    let printed = report.split('`').filter_map(|text| text.strip_prefix("cmp-supervisor passwd "));
    let lines: Vec<_> =
        printed.map(|words| passwd(&words.split(' ').collect::<Vec<_>>())).collect();
    if !rustix::process::geteuid().is_root() || lines.is_empty() && !tiers().contains(&"landlock") {
        return skip("needs root and Landlock version 6");
    }
    let account = "cmp-70000:x:70000:70000:request of cmp-supervisor:/nonexistent:/sbin/nologin\n";
    assert_eq!(lines, [account, "cmp-70000:x:70000:\n"], "{report}");
}

/// Runs in a mount namespace with these accounts in `/etc/passwd`.
fn serves_with(accounts: &str, verify: &str) -> Option<String> {
    if !rustix::process::geteuid().is_root() || !Path::new("/usr/bin/unshare").exists() {
        skip("needs root and unshare");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let own = std::fs::read_to_string("/etc/passwd").unwrap();
    std::fs::write(at("passwd"), own + accounts).unwrap();
    let script = format!(
        "mount --bind {} /etc/passwd && exec {} {verify}",
        at("passwd"),
        env!("CARGO_BIN_EXE_cmp-supervisor")
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
    Some(String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
}

#[test]
fn accounts_of_the_image_for_requests_do_not_take_the_range() {
    let range = "--uid-range 70000-70031";
    let doctor = format!("doctor --isolation uid {range}");
    let ours = passwd(&["--uid-range", "70000-70031"]);
    let Some(report) = serves_with(&ours, &doctor) else { return };
    assert!(report.contains("all UIDs of requests have names"), "{report}");
    let foreign = ours.replace("cmp-", "people-");
    let report = serves_with(&foreign, &doctor).unwrap();
    assert!(report.contains("no two UIDs from 70000 to 70031 are free"), "{report}");
    let report = serves_with("", &doctor).unwrap();
    assert!(report.contains("32 of 32 UIDs of requests have no name"), "{report}");
}

#[test]
fn no_request_has_the_uid_of_the_supervisor() {
    for tier in tiers().into_iter().filter(|tier| ["namespaces", "uid"].contains(tier)) {
        let bench = Bench::new("", "echo 'kind: A'; echo \"result: '$(id -u)'\"");
        let range = range(8);
        let first: u32 = range.split_once('-').unwrap().0.parse().unwrap();
        let own = first + 1;
        let flags = ["--uid-range", &range, "--run-as-uid", &own.to_string()];
        let _server = bench.serve(tier, &flags);
        let uid: u32 = bench.ask("tried", &[]).value("result").parse().unwrap();
        assert!((first..first + 8).contains(&uid) && uid != own, "{tier}: {uid} of {range}");
    }
}

#[test]
fn ssh_starts_in_namespaces() {
    if !tiers().contains(&"namespaces") || !Path::new("/usr/bin/ssh").exists() {
        skip("needs the tier namespaces, and ssh");
        return;
    }
    let script = "ssh -G host >/dev/null && echo 'kind: A' && echo \"result: 'started'\"";
    assert_eq!(Bench::new("", script).render("namespaces", &[]).value("result"), "started");
}
