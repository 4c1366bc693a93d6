//! Finds out who serves the path of a plugin's socket.

use std::{fs, io, path::Path, time::Duration};

use tokio::{net::UnixStream, time::timeout};

use crate::supervisor::{LostSocket, Peer};

/// Longest wait for a socket to accept or refuse. A dead socket refuses at once;
/// a live one may have a full queue.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Connects to a path that is not our own socket.
pub(super) async fn examine(path: &Path) -> LostSocket {
    match timeout(CONNECT_TIMEOUT, UnixStream::connect(path)).await {
        Ok(Ok(stream)) => peer(&stream).map_or_else(hidden, LostSocket::Taken),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => LostSocket::Missing,
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => LostSocket::Dead,
        Ok(Err(error)) => hidden(error),
        Err(elapsed) => hidden(elapsed),
    }
}

/// True if a socket exists and no process listens on it.
pub(super) async fn is_dead(path: &Path) -> bool {
    examine(path).await == LostSocket::Dead
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[tokio::test]
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
        assert!(is_dead(&path).await);
    }
}
