//! The binary with its own directories.

use std::{
    cell::RefCell,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Instant,
};

use rustix::{
    net::{AddressFamily, SocketType, bind, getsockname, socket},
    process::{Pid, Signal, geteuid, kill_process},
};
use tempfile::TempDir;

use crate::waiting::{PATIENCE, eventually, retry};

/// The kernel chooses a port, which the log then names. A port that a test had chosen could
/// be taken before the supervisor binds it.
pub(crate) const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Directories of a supervisor; several supervisors may share them.
pub(crate) struct Folders {
    root: TempDir,
}

/// A running supervisor, which is killed when this value is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) http: SocketAddr,
    lines: Receiver<String>,
    /// Lines of the log that no call has returned yet.
    passed_over: RefCell<Vec<String>>,
}

impl Folders {
    pub(crate) fn new() -> Self {
        let root = tempfile::Builder::new().prefix("cmp-").tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["plugins.d", "sockets", "programs"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let folders = Self { root };
        folders.install("x");
        folders
    }

    /// A directory of the supervisor's `PATH`.
    pub(crate) fn programs(&self) -> PathBuf {
        self.root.path().join("programs")
    }

    /// Creates a program.
    pub(crate) fn install(&self, name: &str) {
        let path = self.programs().join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn plugins(&self) -> PathBuf {
        self.root.path().join("plugins.d")
    }

    pub(crate) fn sockets(&self) -> PathBuf {
        self.root.path().join("sockets")
    }

    pub(crate) fn socket(&self, plugin: &str) -> PathBuf {
        self.sockets().join(format!("{plugin}.sock"))
    }

    /// Starts a supervisor and waits until it is ready.
    pub(crate) fn serve(&self) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmp-supervisor"));
        self.start(&mut command)
    }

    /// Starts a supervisor with a command that executes its arguments.
    pub(crate) fn start(&self, command: &mut Command) -> Server {
        self.start_with(command, &[])
    }

    /// The same with more arguments.
    pub(crate) fn start_with(&self, command: &mut Command, arguments: &[&str]) -> Server {
        self.start_at(command, ANY_PORT, arguments)
    }

    /// The same with another address of its HTTP server.
    pub(crate) fn start_on(&self, command: &mut Command, http: SocketAddr) -> Server {
        self.start_at(command, http, &[])
    }

    fn start_at(&self, command: &mut Command, http: SocketAddr, arguments: &[&str]) -> Server {
        let mut server = self.begin(command, http, arguments);
        server.http = server.address("serving metrics and health");
        server.says("\"msg\":\"ready\"");
        server
    }

    /// Starts a supervisor and does not wait for it.
    pub(crate) fn begin(
        &self,
        command: &mut Command,
        http: SocketAddr,
        arguments: &[&str],
    ) -> Server {
        let (mut server, stderr) = self.begin_unread(command, http, arguments);
        let (sender, lines) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(stderr).lines();
            lines.map_while(Result::ok).for_each(|l| drop(sender.send(l)));
        });
        server.lines = lines;
        server
    }

    /// The same with a log that nobody reads.
    pub(crate) fn begin_unread(
        &self,
        command: &mut Command,
        http: SocketAddr,
        arguments: &[&str],
    ) -> (Server, ChildStderr) {
        // Supervisors must not share a work directory.
        let work = tempfile::tempdir_in(self.root.path()).unwrap().keep();
        command
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", self.programs().display()))
            .arg("serve")
            .args(["--isolation", "none", "--accept-no-isolation", "--log-format", "json"])
            .args(["--run-as-uid", &geteuid().as_raw().to_string(), "--http", &http.to_string()])
            .arg("--plugins-dir")
            .arg(self.plugins())
            .arg("--socket-dir")
            .arg(self.sockets())
            .arg("--work-dir")
            .arg(work)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let (lines, passed_over) = (channel().1, RefCell::default());
        (Server { child, http, lines, passed_over }, stderr)
    }
}

impl Server {
    /// Waits for a log line that contains a text, and returns each line once. Threads of
    /// the supervisor write lines in any order.
    pub(crate) fn says(&self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let mut passed_over = self.passed_over.borrow_mut();
        if let Some(at) = passed_over.iter().position(|line| line.contains(text)) {
            return passed_over.remove(at);
        }
        while let Ok(line) =
            self.lines.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            if line.contains(text) {
                return line;
            }
            passed_over.push(line);
        }
        panic!("it never said {text}, but:\n{}", passed_over.join("\n"));
    }

    /// The address in the line of the log that contains a text.
    pub(crate) fn address(&self, text: &str) -> SocketAddr {
        let line: serde_json::Value = serde_json::from_str(&self.says(text)).unwrap();
        line["address"].as_str().unwrap().parse().unwrap()
    }

    /// Its process ID.
    pub(crate) fn id(&self) -> i32 {
        Pid::from_child(&self.child).as_raw_pid()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Writes a line to its standard input.
    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits for the process to end; returns its exit code.
    pub(crate) fn ends(&mut self) -> Option<i32> {
        eventually("its end", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().code()
    }

    /// Sends an HTTP request; returns status and body.
    pub(crate) fn ask(&self, method: &str, path: &str) -> (u16, String) {
        Self::ask_at(self.http, method, path)
    }

    /// Sends an HTTP request with headers and a body; returns the head and the body.
    pub(crate) fn send(&self, line: &str, headers: &str, body: &str) -> (String, Vec<u8>) {
        Self::send_at(self.http, line, headers, body)
    }

    /// The same at one of its addresses.
    pub(crate) fn send_at(
        http: SocketAddr,
        line: &str,
        headers: &str,
        body: &str,
    ) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: \
             {length}\r\n{headers}\r\n{body}"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let body = answer.split_off(end + 4);
        (String::from_utf8(answer).unwrap(), body)
    }

    /// The same at one of its addresses.
    pub(crate) fn ask_at(http: SocketAddr, method: &str, path: &str) -> (u16, String) {
        let (head, body) = Self::send_at(http, &format!("{method} {path}"), "", "");
        (head.split(' ').nth(1).unwrap().parse().unwrap(), String::from_utf8(body).unwrap())
    }
}

/// A port that nobody listens to. Nobody else gets it while its socket is open.
pub(crate) fn unserved() -> (OwnedFd, SocketAddr) {
    let bound = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&bound, &ANY_PORT).unwrap();
    let address = getsockname(&bound).unwrap().try_into().unwrap();
    (bound, address)
}

impl Drop for Server {
    fn drop(&mut self) {
        // The spawner ends with the supervisor.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Removes a directory in one step for those who know its path. If it were removed in place, a
/// supervisor could see it empty, or create something in it meanwhile.
pub(crate) fn remove_at_once(directory: &Path) {
    replace(directory, |_path| ());
}

/// The same; something else is put at its path before the directory itself is gone.
pub(crate) fn replace(directory: &Path, put: impl FnOnce(&Path)) {
    let away = tempfile::tempdir_in(directory.parent().unwrap()).unwrap();
    let moved = away.path().join("moved");
    fs::rename(directory, &moved).unwrap();
    put(directory);
    // A supervisor that misses the path tries a request, which may create its workspace in the
    // open directory meanwhile.
    retry(|| fs::remove_dir_all(&moved));
}

/// Writes a definition by rename, so that it is never seen incomplete.
pub(crate) fn write(directory: &Path, file: &str, text: &str) {
    let staged = directory.join(format!(".{file}.new"));
    fs::write(&staged, text).unwrap();
    fs::rename(staged, directory.join(file)).unwrap();
}
