//! A repository of charts on the loopback address.

use std::{
    fs, io,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    thread,
};

/// Serves the files of a directory by HTTP until the tests end. Returns the address.
pub(super) fn serve(directory: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(&stream, &directory);
        }
    });
    address
}

fn answer(mut stream: &TcpStream, directory: &Path) -> io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let name = first.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let (status, body) = match fs::read(directory.join(name)) {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n")?;
    stream.write_all(&body)
}
