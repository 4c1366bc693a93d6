//! Finds refused accesses in what a command wrote.
//!
//! Every language has words of its own for a refused open(2) or connect(2). A line
//! counts only if it names the path or the connection: servers also deny things.

mod port;

use std::path::Path;

use cmp_sandbox::CleanPath;

use self::port::port;
use super::shell;

/// Most lines that are read. An excerpt has no more that matter.
const MAX_LINES: usize = 2000;

/// The call that opens shared memory by a name such as `/psm_1a2b3c4d`, which is no path.
pub(super) const SHM_OPEN: &str = "shm_open";

/// An access that was refused, or seems to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Denial {
    /// A connection. `is_certain` is false for programs that hide the reason.
    Connect { port: Option<u16>, is_certain: bool },
    /// A socket that listens.
    Listen,
    /// A socket file.
    Socket(CleanPath),
    /// A path that the kernel refused (EACCES).
    Path(CleanPath),
    /// A path that could not be written to (EROFS).
    Write(CleanPath),
    /// A path that was not there (ENOENT).
    Absent(CleanPath),
    /// A path that could not be created, because the directory for it was not there (ENOENT).
    Create(CleanPath),
    /// A program that a shell found in no open directory of `PATH`, or could not start.
    Program(String),
}

/// Words of a refusal (EACCES), in lower case.
const DENIED: [&str; 3] = ["permission denied", "eacces", "accessdeniedexception"];

/// Words of a program that wanted to create, change or remove what it names.
const CHANGING: [&str; 5] =
    ["cannot create", "cannot touch", "cannot remove", "cannot move", "permission denied, mkdir"];

/// Words of a program that wanted to create what it names.
const CREATING: [&str; 5] =
    ["cannot create", "can't create", "failed to create", "cannot touch", "mkdir"];

/// Words of a file system that is read-only.
const READ_ONLY: [&str; 2] = ["read-only file system", "erofs"];

/// Words of a missing file.
const ABSENT: [&str; 6] = [
    // dash leaves out "or directory".
    "no such file",
    "directory nonexistent",
    "enoent",
    "nosuchfileexception",
    "filenotfoundexception",
    "(os error 2)",
];

/// Words of a server that denies something, after `permission denied`.
const SERVER: [&str; 6] = ["(publickey", "(password", "(keyboard", "for ", "on ", "to "];

/// A line of Vault, in its list of errors.
const LISTED: &str = "* permission denied";

/// Words about the socket that answers questions for git credentials. The supervisor
/// connects to it, not the command.
pub(crate) const ASK_PASS_SOCKET: &str = "the repo-server's socket for git credentials";

/// Words of a connection.
const CONNECTION: [&str; 10] = [
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
    // git, with git://.
    "errno=permission denied",
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
    let says = |words: &str| text.contains(words);
    let java_bind = says("Net.bind0(") || says("socketBind(");
    let traced = Traced { connect: says(".connect("), bind: says(".bind("), java_bind };
    let names_memory = says(SHM_OPEN);
    let text = unwrapped(text);
    let lines = text.lines();
    let found = lines.filter_map(|line| denial(line, &line.to_ascii_lowercase(), traced));
    found.filter(|denial| !(names_memory && is_name(denial))).collect()
}

/// True for what may be a name of shared memory: these look like files in the root.
fn is_name(denial: &Denial) -> bool {
    let Denial::Path(path) = denial else { return false };
    path.parent() == Some(Path::new("/"))
}

/// Calls in the trace of a text. Errors of Python and Java do not name the call that failed.
#[derive(Clone, Copy)]
struct Traced {
    connect: bool,
    bind: bool,
    java_bind: bool,
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
        return named(path).map(Denial::Absent);
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
        if traced.java_bind && says(&["exception: permission denied"]) {
            return Some(Denial::Listen);
        }
        let path = path(line, at).filter(|_| !says(&ONLY_CONNECTION));
        let is_connection = says(&CONNECTION) && !says(&["dial unix", "dial udp"]);
        let is_bare = lower.trim_end().ends_with("[errno 13] permission denied");
        return match path {
            Some(path) if says(&["dial unix", "connect eacces /"]) => Some(Denial::Socket(path)),
            Some(path) if says(&CHANGING) => Some(Denial::Write(path)),
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
        let denial = if says(&CREATING) { Denial::Create } else { Denial::Absent };
        return path(line, at).map(denial);
    }
    let port = says(&NOT_CONNECTED).then(|| port(lower)).flatten();
    port.map(|port| Denial::Connect { port: Some(port), is_certain: false })
}

/// True if a server, and not the kernel, denied something.
pub(super) fn is_of_server(lower: &str) -> bool {
    let mut rest = lower.split("permission denied").skip(1);
    let denies = |rest: &str| SERVER.iter().any(|word| rest.trim_start().starts_with(word));
    let line = lower.trim();
    line.starts_with("remote:") || line == LISTED || rest.any(denies)
}

/// The absolute path in a line: the last one before the words at `at`, or else the
/// first one after them.
fn path(line: &str, at: usize) -> Option<CleanPath> {
    let (before, after) = line.split_at_checked(at)?;
    let mut last = paths(before).into_iter();
    let last = last.rfind(|(start, _)| *start > 0).map(|(_, path)| path);
    last.or_else(|| paths(after).into_iter().next().map(|(_, path)| path))
}

/// Absolute paths with their positions. A path at the beginning of a line, before a
/// colon, is the name of the program that complains.
fn paths(text: &str) -> Vec<(usize, CleanPath)> {
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
            // Two slashes begin the authority of a URL.
            let clean = named(path).filter(|_| !path.starts_with("//"));
            found.extend(clean.map(|clean| (at, clean)));
        }
        before = character;
    }
    found
}

/// A path, but not the root, which a text often names for something else.
fn named(path: &str) -> Option<CleanPath> {
    CleanPath::new(Path::new(path)).filter(|path| path.file_name().is_some())
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
mod tests;
