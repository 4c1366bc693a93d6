//! Clients that connect without pause, as those of many Applications do.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// The HTTP/2 preface and an empty SETTINGS frame.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Time limit for the server's first byte; a client of Argo CD has none.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The fate of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The server sent its first bytes.
    Served,
    /// The socket does not exist.
    Missing,
    /// The socket exists, and no process listens on it.
    Refused,
    /// The connection was accepted and got no answer.
    Abandoned,
}

/// Number of connections with each fate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fates {
    pub(crate) served: u32,
    pub(crate) missing: u32,
    pub(crate) refused: u32,
    pub(crate) abandoned: u32,
}

/// Connects once.
pub(crate) fn connect(socket: &Path) -> Fate {
    let mut stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Fate::Missing,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Fate::Refused,
        Err(error) => panic!("{error}"),
    };
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut frame = [0; 9];
    let spoken = stream.write_all(HELLO).and_then(|()| stream.read_exact(&mut frame));
    if spoken.is_ok() { Fate::Served } else { Fate::Abandoned }
}

/// A client that connects without pause.
pub(crate) struct Connecting {
    stop: Arc<AtomicBool>,
    ended: Arc<AtomicUsize>,
    thread: JoinHandle<Fates>,
}

impl Connecting {
    pub(crate) fn start(socket: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::new(AtomicUsize::new(0));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&ended));
        let thread = thread::spawn(move || {
            let mut fates = Fates::default();
            while !stopped.load(Ordering::Relaxed) {
                match connect(&socket) {
                    Fate::Served => fates.served += 1,
                    Fate::Missing => fates.missing += 1,
                    Fate::Refused => fates.refused += 1,
                    Fate::Abandoned => fates.abandoned += 1,
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
            fates
        });
        Self { stop, ended, thread }
    }

    /// Number of connections that have ended.
    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Ordering::Relaxed)
    }

    pub(crate) fn end(self) -> Fates {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
