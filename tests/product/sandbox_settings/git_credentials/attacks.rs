//! Attempts to get credentials of another request.

use std::{
    fs::{self, DirEntry, File},
    os::unix::{fs::OpenOptionsExt, net::UnixStream},
    path::{Path, PathBuf},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};

use super::{RepoServer, Site, usable};
use crate::{
    sandbox_settings::{
        bench::Bench,
        healing::{sleeper, unique},
        network::has_python,
        read_only::NONBLOCK,
    },
    waiting::retry,
};

/// Asks as the variables say, prints what comes out of it, and always succeeds. A
/// victim only sleeps, until the test ends that.
const SCRIPT: &str = r#"
if test -n "$ARGOCD_ENV_VICTIM"; then sleep "$ARGOCD_ENV_VICTIM"; echo 'kind: Victim'; exit; fi
ask() { ARGOCD_ASK_PASS_SOCK="$2" ARGOCD_GIT_ASKPASS_NONCE="$3" "$GIT_ASKPASS" Password 2>/dev/null || echo none; }
echo 'kind: A'
echo "place: $(ask 1 "$ARGOCD_ENV_PLACE" "$ARGOCD_ENV_NONCE")"
echo "nonce: $(ask 2 "$ARGOCD_ASK_PASS_SOCK" "$ARGOCD_ENV_NONCE")"
echo "raw: $(ask 3 "$ARGOCD_ASK_PASS_SOCK" "$ARGOCD_ENV_RAW")"
echo "server: $(ask 4 "$ARGOCD_ENV_SERVER" "$ARGOCD_ENV_RAW")"
echo "own: $(ask 5 "$ARGOCD_ASK_PASS_SOCK" "$ARGOCD_GIT_ASKPASS_NONCE")"
"#;

/// The variables of the process that has `ARGOCD_ENV_VICTIM` with this value.
fn environment_of(victim: &str) -> Vec<String> {
    process_of(victim, |_| true).1
}

/// The directory below `/proc` and the variables of a process that has `ARGOCD_ENV_VICTIM`
/// with this value, as soon as the process is ready.
fn process_of(victim: &str, is_ready: impl Fn(&Path) -> bool) -> (PathBuf, Vec<String>) {
    let wanted = format!("ARGOCD_ENV_VICTIM={victim}");
    let victim = |entry: DirEntry| {
        let process = entry.path();
        let bytes = fs::read(process.join("environ")).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let all: Vec<_> = text.split('\0').map(str::to_owned).collect();
        (all.contains(&wanted) && is_ready(&process)).then_some((process, all))
    };
    retry(|| fs::read_dir("/proc").unwrap().flatten().find_map(victim).ok_or("the victim"))
}

fn value(environment: &[String], name: &str) -> String {
    let found = environment.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {name}")).to_owned()
}

#[test]
fn another_request_gets_only_its_own_password() {
    for tier in usable().into_iter().filter(|tier| *tier != "none") {
        let site = Site::new(tier, SCRIPT);
        let known = [("nonce-7c1e", "victims-word"), ("nonce-9f20", "attackers-word")];
        let repo_server = RepoServer::start(&site.bench.path(""), &known);
        let mark = unique(600);
        let mut environment = repo_server.variables("nonce-7c1e");
        environment.push(("ARGOCD_ENV_VICTIM".to_owned(), mark.clone()));
        let (seen, answer) = thread::scope(|scope| {
            let victim = scope.spawn(|| site.ask(environment).unwrap());
            let seen = environment_of(&mark);
            let mut attack = repo_server.variables("nonce-9f20");
            let server = repo_server.socket().display().to_string();
            for (name, told) in [
                ("PLACE", value(&seen, "ARGOCD_ASK_PASS_SOCK")),
                ("NONCE", value(&seen, "ARGOCD_GIT_ASKPASS_NONCE")),
                ("RAW", "nonce-7c1e".to_owned()),
                ("SERVER", server),
            ] {
                attack.push((format!("ARGOCD_ENV_{name}"), told));
            }
            let answer = site.ask(attack).unwrap();
            assert!(is_open(&value(&seen, "ARGOCD_ASK_PASS_SOCK")), "{tier}: closed too early");
            assert!(!victim.is_finished(), "{tier}: the victim ended before the attack");
            // The shell goes on without it.
            let sleeping = retry(|| sleeper(&mark).ok_or("the victim's sleep"));
            kill_process(sleeping, Signal::KILL).unwrap();
            victim.join().unwrap();
            (seen, answer)
        });
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["place"], "none", "{tier}: {answer}");
        assert_eq!(answer["server"], "none", "{tier}: {answer}");
        assert_eq!(answer["own"], "attackers-word", "{tier}: {answer}");
        // Pipes take no nonce: only the request can open its own.
        let expected = if tier == "landlock" { "attackers-word" } else { "none" };
        assert_eq!([&answer["nonce"], &answer["raw"]], [expected; 2], "{tier}: {answer}");
        let all = seen.join(" ");
        assert!(!all.contains("nonce-7c1e") && !all.contains("reposerver"), "{tier}: {all}");
        let place = value(&seen, "ARGOCD_ASK_PASS_SOCK");
        assert!(!is_open(&place), "{tier}: open after the end");
    }
}

/// True if somebody takes questions at a socket or a pipe.
fn is_open(place: &str) -> bool {
    let mut pipe = File::options();
    pipe.write(true).custom_flags(NONBLOCK);
    UnixStream::connect(place).is_ok() || pipe.open(place).is_ok()
}

#[test]
fn questions_are_bounded() {
    // A question of 5 KB, and more questions than a request may ask.
    let script = r#"
echo 'kind: A'
long=$(head -c 5000 /dev/zero | tr '\0' a)
echo "long: $(ARGOCD_GIT_ASKPASS_NONCE=$long "$GIT_ASKPASS" Password 2>/dev/null || echo none)"
if test -p "$ARGOCD_ASK_PASS_SOCK"; then
    echo "first: $("$GIT_ASKPASS" Password || echo none)"
    head -c 3000 /dev/zero > "$ARGOCD_ASK_PASS_SOCK"
    while "$GIT_ASKPASS" Password >/dev/null 2>&1; do :; done
fi
"#;
    for tier in usable().into_iter().filter(|tier| ["uid", "landlock"].contains(tier)) {
        let bench = Bench::new("  provideGitCreds: true", script);
        let server = bench.serve(tier, &["--exec-timeout", "10m"]);
        let site = Site { bench, server };
        let repo_server = RepoServer::start(&site.bench.path(""), &[("nonce-7c1e", "hunter22")]);
        let answer = site.ask(repo_server.variables("nonce-7c1e")).unwrap();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert!(repo_server.asked() <= 1000, "{tier}: {}", repo_server.asked());
        if tier == "landlock" {
            assert_eq!(answer["first"], "hunter22", "{answer}");
            site.server.says("asked for git credentials 1000 times");
        } else {
            assert_eq!(answer["long"], "none", "{tier}: {answer}");
        }
    }
}

#[test]
fn idle_connections_hold_up_no_other_request() {
    let script = r#"
if test -n "$ARGOCD_ENV_VICTIM"; then
    perl -MIO::Socket::UNIX -e 'my @all = map { IO::Socket::UNIX->new($ENV{ARGOCD_ASK_PASS_SOCK}) } 1..50; sleep 60' >&2
fi
echo 'kind: A'
test -n "$ARGOCD_ENV_VICTIM" || echo "own: $("$GIT_ASKPASS" Password)"
"#;
    for tier in usable().into_iter().filter(|tier| *tier == "uid") {
        let site = Site::new(tier, script);
        let known = [("nonce-7c1e", "hoarders-word"), ("nonce-9f20", "others-word")];
        let repo_server = RepoServer::start(&site.bench.path(""), &known);
        let mark = site.bench.path("").display().to_string();
        let mut environment = repo_server.variables("nonce-7c1e");
        environment.push(("ARGOCD_ENV_VICTIM".to_owned(), mark.clone()));
        thread::scope(|scope| {
            let hoarder = scope.spawn(|| site.ask(environment));
            let has_all = |process: &Path| {
                fs::read_dir(process.join("fd")).is_ok_and(|descriptors| descriptors.count() > 50)
            };
            let (process, _) = process_of(&mark, has_all);
            let answer = site.ask(repo_server.variables("nonce-9f20")).unwrap();
            assert!(answer.contains("others-word"), "{answer}");
            assert!(has_all(&process), "the hoarder ended too early");
            // The shell goes on without it.
            let number = process.file_name().unwrap().to_str().unwrap().parse().unwrap();
            kill_process(Pid::from_raw(number).unwrap(), Signal::KILL).unwrap();
            hoarder.join().unwrap().unwrap();
        });
    }
}

/// Nobody has these files open, so no measurement sees their memory.
#[test]
fn files_in_memory_cannot_be_hidden_at_the_socket() {
    let script = r#"exec python3 -c '
import os, socket
place = os.environ["ARGOCD_ASK_PASS_SOCK"]
def connect():
    one = socket.socket(socket.AF_UNIX)
    one.connect(place)
    return one
taken = [connect() for _ in range(8)]
last = connect()
last.settimeout(60)
try:
    socket.send_fds(last, [b"x"], [os.memfd_create("hidden")])
    end = "closed" if last.recv(1) == b"" else "answered"
except ConnectionResetError:
    end = "closed"
except TimeoutError:
    end = "kept"
except PermissionError:
    end = "refused"
print("kind: A")
print("end: " + end)
'"#;
    for tier in usable().into_iter().filter(|tier| ["namespaces", "uid"].contains(tier)) {
        if !has_python() {
            return;
        }
        let site = Site::new(tier, script);
        let repo_server = RepoServer::start(&site.bench.path(""), &[("nonce-7c1e", "hunter22")]);
        let answer = site.ask(repo_server.variables("nonce-7c1e")).unwrap();
        // Linux 6.16 and newer let nobody send a descriptor.
        if !answer.contains(r#""end":"refused""#) {
            assert!(answer.contains(r#""end":"closed""#), "{tier}: {answer}");
            site.server.says("sent descriptors");
        }
    }
}

/// The last process that closes such a socket waits until its data has arrived.
#[test]
fn sockets_that_close_slowly_do_not_block_the_supervisor() {
    let script = r#"exec python3 -c '
import os, socket, struct, subprocess
server = socket.create_server(("127.0.0.1", 0))
kept = []
for _ in range(4):
    sender = socket.create_connection(server.getsockname())
    receiver = server.accept()[0]
    sender.setblocking(False)
    try:
        while True:
            sender.send(bytes(65536))
    except BlockingIOError:
        pass
    asking = socket.socket(socket.AF_UNIX)
    asking.connect(os.environ["ARGOCD_ASK_PASS_SOCK"])
    kept += [receiver, asking]
    try:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 20))
        socket.send_fds(asking, [b"x"], [sender.fileno()])
    except PermissionError:
        pass
    sender.close()
print("kind: A", flush=True)
print("own: " + subprocess.check_output(["timeout", "15", os.environ["GIT_ASKPASS"], "Password"], text=True))
'"#;
    for tier in usable().into_iter().filter(|tier| ["namespaces", "uid"].contains(tier)) {
        if !has_python() {
            return;
        }
        let site = Site::with("  sandbox: {network: any}\n", tier, script);
        let repo_server = RepoServer::start(&site.bench.path(""), &[("nonce-7c1e", "hunter22")]);
        let answer = site.ask(repo_server.variables("nonce-7c1e"));
        assert!(answer.as_ref().is_ok_and(|answer| answer.contains("hunter22")), "{answer:?}");
    }
}
