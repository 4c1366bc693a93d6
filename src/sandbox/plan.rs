//! What the supervisor and a worker say to each other.
//!
//! The plan goes to the worker once it has its tenant's identity: a mistake in
//! reading it is then the tenant's problem and nobody else's.

#![expect(clippy::too_many_arguments, reason = "of the code that prost derives")]

use std::{
    io::{self, Read},
    time::Duration,
};

use prost::{Message, Oneof, bytes::Bytes};

use super::fork::Reaped;

/// Longest plan or reply in bytes. Linux gives arguments and environment of a
/// program 6 MiB at most.
const MAX_FRAME: usize = 8 * 1024 * 1024;

/// What a worker does, and within what bounds.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Plan {
    #[prost(oneof = "Task", tags = "1, 2, 3")]
    pub(super) task: Option<Task>,
    /// Directories that requests share, among those that the spawner granted.
    #[prost(message, repeated, tag = "4")]
    pub(super) caches: Vec<CacheTask>,
    /// TCP ports to connect to.
    #[prost(uint32, repeated, tag = "6")]
    pub(super) ports: Vec<u32>,
    /// Whatever `ports` says.
    #[prost(bool, tag = "7")]
    pub(super) any_port: bool,
    /// Bytes of memory for each process; 0 for no limit, as for those below.
    #[prost(uint64, tag = "8")]
    pub(super) max_memory: u64,
    /// Processes of the tenant's user.
    #[prost(uint64, tag = "9")]
    pub(super) max_processes: u64,
    /// Bytes of each file.
    #[prost(uint64, tag = "10")]
    pub(super) max_file_size: u64,
    /// Processor time of each process.
    #[prost(uint64, tag = "11")]
    pub(super) max_cpu_seconds: u64,
    /// No internet sockets at all.
    #[prost(bool, tag = "12")]
    pub(super) no_internet: bool,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Task {
    #[prost(message, tag = "1")]
    Unpack(UnpackTask),
    #[prost(message, tag = "2")]
    Run(RunTask),
    #[prost(message, tag = "3")]
    Canary(CanaryTask),
}

/// A directory that requests share, and the variable that says where it is.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CacheTask {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) variable: String,
}

/// What to attack.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CanaryTask {
    /// Process of the supervisor.
    #[prost(uint32, tag = "1")]
    pub(super) supervisor: u32,
    /// The directory of workspaces.
    #[prost(string, tag = "2")]
    pub(super) root: String,
    /// A file that only the supervisor may read.
    #[prost(string, tag = "3")]
    pub(super) secret: String,
    /// A file outside the image that everybody may read.
    #[prost(string, tag = "4")]
    pub(super) world: String,
    /// A socket like a plugin's.
    #[prost(string, tag = "5")]
    pub(super) socket: String,
    /// A socket in the network namespace.
    #[prost(string, tag = "6")]
    pub(super) abstract_name: String,
    /// A TCP port of the supervisor's on loopback.
    #[prost(uint32, tag = "7")]
    pub(super) port: u32,
    /// A directory that everybody may write to.
    #[prost(string, tag = "8")]
    pub(super) open: String,
}

/// Unpack the archive that comes by its own way. Another plan follows.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct UnpackTask {
    /// Keep the permission bits of files and directories.
    #[prost(bool, tag = "1")]
    pub(super) preserve_file_mode: bool,
    /// Most bytes of file contents.
    #[prost(uint64, tag = "2")]
    pub(super) max_bytes: u64,
    /// Most entries.
    #[prost(uint64, tag = "3")]
    pub(super) max_entries: u64,
    /// Most bytes of a path.
    #[prost(uint32, tag = "4")]
    pub(super) max_path_bytes: u32,
    /// Most components of a path.
    #[prost(uint32, tag = "5")]
    pub(super) max_depth: u32,
}

/// Become a command.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RunTask {
    /// The program and its arguments.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(super) words: Vec<Bytes>,
    /// `NAME=VALUE` of the supervisor that plugins may see.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) inherited: Vec<Bytes>,
    /// `NAME=VALUE` of the request.
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(super) environment: Vec<Bytes>,
    /// Where programs are looked up: the supervisor's `PATH`, as Argo CD does.
    #[prost(bytes = "bytes", tag = "4")]
    pub(super) search: Bytes,
    /// The application directory, relative to the repository.
    #[prost(bytes = "bytes", tag = "5")]
    pub(super) directory: Bytes,
    /// Whether the repository's files may be executable, for a better error text.
    #[prost(bool, tag = "6")]
    pub(super) preserve_file_mode: bool,
}

/// What a worker answers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Reply {
    #[prost(oneof = "Answer", tags = "1, 2, 3, 4, 5, 6")]
    pub(super) answer: Option<Answer>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Answer {
    /// The read ends of the command's stdout and stderr come along. What
    /// follows is the end of the stream when the command runs, or a failure.
    /// What is stated was used before, by the same process.
    #[prost(message, tag = "1")]
    Running(Used),
    /// The archive is unpacked.
    #[prost(message, tag = "2")]
    Unpacked(Unpacked),
    /// The archive is refused, in words for the user.
    #[prost(string, tag = "3")]
    Refused(String),
    /// A step could not be taken.
    #[prost(message, tag = "4")]
    Failed(Failed),
    /// The attacks were tried.
    #[prost(message, tag = "5")]
    Canaries(Canaries),
    /// The command ended; its guard still stands, for what the command may have
    /// left behind.
    #[prost(message, tag = "6")]
    Exited(Exited),
}

/// The end of a command, as wait4(2) gives it.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Exited {
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
    #[prost(message, required, tag = "2")]
    pub(super) used: Used,
}

/// What a process and those it waited for used.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Used {
    #[prost(uint64, tag = "1")]
    pub(super) user_us: u64,
    #[prost(uint64, tag = "2")]
    pub(super) system_us: u64,
    /// Largest resident set of one of them, in KiB.
    #[prost(uint64, tag = "3")]
    pub(super) max_rss_kib: u64,
}

impl From<Reaped> for Used {
    fn from(reaped: Reaped) -> Self {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let Reaped { user, system, max_rss_kib, .. } = reaped;
        Self { user_us: micros(user), system_us: micros(system), max_rss_kib }
    }
}

/// Attacks that worked, which none must.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Canaries {
    #[prost(string, repeated, tag = "1")]
    pub(super) alive: Vec<String>,
}

/// What came out of an archive.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Unpacked {
    #[prost(uint64, tag = "1")]
    pub(super) entries: u64,
    #[prost(uint64, tag = "2")]
    pub(super) bytes: u64,
}

/// A step of a worker that failed.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Failed {
    /// What was attempted, for a log or an error text.
    #[prost(string, tag = "1")]
    pub(super) step: String,
    /// The error number, 0 when the text says it all.
    #[prost(int32, tag = "2")]
    pub(super) errno: i32,
    /// The step was finding or starting the program: the plugin's mistake.
    #[prost(bool, tag = "3")]
    pub(super) command: bool,
}

/// Puts a length in front of a message.
pub(super) fn frame(message: &impl Message) -> Vec<u8> {
    let length = u32::try_from(message.encoded_len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_be_bytes().to_vec();
    // A Vec takes whatever there is; encoding can only fail for lack of room.
    let _ = message.encode(&mut bytes);
    bytes
}

/// How long the message behind these four bytes is.
pub(super) fn frame_length(head: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_be_bytes(head) as usize;
    if length > MAX_FRAME {
        return Err(io::Error::other("a frame longer than a plan may be"));
    }
    Ok(length)
}

/// Reads one message from a socket.
pub(super) fn read<M: Message + Default>(socket: &mut impl Read) -> io::Result<M> {
    let mut head = [0; 4];
    socket.read_exact(&mut head)?;
    let mut body = vec![0; frame_length(head)?];
    socket.read_exact(&mut body)?;
    M::decode(body.as_slice()).map_err(io::Error::other)
}
