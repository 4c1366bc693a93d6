//! A private argocd-cmp-server for one definition.

use std::{
    fs,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use cmp_procfs::Stat;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;
use thiserror::Error;
use tokio::{
    net::UnixStream,
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::{
    config::{PEER_FILE, PEER_NAME},
    migrate::Moved,
    plugin::SOCKET_SUFFIX,
};

/// Time limit for its start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(20);

/// Longest part of its log in an error: the end.
const MAX_LOG: i64 = 1024;

/// A running argocd-cmp-server, which is killed with its commands when this is dropped.
#[derive(Debug)]
pub(super) struct PeerServer {
    child: Child,
    /// Held: dropping it removes the files.
    _directory: TempDir,
    socket: PathBuf,
}

/// The program could not be started.
#[derive(Debug, Error)]
pub enum NoPeer {
    /// The program is not here.
    #[error(
        "cannot start {}: {error}: give the path of an argocd-cmp-server with --check-server, or \
         run this in the image of the sidecar",
        program.display()
    )]
    Program {
        /// The program.
        program: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// Its files could not be written or read.
    #[error("cannot prepare argocd-cmp-server: {0}")]
    Io(#[from] io::Error),
    /// It ended.
    #[error("argocd-cmp-server ended before it was ready: {status}: {log}")]
    Ended {
        /// Its status.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// It exceeded the time limit.
    #[error("argocd-cmp-server was not ready within {} s", START_TIMEOUT.as_secs())]
    Slow,
}

impl PeerServer {
    /// Starts the program, and waits until it accepts connections.
    pub(super) async fn start(program: Option<&Path>, plugin: &Moved) -> Result<Self, NoPeer> {
        let program = program.unwrap_or(Path::new(PEER_NAME));
        let directory = TempDir::with_prefix("cmp-peer-")?;
        let place = |name: &str| directory.path().join(name);
        for name in ["config", "sockets", "work"] {
            fs::create_dir(place(name))?;
        }
        fs::write(place("config").join(PEER_FILE), &plugin.before)?;
        let mut command = Command::new(program);
        command
            .arg("--config-dir-path")
            .arg(place("config"))
            .envs(plugin.environment_before.iter().map(|(name, value)| (name, value)))
            .env("ARGOCD_BINARY_NAME", PEER_NAME)
            .env("ARGOCD_PLUGINSOCKFILEPATH", place("sockets"))
            .env("ARGOCD_CMP_WORKDIR", place("work"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(place("log"))?)
            .kill_on_drop(true);
        let started = command.spawn();
        let child =
            started.map_err(|error| NoPeer::Program { program: program.to_owned(), error })?;
        let socket = place(&format!("sockets/{}{SOCKET_SUFFIX}", plugin.name));
        let log = place("log");
        // A signal can end this program before the server is ready.
        let mut server = Self { child, _directory: directory, socket };
        let ready = timeout(START_TIMEOUT, answered(&server.socket, &mut server.child, &log)).await;
        ready.map_err(|_elapsed| NoPeer::Slow)??;
        Ok(server)
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }
}

/// Kills the server, and the process group that it creates for each command. It stops none of
/// them on SIGTERM.
impl Drop for PeerServer {
    fn drop(&mut self) {
        let Some(server) = self.child.id() else { return };
        // A stopped server starts no command and reaps none, so no other process gets a number
        // of this list. Errors mean that a process has just ended.
        let _ = pid(server).map(|server| kill_process(server, Signal::STOP));
        for command in children(server).filter_map(pid) {
            let _ = kill_process_group(command, Signal::KILL);
        }
        let _ = pid(server).map(|server| kill_process(server, Signal::KILL));
    }
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// The children of a process that have no session of their own; none without /proc. One that has,
/// such as our spawner, ends with its parent in its own way.
fn children(process: u32) -> impl Iterator<Item = u32> {
    let is_child = move |child: &u32| {
        Stat::of(*child).is_ok_and(|stat| stat.parent == process && stat.session != *child)
    };
    cmp_procfs::pids().unwrap_or_default().into_iter().filter(is_child)
}

/// Waits until a server accepts connections on the socket.
async fn answered(socket: &Path, child: &mut Child, log: &Path) -> Result<(), NoPeer> {
    while UnixStream::connect(socket).await.is_err() {
        if let Some(status) = child.try_wait()? {
            return Err(NoPeer::Ended { status, log: end(log)? });
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

/// The end of a file.
fn end(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    // A shorter file is read from its start.
    let _ = file.seek(SeekFrom::End(-MAX_LOG));
    let mut text = Vec::new();
    file.take(MAX_LOG.unsigned_abs()).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}
