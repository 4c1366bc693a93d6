//! Starting as argocd-cmp-server: what the peer refuses, with its exit code and
//! the beginning of its message. Both were taken from the peer, v3.2.12.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{
    reload::loaded::definition,
    waiting::{PATIENCE, eventually, retry},
};

/// The directories of one server and the definition of its plugin.
struct Place(TempDir);

impl Place {
    fn new(plugin: &str) -> Self {
        let place = Self(tempfile::Builder::new().prefix("cmp-name-").tempdir().unwrap());
        let open = |path: &PathBuf| fs::set_permissions(path, Permissions::from_mode(0o777));
        open(&place.0.path().to_owned()).unwrap();
        for name in ["config", "sockets", "work"] {
            fs::create_dir(place.at(name)).unwrap();
            open(&place.at(name)).unwrap();
        }
        fs::write(place.at("config/plugin.yaml"), definition(plugin, "true")).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bare();
        command.arg("--config-dir-path").arg(self.at("config")).args(arguments);
        command
    }

    /// A command without arguments.
    fn bare(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        command.env_clear().env("PATH", "/usr/bin:/bin");
        command.env("ARGOCD_BINARY_NAME", "argocd-cmp-server");
        command.env("ARGOCD_PLUGINSOCKFILEPATH", self.at("sockets"));
        command.env("ARGOCD_CMP_WORKDIR", self.at("work"));
        // Everywhere the same, whatever this machine offers.
        command.env("CMP_SUPERVISOR_ISOLATION", "none");
        command.env("CMP_SUPERVISOR_ACCEPT_NO_ISOLATION", "true");
        command.stdin(Stdio::null());
        command
    }
}

/// Waits for the end of a server that is to refuse; one that serves is killed.
fn end(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

#[track_caller]
fn refuses(command: &mut Command, code: i32, text: &str) {
    let output = end(command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(text), "{command:?}: {stderr}");
    assert_eq!(output.status.code(), Some(code), "{command:?}: {stderr}");
}

#[track_caller]
fn serves(place: &Place, command: &mut Command) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    appears(&mut child, &place.at("sockets/a.sock"));
    stop(child);
}

/// Waits until a server has created its socket.
#[track_caller]
fn appears(child: &mut Child, socket: &Path) {
    eventually("the socket", || {
        assert_eq!(child.try_wait().unwrap(), None, "{}", socket.display());
        socket.exists()
    });
}

/// Waits until the log says that a server is ready, and returns the log.
#[track_caller]
fn is_ready(place: &Place) -> String {
    retry(|| match fs::read_to_string(place.at("log")).unwrap() {
        log if log.contains("\"ready\"") => Ok(log),
        log => Err(format!("the server: {log}")),
    })
}

fn stop(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn wrong_flags_end_with_1_in_the_peers_words() {
    let place = Place::new("a");
    for (arguments, text) in [
        (&["--bogus"][..], "unknown flag: --bogus"),
        (&["--bogus=1"], "unknown flag: --bogus"),
        (&["-x"], "unknown shorthand flag: 'x' in -x"),
        (&["--logformat"], "flag needs an argument: --logformat"),
        (
            &["--otlp-insecure=maybe"],
            "invalid argument \"maybe\" for \"--otlp-insecure\" flag: strconv.ParseBool: parsing \
             \"maybe\": invalid syntax",
        ),
        (&["--logformat", "bogus"], "Unknown log format 'bogus'"),
        (&["--logformat", "Bogus", "--loglevel", "bogus"], "Unknown log format 'Bogus'"),
    ] {
        refuses(&mut place.command(arguments), 1, text);
    }
    let mut command = place.command(&[]);
    refuses(command.env("ARGOCD_CMP_SERVER_LOGFORMAT", "xml"), 1, "Unknown log format 'xml'");
}

#[test]
fn our_flags_are_variables() {
    let place = Place::new("a");
    let text = "invalid argument \"1x\" for \"--max-memory\" flag: expected a size, for example 512Mi \
                or 2G, or unlimited: the value comes from the variable CMP_SUPERVISOR_MAX_MEMORY";
    refuses(place.command(&[]).env("CMP_SUPERVISOR_MAX_MEMORY", "1x"), 1, text);
    let help = place.command(&["--help"]).output().unwrap().stdout;
    assert!(String::from_utf8(help).unwrap().contains("CMP_SUPERVISOR_MAX_MEMORY"));
}

#[test]
fn a_wrong_log_level_ends_with_20() {
    let place = Place::new("a");
    let text = "not a valid logrus Level: \"bogus\"";
    refuses(&mut place.command(&["--loglevel", "bogus"]), 20, text);
    let mut command = place.command(&[]);
    refuses(command.env("ARGOCD_CMP_SERVER_LOGLEVEL", "bogus"), 20, text);
}

#[test]
fn unusual_flags_that_the_peer_takes_are_taken() {
    for arguments in [
        &["--loglevel", "bogus", "--loglevel", "INFO"][..],
        &["--logformat", "text", "--logformat", "JSON"],
        &["--loglevel=", "--logformat="],
        &["--otlp-insecure", "false", "x", "y"],
    ] {
        // The spawner of a server that was killed holds its work directory for a moment.
        let place = Place::new("a");
        serves(&place, &mut place.command(arguments));
    }
    let place = Place::new("a");
    let mut command = place.command(&[]);
    command.env("ARGOCD_CMP_SERVER_LOGFORMAT", "").env("ARGOCD_CMP_SERVER_LOGLEVEL", "");
    serves(&place, &mut command);
}

#[test]
fn settings_without_effect_are_named_once() {
    let place = Place::new("a");
    let arguments = ["--otlp-address", "h:4317", "--otlp-insecure=false", "more"];
    let mut command = place.command(&arguments);
    let log = fs::File::create(place.at("log")).unwrap();
    command.env("ARGOCD_GRPC_KEEP_ALIVE_MIN", "10s").env("ARGOCD_CMP_SERVER_OTLP_ATTRS", "");
    command.env("CMP_SUPERVISOR_PLUGINS_DIR", place.at("plugins"));
    let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let log = is_ready(&place);
    stop(child);
    let lines: Vec<_> = log.lines().filter(|line| line.contains("have no effect")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    let names = "ARGOCD_GRPC_KEEP_ALIVE_MIN, CMP_SUPERVISOR_PLUGINS_DIR, argument \\\"more\\\"";
    assert!(lines[0].contains(names), "{}", lines[0]);
    assert!(log.contains("there is no TLS: set --otlp-insecure true"), "{log}");
}

/// The log of a server with these variables, from its start to its end.
#[track_caller]
fn log_with(variables: &[(&str, &str)]) -> String {
    let place = Place::new("a");
    let mut command = place.command(&[]);
    let log = fs::File::create(place.at("log")).unwrap();
    command.envs(variables.iter().copied()).stdout(Stdio::null()).stderr(log);
    let mut child = command.spawn().unwrap();
    appears(&mut child, &place.at("sockets/a.sock"));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    child.wait().unwrap();
    fs::read_to_string(place.at("log")).unwrap()
}

#[test]
fn our_variables_of_the_log_count_after_those_of_the_peer() {
    let (ours, peers) = ("CMP_SUPERVISOR_LOG_FORMAT", "ARGOCD_CMP_SERVER_LOGFORMAT");
    for (variables, is_json) in [
        (&[][..], true),
        (&[(ours, "text")], false),
        (&[(ours, "text"), (peers, "json")], true),
        (&[(ours, "text"), (peers, "")], false),
    ] {
        let log = log_with(variables);
        assert_eq!(log.starts_with('{'), is_json, "{variables:?}: {log}");
    }
    let (ours, peers) = ("CMP_SUPERVISOR_LOG_LEVEL", "ARGOCD_CMP_SERVER_LOGLEVEL");
    for (variables, is_told) in [
        (&[][..], true),
        (&[(ours, "error")], false),
        (&[("RUST_LOG", "error")], false),
        (&[(ours, "error"), (peers, "info")], true),
    ] {
        let log = log_with(variables);
        assert_eq!(log.contains("resources are shared out"), is_told, "{variables:?}: {log}");
    }
}

#[test]
fn a_socket_that_cannot_be_made_ends_with_20() {
    let place = Place::new(&"long".repeat(30));
    let text = "bind: invalid argument: the path has ";
    refuses(&mut place.command(&[]), 20, text);

    let place = Place::new("a");
    fs::create_dir_all(place.at("sockets/a.sock/full")).unwrap();
    refuses(&mut place.command(&[]), 20, "cannot serve plugin a: ");

    let place = Place::new("a");
    let mut command = place.command(&[]);
    let long = place.at(&"x".repeat(84 - place.at("").as_os_str().len()));
    fs::create_dir(&long).unwrap();
    fs::set_permissions(&long, Permissions::from_mode(0o777)).unwrap();
    command.env("ARGOCD_PLUGINSOCKFILEPATH", &long);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    appears(&mut child, &long.join("a.sock"));
    stop(child);
    let longer = format!("{}x", long.display());
    refuses(command.env("ARGOCD_PLUGINSOCKFILEPATH", longer), 20, "has 85 bytes; the limit is 84");
}

/// A container's variables also hold for `kubectl exec` and for probes.
#[test]
fn subcommands_win_over_the_variable_and_not_over_the_name_of_the_file() {
    let place = Place::new("a");
    for (arguments, text) in [
        (&["version"][..], "cmp-supervisor "),
        (&["help", "probe"], "Usage: cmp-supervisor probe"),
        (&["explain", "CMP0404"], "CMP0404"),
    ] {
        let output = end(place.bare().args(arguments));
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && stdout.contains(text), "{arguments:?}: {output:?}");
    }
    serves(&place, place.command(&[]).arg("version"));
    let link = place.at("argocd-cmp-server");
    symlink(env!("CARGO_BIN_EXE_cmp-supervisor"), &link).unwrap();
    let output = end(Command::new(&link).args(["version", "--bogus"]).stdin(Stdio::null()));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("unknown flag: --bogus"), "{stderr}");
}

/// True if a process listens on a TCP port.
fn listens(pid: u32) -> bool {
    let sockets = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let sockets = sockets.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let sockets: Vec<_> = sockets.map(|link| link.display().to_string()).collect();
    let connections = fs::read_to_string("/proc/net/tcp").unwrap();
    connections.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        // The fourth field is the state, the tenth the inode.
        fields[3] == "0A" && sockets.contains(&format!("socket:[{}]", fields[9]))
    })
}

#[test]
fn there_is_no_http_without_its_variable() {
    for (address, is_served) in [(None, false), (Some("127.0.0.1:0"), true)] {
        let place = Place::new("a");
        let mut command = place.command(&[]);
        command.envs(address.map(|address| ("CMP_SUPERVISOR_HTTP", address)));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        appears(&mut child, &place.at("sockets/a.sock"));
        let found = listens(child.id());
        stop(child);
        assert_eq!(found, is_served, "{address:?}");
    }
}

#[test]
fn only_the_first_document_is_served() {
    let place = Place::new("first");
    let file = place.at("config/plugin.yaml");
    let first = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{first}---\n{}", first.replace("first", "second"))).unwrap();
    let mut command = place.command(&[]);
    let log = fs::File::create(place.at("log")).unwrap();
    let mut child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
    appears(&mut child, &place.at("sockets/first.sock"));
    // All sockets are there by then.
    is_ready(&place);
    let is_second_served = place.at("sockets/second.sock").exists();
    stop(child);
    assert!(!is_second_served);
}

#[test]
fn a_work_directory_that_cannot_be_made_ends_with_20() {
    let place = Place::new("a");
    fs::write(place.at("file"), "").unwrap();
    let mut command = place.command(&[]);
    refuses(command.env("ARGOCD_CMP_WORKDIR", place.at("file")), 20, "choose a directory");
}
