//! Finds out who serves the path of a plugin's socket.

use std::{fs, io, path::Path, time::Duration};

use tokio::{
    net::UnixStream,
    time::{sleep, timeout},
};

use crate::supervisor::{LostSocket, Peer};

/// Longest wait for a socket to accept or refuse. A dead socket refuses at once;
/// a live one may have a full queue.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest time between bind(2) and listen(2) of a server, which its CPU limit may stop in
/// between. Until then, the kernel refuses connections, as it does if the server is dead.
pub(super) const UNTIL_LISTENING: Duration = Duration::from_secs(1);

/// Examines a path that is not our own socket. A socket without a server is examined again
/// after [`UNTIL_LISTENING`].
pub(super) async fn examine(path: &Path) -> LostSocket {
    let found = connect(path).await;
    if found != LostSocket::Dead {
        return found;
    }
    sleep(UNTIL_LISTENING).await;
    connect(path).await
}

async fn connect(path: &Path) -> LostSocket {
    match timeout(CONNECT_TIMEOUT, UnixStream::connect(path)).await {
        Ok(Ok(stream)) => peer(&stream).map_or_else(hidden, LostSocket::Taken),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => LostSocket::Missing,
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => LostSocket::Dead,
        Ok(Err(error)) => hidden(error),
        Err(elapsed) => hidden(elapsed),
    }
}

/// True if a socket exists and no process listens on it at this moment.
pub(super) async fn is_refusing(path: &Path) -> bool {
    connect(path).await == LostSocket::Dead
}

fn hidden(error: impl Into<io::Error>) -> LostSocket {
    LostSocket::Hidden(error.into().to_string())
}

fn peer(stream: &UnixStream) -> io::Result<Peer> {
    let about = stream.peer_cred()?;
    // The kernel reports 0 for a process of another PID namespace.
    let pid = about.pid().filter(|pid| *pid > 0);
    let name = |pid| fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let program = pid.and_then(name).map(|name| name.trim_end().to_owned());
    Ok(Peer { pid, uid: about.uid(), program })
}

/// Does `work` while a server binds `path`, and listens later.
#[cfg(test)]
pub(super) async fn beside_slow_server<T>(path: &Path, work: impl Future<Output = T>) -> T {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};

    let server = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&server, &SocketAddrUnix::new(path).unwrap()).unwrap();
    let listens = async {
        sleep(UNTIL_LISTENING / 2).await;
        listen(&server, 1).unwrap();
    };
    tokio::join!(work, listens).0
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_listen_yet_has_taken_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let found = beside_slow_server(&path, examine(&path)).await;
        assert!(matches!(found, LostSocket::Taken(_)), "{found:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn each_condition_of_a_path_is_recognised() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        assert_eq!(examine(&path).await, LostSocket::Missing);
        let living = UnixListener::bind(&path).unwrap();
        let LostSocket::Taken(peer) = examine(&path).await else { panic!("not taken") };
        assert_eq!(peer.pid, i32::try_from(std::process::id()).ok());
        assert!(peer.to_string().contains("PID") && peer.program.is_some(), "{peer}");
        drop(living);
        assert_eq!(examine(&path).await, LostSocket::Dead);
        assert!(is_refusing(&path).await);
    }
}
