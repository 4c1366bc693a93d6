//! Volumes that do not answer.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
};

use rustix::process::geteuid;

use crate::{
    mounted::Silent,
    reload::{
        client::{Fate, connect},
        loaded::definition,
        server::{ANY_PORT, Folders, write},
    },
    skip::skip,
    waiting::eventually,
};

/// The work directory of the only supervisor.
fn work(folders: &Folders) -> PathBuf {
    // The name first: another directory may not answer.
    let is_work = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(".tmp") && path.is_dir()
    };
    let mut inside = fs::read_dir(folders.plugins().parent().unwrap()).unwrap();
    inside.find_map(|entry| Some(entry.unwrap().path()).filter(is_work)).unwrap()
}

#[test]
fn a_work_volume_that_does_not_answer_is_named_and_stops_nothing_else() {
    if !geteuid().is_root() {
        return skip("needs root, to mount");
    }
    let folders = Folders::new();
    write(
        &folders.plugins(),
        "a.yaml",
        "kind: ConfigManagementPlugin\nmetadata: {name: a}\nspec: {generate: {command: [cat]}}\n",
    );
    let server = folders.serve();
    let work = work(&folders);
    let Some(silent) = Silent::mount(&work) else { return skip("needs /dev/fuse") };
    eventually("the reason", || {
        let (code, text) = server.ask("GET", "/readyz?verbose");
        code == 503 && text.contains(&format!("{}: no answer within 5 s", work.display()))
    });
    for _ in 0..20 {
        assert_eq!(server.ask("GET", "/livez").0, 200);
    }
    drop(silent);
    eventually("readiness", || server.ask("GET", "/readyz").0 == 200);
}

#[test]
fn a_plugins_directory_that_does_not_answer_is_named_and_its_plugins_stay() {
    if !geteuid().is_root() {
        return skip("needs root, to mount");
    }
    let folders = Folders::new();
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    let server = folders.serve();
    let plugins = folders.plugins().display().to_string();
    let Some(silent) = Silent::mount(&folders.plugins()) else { return skip("needs /dev/fuse") };
    let named = format!("{plugins}: cannot list the plugins directory: no answer within 5 s");
    assert!(server.says("keeping the last definitions").contains(&named));
    let checks = || server.ask("GET", "/readyz?verbose");
    eventually("the reason", || checks().1.contains(&named));
    assert_eq!(checks().0, 200);
    assert_eq!(connect(&folders.socket("a")), Fate::Served);
    let line = server.says("cannot look after directories of the supervisor");
    assert!(line.contains(&plugins), "{line}");
    fs::set_permissions(work(&folders), Permissions::from_mode(0o000)).unwrap();
    server.says("restored access to a directory");
    drop(silent);
    eventually("the definitions", || !checks().1.contains("cannot list"));
}

#[test]
fn a_path_of_read_that_does_not_answer_is_named_and_holds_up_nothing() {
    if !geteuid().is_root() {
        return skip("needs root, to mount");
    }
    let folders = Folders::new();
    let text = "kind: ConfigManagementPlugin\nmetadata: {name: a}\n\
                spec: {generate: {command: [echo, 'kind: A']}}\n";
    write(&folders.plugins(), "a.yaml", text);
    let place = tempfile::tempdir().unwrap();
    let Some(_silent) = Silent::mount(place.path()) else { return skip("needs /dev/fuse") };
    let path = place.path().join("below").display().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    let server = folders.begin(&mut command, ANY_PORT, &["--read", &path]);
    server.says("\"msg\":\"ready\"");
    let line = server.says("the paths of --read are closed until they answer");
    assert!(line.contains(&path) && line.contains("no answer within 5 s"), "{line}");
    let output = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"))
        .args(["render", "--socket"])
        .arg(folders.socket("a"))
        .arg(folders.plugins())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.says("the paths of --read are closed for this request");
}

#[test]
fn programs_and_paths_that_do_not_answer_hold_up_no_definition() {
    if !geteuid().is_root() {
        return skip("needs root, to mount");
    }
    let folders = Folders::new();
    // Programs below /tmp may be created later, so nobody looks for them.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(silent) = Silent::mount(place.path()) else { return skip("needs /dev/fuse") };
    let path = place.path().join("below").display().to_string();
    write(&folders.plugins(), "silent.yaml", &definition("silent", &path));
    write(&folders.plugins(), "a.yaml", &definition("a", "x"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
    let mut server = folders.begin(&mut command, ANY_PORT, &[]);
    let line = server.says("cannot look at the programs and paths of definitions");
    let named = format!("\"at\":\"plugin silent: spec.generate.command: {path}\"");
    assert!(line.contains(&named), "{line}");
    server.http = server.address("serving metrics and health");
    eventually("a socket", || connect(&folders.socket("a")) == Fate::Served);
    write(&folders.plugins(), "b.yaml", &definition("b", "x"));
    eventually("a new socket", || connect(&folders.socket("b")) == Fate::Served);
    drop(silent);
    eventually("the missing program", || {
        let page = server.ask("GET", "/plugins").1;
        page.contains(&format!("`{path}` does not exist"))
    });
}
