//! Runs the program's commands and parses their output.

use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    io::{BufRead, BufReader},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    entrances::fixtures::{Expected, Room},
    reload::server::{ANY_PORT, Server},
};

/// UID of the commands, because root could read every file.
pub(crate) const NOBODY: u32 = 65534;

/// Diagnostic code of an ignored entry.
const IGNORED: &str = "CMP0405";

/// Message of the log line that names the address of the HTTP server.
const SERVING: &str = "serving metrics and health";

/// The content of a plugins directory, as reported by a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    plugins: BTreeSet<String>,
    left_out: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

/// A copy of the program that every UID can run.
pub(crate) struct Program(TempDir);

impl Found {
    pub(crate) fn of(expected: &Expected) -> Self {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let Expected { plugins, left_out, ignored } = expected;
        Self { plugins: set(plugins), left_out: set(left_out), ignored: set(ignored) }
    }
}

impl Program {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let program = Self(directory);
        // This process must not have it open for writing: a child that another thread is
        // just starting would inherit that, and nobody could execute the copy meanwhile.
        let binary = env!("CARGO_BIN_EXE_cmp-supervisor");
        let copied = Command::new("cp").arg(binary).arg(program.path()).status().unwrap();
        assert!(copied.success(), "a copy of {binary}");
        program
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("cmp-supervisor")
    }

    fn command(&self, verb: &str, room: &Room) -> Command {
        let mut command = Command::new(self.path());
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.arg(verb).stdin(Stdio::null()).env("TMPDIR", room.at("work"));
        command
    }

    /// The command line of `serve` or `doctor`.
    fn server(&self, verb: &str, room: &Room) -> Command {
        let mut command = self.command(verb, room);
        command.args(["--isolation", "none", "--accept-no-isolation"]);
        command.args(["--run-as-uid", &NOBODY.to_string()]);
        for (flag, name) in
            [("--plugins-dir", "plugins.d"), ("--socket-dir", "sockets"), ("--work-dir", "work")]
        {
            command.arg(flag).arg(room.at(name));
        }
        command
    }

    fn local(&self, verb: &str, room: &Room) -> Command {
        let mut command = self.command(verb, room);
        command.arg(room.at("app")).arg("--plugins-dir").arg(room.plugins());
        command.args(["--isolation", "none", "--output", "json"]);
        command
    }

    pub(crate) fn serve(&self, room: &Room, _plugins: &Path) -> Found {
        let mut command = self.server("serve", room);
        command.args(["--log-format", "json", "--http", &ANY_PORT.to_string()]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = Vec::<Value>::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // Threads of the supervisor write lines in any order.
        while ["ready", SERVING].iter().any(|text| said(&log, text).is_none()) {
            let line = lines.next().expect("a line that says that it is ready").unwrap();
            log.push(serde_json::from_str(&line).unwrap());
        }
        let http = text(said(&log, SERVING).unwrap(), "address").parse().unwrap();
        let (_, answer) = Server::ask_at(http, "GET", "/plugins");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        child.wait().unwrap();
        let mut found = Found::default();
        for plugin in answer["plugins"].as_array().unwrap() {
            match plugin["state"].as_str().unwrap() {
                "serving" => found.plugins.insert(text(plugin, "name")),
                _ => found.left_out.insert(text(plugin, "file")),
            };
        }
        let ignored = log.iter().filter(|event| event["code"] == IGNORED);
        found.ignored.extend(ignored.map(|event| text(event, "file")));
        found
    }

    pub(crate) fn validate(&self, room: &Room, plugins: &Path) -> Found {
        let mut command = self.command("validate", room);
        let output = command.arg(plugins).args(["--output", "json"]).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut found = Found::default();
        let names = report["plugins"].as_array().unwrap();
        found.plugins.extend(names.iter().map(|name| name.as_str().unwrap().to_owned()));
        for diagnostic in report["diagnostics"].as_array().unwrap() {
            let file = text(diagnostic, "file");
            // The diagnostic of an empty directory has the directory's path.
            let Some(file) = file.strip_prefix(&format!("{}/", plugins.display())) else {
                continue;
            };
            match (&*text(diagnostic, "code"), &*text(diagnostic, "severity")) {
                (IGNORED, _) => found.ignored.insert(file.to_owned()),
                (_, "error") => found.left_out.insert(file.to_owned()),
                _ => false,
            };
        }
        found
    }

    pub(crate) fn matches(&self, room: &Room, _plugins: &Path) -> Found {
        let output = self.local("match", room).output().unwrap();
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let mut found = progress(&output);
        found.plugins.extend(rows.iter().map(|row| text(row, "plugin")));
        found
    }

    /// Asks for a plugin that does not exist. The error lists the available ones.
    pub(crate) fn ask_for_unknown_plugin(&self, verb: &str, room: &Room, _plugins: &Path) -> Found {
        let output = self.local(verb, room).args(["--plugin", "no-such"]).output().unwrap();
        let mut found = progress(&output);
        let errors = String::from_utf8(output.stderr).unwrap();
        if let Some((_, rest)) = errors.split_once("available plugins: ") {
            // The list of definitions that are not served may follow.
            let known = rest.split("; not served: ").next().unwrap();
            found.plugins.extend(known.trim_end().split(", ").map(str::to_owned));
        }
        found
    }

    pub(crate) fn doctor(&self, room: &Room, _plugins: &Path) -> Found {
        let output = self.server("doctor", room).args(["--output", "json"]).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut found = Found::default();
        let findings = report["findings"].as_array().unwrap().iter();
        for finding in findings.filter(|finding| finding["section"] == "plugins") {
            let text = text(finding, "text");
            let subject = |text: &str| text.split_once(": ").unwrap().0.to_owned();
            match (finding["state"].as_str().unwrap(), text.strip_prefix("not served: ")) {
                ("fine", _) => found.plugins.insert(subject(&text)),
                ("note", _) => found.ignored.insert(subject(&text)),
                (_, Some(text)) => found.left_out.insert(subject(text)),
                _ => false,
            };
        }
        found
    }

    /// The whole output of a command that fails.
    pub(crate) fn error(&self, verb: &str, room: &Room) -> String {
        let mut command = match verb {
            "serve" | "doctor" => self.server(verb, room),
            "validate" => self.command(verb, room),
            _ => self.local(verb, room),
        };
        if verb == "validate" {
            command.arg(room.plugins());
        }
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{verb}");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }
}

/// The entries that a command with a private supervisor reports on standard error.
fn progress(output: &Output) -> Found {
    let mut found = Found::default();
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        let subject = |text: &str| text.split_once(": ").unwrap().0.to_owned();
        if let Some((_, text)) = line.split_once("warning invalid plugin definition: ") {
            found.left_out.insert(subject(text));
        } else if let Some(text) = line.trim_start().strip_prefix("ignored ") {
            found.ignored.insert(subject(text));
        }
    }
    found
}

/// The first line of a log with this message.
fn said<'l>(log: &'l [Value], message: &str) -> Option<&'l Value> {
    log.iter().find(|event| event["msg"] == message)
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap().to_owned()
}
