//! Clients that connect without pause, as those of many Applications do.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
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
    fates: Arc<Mutex<Fates>>,
    thread: JoinHandle<()>,
}

impl Connecting {
    pub(crate) fn start(socket: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let fates = Arc::<Mutex<Fates>>::default();
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&fates));
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let fate = connect(&socket);
                let mut fates = counted.lock().unwrap();
                match fate {
                    Fate::Served => fates.served += 1,
                    Fate::Missing => fates.missing += 1,
                    Fate::Refused => fates.refused += 1,
                    Fate::Abandoned => fates.abandoned += 1,
                }
            }
        });
        Self { stop, fates, thread }
    }

    /// The fates of the connections that have ended.
    pub(crate) fn fates(&self) -> Fates {
        *self.fates.lock().unwrap()
    }

    /// Number of connections that have ended.
    pub(crate) fn ended(&self) -> u32 {
        let Fates { served, missing, refused, abandoned } = self.fates();
        served + missing + refused + abandoned
    }

    pub(crate) fn end(self) -> Fates {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        let fates = self.fates.lock().unwrap();
        *fates
    }
}
