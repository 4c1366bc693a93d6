//! A web server with a git repository behind a password.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

/// Serves a repository with the file `greeting`. It runs until the tests end.
/// `authorization` is the expected value of that header. Returns the port.
pub(super) fn serve(directory: &Path, authorization: &'static str) -> u16 {
    let repository = directory.join("repository.git");
    make(&repository);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let repository = repository.clone();
            thread::spawn(move || answer(&stream, &repository, authorization));
        }
    });
    port
}

/// Makes a repository with the file `greeting`.
pub(in crate::sandbox_settings) fn make(repository: &Path) {
    let script = "git init -q --bare \"$0\" && blob=$(echo hello | git -C \"$0\" hash-object -w --stdin) && \
         tree=$(printf '100644 blob %s\\tgreeting\\n' $blob | git -C \"$0\" mktree) && \
         commit=$(git -C \"$0\" -c user.name=a -c user.email=a commit-tree -m a $tree) && \
         git -C \"$0\" update-ref HEAD $commit && git -C \"$0\" update-server-info";
    let made = Command::new("sh").args(["-c", script]).arg(repository).output().unwrap();
    assert!(made.status.success(), "{made:?}");
}

/// The protocol of a server with plain files.
fn answer(mut stream: &TcpStream, repository: &Path, authorization: &str) -> Option<()> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next()?;
    let headers: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    let is_known = headers.iter().any(|line| {
        line.split_once(": ").is_some_and(|(name, value)| {
            name.eq_ignore_ascii_case("authorization") && value == authorization
        })
    });
    let path = first.split(' ').nth(1)?.split('?').next()?.strip_prefix("/repository.git/")?;
    let file = fs::read(PathBuf::from(repository).join(path));
    let (status, body) = match file {
        _ if !is_known => ("401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"a\"", Vec::new()),
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), &body].concat()).ok()
}
