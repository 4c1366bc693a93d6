//! Finds refused accesses in what a command wrote.
//!
//! Every language has words of its own for a refused open(2) or connect(2). A line
//! counts only if it names the path or the connection: servers also deny things.

mod port;

use std::path::Path;

use self::port::port;
use super::shell;
use crate::programs::closed;

/// Most lines that are read. An excerpt has no more that matter.
const MAX_LINES: usize = 2000;

/// An access that was refused, or seems to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Denial {
    /// A connection. `is_certain` is false for programs that hide the reason.
    Connect { port: Option<u16>, is_certain: bool },
    /// A socket that listens.
    Listen,
    /// A socket file.
    Socket(String),
    /// A path that the kernel refused (EACCES).
    Path(String),
    /// A path that could not be written to (EROFS).
    Write(String),
    /// A path that was not there (ENOENT).
    Absent(String),
    /// A program that a shell found in no open directory of `PATH`, or could not start.
    Program(String),
}

/// Words of a refusal (EACCES), in lower case.
const DENIED: [&str; 3] = ["permission denied", "eacces", "accessdeniedexception"];

/// Words of a file system that is read-only.
const READ_ONLY: [&str; 2] = ["read-only file system", "erofs"];

/// Words of a missing file.
const ABSENT: [&str; 5] = [
    // dash leaves out "or directory".
    "no such file",
    "enoent",
    "nosuchfileexception",
    "filenotfoundexception",
    "(os error 2)",
];

/// Words of a server that denies something, after `permission denied`.
const SERVER: [&str; 6] = ["(publickey", "(password", "(keyboard", "for ", "on ", "to "];

/// Words about the socket that answers questions for git credentials. The supervisor
/// connects to it, not the command.
pub(crate) const ASK_PASS_SOCKET: &str = "the repo-server's socket for git credentials";

/// Words of a connection.
const CONNECTION: [&str; 9] = [
    "connect",
    "dial tcp",
    "urlopen error",
    "error sending request",
    "socketexception",
    // Java calls a refused connection this; Net.connect0 is in its trace.
    "bindexception",
    "failed to establish a new connection",
    "connection refused by",
    "tcp",
];

/// Words of a connection alone. A path in the same line is that of a URL or of a program.
const ONLY_CONNECTION: [&str; 5] = [
    "dial tcp",
    "urlopen error",
    "error sending request",
    "failed to establish a new connection",
    "tcp connect error",
];

/// Words of a program that hides why it could not connect.
const NOT_CONNECTED: [&str; 2] = ["failed to connect to", "couldn't connect to server"];

/// Refused accesses in a text, in its order.
pub(super) fn denials(text: &str) -> Vec<Denial> {
    let traced = Traced { connect: text.contains(".connect("), bind: text.contains(".bind(") };
    let text = unwrapped(text);
    text.lines().filter_map(|line| denial(line, &line.to_ascii_lowercase(), traced)).collect()
}

/// Calls in the trace of a text. Python's error does not name the call that failed.
#[derive(Clone, Copy)]
struct Traced {
    connect: bool,
    bind: bool,
}

/// The text without the line breaks of sops, which puts its errors into a column of
/// 80 characters behind a bar.
pub(super) fn unwrapped(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for line in text.lines().take(MAX_LINES) {
        let rest = line.trim_start().strip_prefix("| ");
        joined.push(if rest.is_some() { ' ' } else { '\n' });
        joined.push_str(rest.unwrap_or(line));
    }
    joined
}

/// Decides about one line.
fn denial(line: &str, lower: &str, traced: Traced) -> Option<Denial> {
    if line.contains(ASK_PASS_SOCKET) {
        return None;
    }
    if let Some(name) = shell::program(line) {
        return Some(Denial::Program(name.to_owned()));
    }
    if let Some(path) = shell::absent(line) {
        return Some(Denial::Absent(path.to_owned()));
    }
    let find = |words: &[&str]| words.iter().filter_map(|word| lower.find(word)).min();
    let says = |words: &[&str]| find(words).is_some();
    if let Some(at) = find(&DENIED) {
        if is_of_server(lower) {
            return None;
        }
        if says(&["bind:", "listen eacces", "listen tcp", "listen unix"]) {
            return Some(path(line, at).map_or(Denial::Listen, Denial::Socket));
        }
        let path = path(line, at).filter(|_| !says(&ONLY_CONNECTION));
        let is_connection = says(&CONNECTION) && !says(&["dial unix", "dial udp"]);
        let is_bare = lower.trim_end().ends_with("[errno 13] permission denied");
        return match path {
            Some(path) if says(&["dial unix", "connect eacces /"]) => Some(Denial::Socket(path)),
            Some(path) => Some(Denial::Path(path)),
            None if is_connection || is_bare && traced.connect => {
                Some(Denial::Connect { port: port(lower), is_certain: true })
            }
            None if is_bare && traced.bind => Some(Denial::Listen),
            None => None,
        };
    }
    if let Some(at) = find(&READ_ONLY) {
        return path(line, at).map(Denial::Write);
    }
    if let Some(at) = find(&ABSENT) {
        return path(line, at).map(Denial::Absent);
    }
    let port = says(&NOT_CONNECTED).then(|| port(lower)).flatten();
    port.map(|port| Denial::Connect { port: Some(port), is_certain: false })
}

/// True if a server, and not the kernel, denied something.
pub(super) fn is_of_server(lower: &str) -> bool {
    let mut rest = lower.split("permission denied").skip(1);
    let denies = |rest: &str| SERVER.iter().any(|word| rest.trim_start().starts_with(word));
    lower.trim_start().starts_with("remote:") || rest.any(denies)
}

/// The absolute path in a line: the last one before the words at `at`, or else the
/// first one after them.
fn path(line: &str, at: usize) -> Option<String> {
    let (before, after) = line.split_at_checked(at)?;
    let mut last = paths(before).into_iter();
    let last = last.rfind(|(start, _)| *start > 0).map(|(_, path)| path);
    last.or_else(|| paths(after).into_iter().next().map(|(_, path)| path))
}

/// Absolute paths with their positions. A path at the beginning of a line, before a
/// colon, is the name of the program that complains.
fn paths(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut before = ' ';
    let mut rest = 0;
    for (at, character) in text.char_indices() {
        let begins = character == '/' && (before.is_whitespace() || OPENING.contains(&before));
        if begins && at >= rest {
            let (_, tail) = text.split_at(at);
            let path = match closing(before) {
                Some(quote) => tail.split(quote).next().unwrap_or_default(),
                None => tail.split([' ', ',', ')', ';', '\'', '"']).next().unwrap_or_default(),
            };
            let path = path.trim_end_matches([':', '.']);
            rest = at + path.len();
            // Without `..`, which would lead from an open directory to a closed one.
            let clean = closed::cleaned(Path::new(path)).display().to_string();
            // Two slashes begin the authority of a URL.
            if clean.len() > 1 && !path.starts_with("//") {
                found.push((at, clean));
            }
        }
        before = character;
    }
    found
}

/// Characters before a path.
const OPENING: [char; 6] = ['\'', '"', '`', '‘', '(', '='];

fn closing(quote: char) -> Option<char> {
    match quote {
        '‘' => Some('’'),
        '\'' | '"' | '`' => Some(quote),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(port: u16) -> Denial {
        Denial::Connect { port: Some(port), is_certain: true }
    }

    fn hidden(port: u16) -> Denial {
        Denial::Connect { port: Some(port), is_certain: false }
    }

    /// Lines that real programs wrote in this sandbox.
    #[test]
    fn refused_connections_are_found_with_their_ports() {
        for (line, expected) in [
            (
                "Get \"https://h/\": dial tcp 10.0.0.1:3128: connect: permission denied",
                connect(3128),
            ),
            ("2026/01/01 12:30:01 dial tcp [::1]:8099: connect: permission denied", connect(8099)),
            ("Error: connect EACCES 127.0.0.1:8099 - Local (0.0.0.0:0)", connect(8099)),
            ("ssh: connect to host 127.0.0.1 port 2299: Permission denied", connect(2299)),
            ("Connecting to 127.0.0.1:8099... failed: Permission denied.", connect(8099)),
            (
                "HTTPSConnectionPool(host='h', port=8443): Max retries exceeded with url: / (Caused by \
                 NewConnectionError('<x>: Failed to establish a new connection: [Errno 13] Permission \
                 denied'))",
                connect(8443),
            ),
            (
                "error sending request for url (http://127.0.0.1:8099/): tcp connect error: \
                 Permission denied (os error 13)",
                connect(8099),
            ),
            (
                "urllib.error.URLError: <urlopen error [Errno 13] Permission denied>",
                Denial::Connect { port: None, is_certain: true },
            ),
            (
                "java.net.ConnectException: Permission denied",
                Denial::Connect { port: None, is_certain: true },
            ),
            (
                "Exception in thread \"main\" java.net.BindException: Permission denied",
                Denial::Connect { port: None, is_certain: true },
            ),
            (
                "curl: (7) Failed to connect to 127.0.0.1 port 8099 after 0 ms: Couldn't connect to \
                 server",
                hidden(8099),
            ),
            (
                "fatal: unable to access 'http://127.0.0.1:8099/x/': Failed to connect to 127.0.0.1 \
                 port 8099 after 0 ms: Couldn't connect to server",
                hidden(8099),
            ),
            ("listen tcp 127.0.0.1:8080: bind: permission denied", Denial::Listen),
            ("Error: listen EACCES: permission denied 127.0.0.1:8099", Denial::Listen),
        ] {
            assert_eq!(denials(line), [expected], "{line}");
        }
        let trace = "    sock.connect(sa)\nPermissionError: [Errno 13] Permission denied\n";
        assert_eq!(denials(trace), [Denial::Connect { port: None, is_certain: true }]);
        assert_eq!(denials(&trace.replace("connect", "bind")), [Denial::Listen]);
    }

    /// A path in the line is that of a URL or of a program.
    #[test]
    fn refused_connections_are_not_taken_for_paths() {
        for line in [
            "HTTPSConnectionPool(host='h', port=8443): Max retries exceeded with url: /v1/db (Caused by \
             NewConnectionError('<x>: Failed to establish a new connection: [Errno 13] Permission \
             denied'))",
            "Error: accumulating resources: Get \"https://h:8443/b.git\": dial tcp 10.0.0.1:8443: connect: \
             permission denied': failed to run '/usr/bin/git fetch https://h:8443/b.git main': fatal: \
             unable to access 'https://h:8443/b.git/': Failed to connect to h port 8443 after 0 ms: \
             Couldn't connect to server",
        ] {
            assert_eq!(denials(line), [connect(8443)], "{line}");
        }
    }

    #[test]
    fn refused_paths_are_found() {
        for line in [
            "open /srv/x: permission denied",
            "Error: cannot load repository: open /srv/x: permission denied",
            "fork/exec /srv/x: permission denied",
            "cat: /srv/x: Permission denied",
            "/bin/sh: 1: cannot open /srv/x: Permission denied",
            "sh: 1: cannot create /srv/x: Permission denied",
            "bash: line 1: /srv/x: Permission denied",
            "mkdir: cannot create directory ‘/srv/x’: Permission denied",
            "ls: cannot open directory '/srv/x': Permission denied",
            "fatal: unable to access '/srv/x': Permission denied",
            "PermissionError: [Errno 13] Permission denied: '/srv/x'",
            "Error: EACCES: permission denied, open '/srv/x'",
            "Error: spawn /srv/x EACCES",
            "Exception in thread \"main\" java.io.FileNotFoundException: /srv/x (Permission denied)",
            "java.nio.file.AccessDeniedException: /srv/x",
            "Error: failed to read /srv/x: Permission denied (os error 13)",
            "Load key \"/srv/x\": Permission denied",
        ] {
            assert_eq!(denials(line), [Denial::Path("/srv/x".to_owned())], "{line}");
        }
        for line in [
            "Error: connect EACCES /srv/x",
            "Error: listen EACCES: permission denied /srv/x",
            "dial unix /srv/x: connect: permission denied",
            "listen unix /srv/x: bind: permission denied",
        ] {
            assert_eq!(denials(line), [Denial::Socket("/srv/x".to_owned())], "{line}");
        }
        for line in [
            "bash: line 1: /usr/x: Read-only file system",
            "OSError: [Errno 30] Read-only file system: '/usr/x'",
        ] {
            assert_eq!(denials(line), [Denial::Write("/usr/x".to_owned())], "{line}");
        }
        for line in [
            "cat: /srv/x: No such file or directory",
            "Error: ENOENT: no such file or directory, open '/srv/x'",
            "FileNotFoundError: [Errno 2] No such file or directory: '/srv/x'",
            "open /srv/x: no such file or directory",
            "sh: 0: cannot open /srv/x: No such file",
            "sh: 1: /srv/x: not found",
        ] {
            assert_eq!(denials(line), [Denial::Absent("/srv/x".to_owned())], "{line}");
        }
    }

    #[test]
    fn a_refusal_is_found_across_the_line_breaks_of_sops() {
        let text = "Group 0: FAILED\n  age1x: FAILED\n    - | failed to load age identities: failed to \
                    open\n      | SOPS_AGE_KEY_FILE file: open\n      | /srv/x: permission\n      | \
                    denied\n\nRecovery failed because no master key\n";
        assert_eq!(denials(text), [Denial::Path("/srv/x".to_owned())]);
        let text = text.replace("permission", "no such file or").replace("denied", "directory");
        assert_eq!(denials(&text), [Denial::Absent("/srv/x".to_owned())]);
    }

    #[test]
    fn other_refusals_are_not_ours() {
        for line in [
            "git@github.com: Permission denied (publickey).",
            "remote: Permission denied",
            "* permission denied",
            "pq: permission denied for table x",
            "Permission denied on resource project x (or it may not exist).",
            "denied: requested access to the resource is denied",
            "dial udp 10.0.0.1:53: connect: permission denied",
            "/bin/sh: 1: ./x: Permission denied",
            "curl: (6) Could not resolve host: x",
            "Failed to connect to bus",
            "error: cannot connect to the repo-server's socket for git credentials, /run/s.sock: \
             Permission denied (os error 13)",
            "all is well",
        ] {
            assert_eq!(denials(line), [], "{line}");
        }
    }

    #[test]
    fn any_text_can_be_read() {
        for text in
            ["/", "'/", "‘/a’ permission denied", "://", "port : permission denied", "İ/eacces"]
        {
            let _ = denials(text);
        }
    }
}
