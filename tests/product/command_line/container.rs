//! Starts in containers that lack something, and the remedy that the error names.

use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    process::{Command, Output},
    thread,
};

use nix::{errno::Errno, libc};

use crate::{confined::refuse, sandbox_settings::bench::Bench, skip::skip};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cmp-supervisor");

/// Appends the arguments of `render` to a command that runs the program.
fn render(mut command: Command, bench: &Bench) -> Output {
    command.arg("render").arg(bench.path("app")).arg("--plugins-dir").arg(bench.path("plugins"));
    command.output().unwrap()
}

#[track_caller]
fn fails(output: &Output, text: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains(text), "{stderr}");
}

#[test]
fn a_directory_whose_path_is_not_utf8_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join(OsStr::from_bytes(b"n\xff"));
    fs::create_dir(&directory).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--http", "off", "--plugins-dir"]).arg(place.path());
    command.arg("--socket-dir").arg(directory.join("s")).arg("--work-dir").arg(place.path());
    fails(&command.output().unwrap(), "n\u{fffd}/s is not UTF-8: choose another directory");

    let mut command = Command::new(PROGRAM);
    command.env("TMPDIR", &directory);
    fails(&render(command, &Bench::new("", "true")), "is not UTF-8: choose another directory");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "a directory with another name");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn a_user_namespace_without_the_supervisors_uid_is_told_with_the_remedy() {
    let mapped = Command::new("unshare").args(["-Ur", "true"]).output();
    if !mapped.is_ok_and(|output| output.status.success()) {
        return skip("needs unshare, and user namespaces");
    }
    let mut command = Command::new("unshare");
    command.args(["-Ur", PROGRAM]);
    let told = render(command, &Bench::new("", "true"));
    fails(&told, "UID 999 is not mapped in this user namespace");
    fails(&told, "or run this as a user other than root");
}

#[test]
fn a_profile_that_refuses_limits_is_told_with_the_call() {
    let test = thread::spawn(|| {
        refuse(libc::SYS_prlimit64, Vec::new(), Errno::EPERM);
        let told = render(Command::new(PROGRAM), &Bench::new("", "true"));
        fails(&told, "prlimit64(2) fails: Operation not permitted");
        fails(&told, "use a seccomp profile that allows this call");
    });
    test.join().unwrap();
}
