//! Versions of Landlock, and the clock.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    process::Command,
};

use nix::unistd::{Gid, setgroups};

use crate::guest::{
    server::{Settings, VICTIM},
    victim,
};

const PLUGINS: &[(&str, &str, &str)] = &[("slow", "sleep 3; echo 'kind: Slow'", ""), VICTIM];

fn settings<'s>(arguments: &'s [&'s str]) -> Settings<'s> {
    Settings { container: None, plugins: PLUGINS, arguments, work: None }
}

pub(super) fn landlock_2_has_no_tier_landlock() {
    for tier in ["namespaces", "uid"] {
        let server = settings(&["--isolation", tier]).start();
        assert!(server.log().contains("\"landlock\":2"), "{}", server.log());
        server.ask("victim", 30).unwrap();
    }
    let (code, log) = settings(&["--isolation", "landlock"]).refused();
    assert_eq!(code, Some(78), "{log}");
    let reason = "Landlock version 6 is needed (Linux 6.12), but this kernel has version 2";
    assert!(log.contains(reason), "{log}");
}

pub(super) fn landlock_6_has_all_tiers() {
    for tier in ["namespaces", "uid", "landlock"] {
        let server = settings(&["--isolation", tier]).start();
        assert!(server.log().contains("\"landlock\":6"), "{}", server.log());
        server.ask("victim", 30).unwrap();
    }
}

/// The answer of a plugin that names a Secret of mode 0440, in a container that has the
/// group.
fn answer_with_group() -> Result<String, String> {
    let group = Gid::from_raw(4242);
    let key = "/secret/key";
    fs::create_dir("/secret").unwrap();
    fs::write(key, "Told").unwrap();
    chown(key, Some(0), Some(group.as_raw())).unwrap();
    fs::set_permissions(key, Permissions::from_mode(0o440)).unwrap();
    let script = "echo \"kind: $(cat /secret/key)\"";
    let plugins = [("keyed", script, "  sandbox: {read: [/secret/key]}"), VICTIM];
    let arguments = ["--isolation", "uid"];
    let settings =
        Settings { container: None, plugins: &plugins, arguments: &arguments, work: None };
    setgroups(&[group]).unwrap();
    let server = settings.start();
    setgroups(&[]).unwrap();
    server.ask("keyed", 60)
}

pub(super) fn landlock_2_gives_no_group() {
    let error = answer_with_group().unwrap_err();
    let reason =
        "they get the group only if Landlock has version 3 (Linux 6.2), and it has version 2";
    assert!(error.contains(reason), "{error}");
}

pub(super) fn landlock_6_gives_a_group() {
    let answer = answer_with_group().unwrap();
    assert!(answer.contains("Told"), "{answer}");
}

/// Deadlines, idle times and pauses must not depend on the time of day.
pub(super) fn a_clock_may_jump() {
    let server = settings(&["--isolation", "uid"]).start();
    let at = |seconds: u64| {
        let status = Command::new("/bin/date").args(["-s", &format!("@{seconds}")]).output();
        assert!(status.unwrap().status.success());
    };
    victim::during(&server, || {
        for time in [4_000_000_000, 1_000_000_000] {
            let request = server.start("slow", 60);
            std::thread::sleep(std::time::Duration::from_secs(1));
            at(time);
            request.wait().unwrap();
        }
    });
}
