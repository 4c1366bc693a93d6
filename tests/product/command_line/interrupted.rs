//! Signals to `render` and its kin: they leave nothing behind.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

use crate::{
    spawned::{all_children, has_ended},
    waiting::eventually,
};

/// An application with a plugin that never finishes, and a place for temporary
/// files.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::Builder::new().prefix("cmp-signal-").tempdir().unwrap());
        for name in ["app", "plugins", "temporary", "marks"] {
            fs::create_dir(place.at(name)).unwrap();
        }
        for path in [place.0.path().to_owned(), place.at("marks"), place.at("temporary")] {
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        }
        fs::write(place.at("app/x"), "x").unwrap();
        let script =
            format!("echo $$ > {0}/new; mv {0}/new {0}/pid; sleep 600", place.path("marks"));
        let text = format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: {{name: \
             a}}\nspec: {{generate: {{command: [sh, -c, '{script}']}}}}\n"
        );
        fs::write(place.at("plugins/a.yaml"), text).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn path(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }

    fn render(&self) -> Child {
        // Test runners may ignore some of the signals, as nohup does.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP,INT,TERM");
        command.arg(env!("CARGO_BIN_EXE_cmp-supervisor")).arg("render").arg(self.at("app"));
        command.arg("--plugins-dir").arg(self.at("plugins")).args(["--isolation", "none"]);
        command.env("TMPDIR", self.at("temporary"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    #[track_caller]
    fn has_nothing_left(&self) {
        let left: Vec<_> = fs::read_dir(self.at("temporary")).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[track_caller]
fn ends(mut render: Child, signal: &str, code: i32) {
    let pid = render.id().to_string();
    assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    eventually("the end", || render.try_wait().unwrap().is_some());
    assert_eq!(render.wait().unwrap().code(), Some(code), "{signal}");
}

#[test]
fn a_signal_during_a_request_ends_everything_and_removes_all_files() {
    for (signal, code) in [("HUP", 129), ("INT", 130), ("TERM", 143)] {
        let place = Place::new();
        let render = place.render();
        eventually("the command", || place.at("marks/pid").exists());
        ends(render, signal, code);
        let pid = fs::read_to_string(place.at("marks/pid")).unwrap();
        eventually("the end of the command", || has_ended(&pid));
        place.has_nothing_left();
    }
}

#[test]
fn a_signal_at_the_start_removes_all_files() {
    let place = Place::new();
    let render = place.render();
    eventually("temporary files", || fs::read_dir(place.at("temporary")).unwrap().count() > 0);
    ends(render, "TERM", 143);
    place.has_nothing_left();
}

#[test]
fn a_supervisor_ends_with_the_command_that_started_it() {
    let place = Place::new();
    let mut render = place.render();
    eventually("the command", || place.at("marks/pid").exists());
    let supervisors = all_children(render.id().try_into().unwrap());
    assert_eq!(supervisors.len(), 1);
    render.kill().unwrap();
    render.wait().unwrap();
    let command = fs::read_to_string(place.at("marks/pid")).unwrap();
    for pid in [supervisors[0].to_string(), command.trim().to_owned()] {
        eventually("the end of a process", || has_ended(&pid));
    }
    // `serve` removes it.
    let left = fs::read_dir(place.at("temporary")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.len() == 1 && left[0].to_string_lossy().starts_with("cmp-private-"), "{left:?}");
}
