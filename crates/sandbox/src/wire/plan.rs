//! What the supervisor and a worker say to each other.
//!
//! The plan goes to the worker once it has its tenant's identity: a mistake in
//! reading it is then the tenant's problem and nobody else's.

#![expect(clippy::too_many_arguments, reason = "of the code that prost derives")]

use std::io::{self, Read};

use prost::{Message, Oneof, bytes::Bytes};

/// Longest plan or reply in bytes. Linux gives arguments and environment of a
/// program 6 MiB at most.
const MAX_FRAME: usize = 8 * 1024 * 1024;

/// What a worker does, and within what bounds.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Plan {
    #[prost(oneof = "Task", tags = "1, 2, 3")]
    pub(crate) task: Option<Task>,
    /// Directories that requests share, among those that the spawner granted.
    #[prost(message, repeated, tag = "4")]
    pub(crate) caches: Vec<CacheTask>,
    /// TCP ports to connect to.
    #[prost(uint32, repeated, tag = "6")]
    pub(crate) ports: Vec<u32>,
    /// Whatever `ports` says.
    #[prost(bool, tag = "7")]
    pub(crate) any_port: bool,
    /// Bytes of memory for each process; `None` for no limit, as for those below.
    #[prost(uint64, optional, tag = "8")]
    pub(crate) max_memory: Option<u64>,
    /// Processes of the tenant's user.
    #[prost(uint64, optional, tag = "9")]
    pub(crate) max_processes: Option<u64>,
    /// Bytes of each file.
    #[prost(uint64, optional, tag = "10")]
    pub(crate) max_file_size: Option<u64>,
    /// Processor time of each process.
    #[prost(uint64, optional, tag = "11")]
    pub(crate) max_cpu_seconds: Option<u64>,
    /// No internet sockets at all.
    #[prost(bool, tag = "12")]
    pub(crate) no_internet: bool,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Task {
    #[prost(message, tag = "1")]
    Unpack(UnpackTask),
    #[prost(message, tag = "2")]
    Run(RunTask),
    #[prost(message, tag = "3")]
    Canary(CanaryTask),
}

/// A directory that requests share, and the variable that says where it is.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CacheTask {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) variable: String,
}

/// What to attack.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CanaryTask {
    /// Process of the supervisor.
    #[prost(uint32, tag = "1")]
    pub(crate) supervisor: u32,
    /// The directory of workspaces.
    #[prost(string, tag = "2")]
    pub(crate) root: String,
    /// A file that only the supervisor may read.
    #[prost(string, tag = "3")]
    pub(crate) secret: String,
    /// A file outside the image that everybody may read.
    #[prost(string, tag = "4")]
    pub(crate) world: String,
    /// A socket like a plugin's.
    #[prost(string, tag = "5")]
    pub(crate) socket: String,
    /// A socket in the network namespace.
    #[prost(string, tag = "6")]
    pub(crate) abstract_name: String,
    /// A TCP port of the supervisor's on loopback.
    #[prost(uint32, tag = "7")]
    pub(crate) port: u32,
    /// A directory that everybody may write to.
    #[prost(string, tag = "8")]
    pub(crate) open: String,
}

/// Unpack the archive that comes by its own way. Another plan follows.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct UnpackTask {
    /// Keep the permission bits of files and directories.
    #[prost(bool, tag = "1")]
    pub(crate) preserve_file_mode: bool,
    /// Most bytes of file contents.
    #[prost(uint64, tag = "2")]
    pub(crate) max_bytes: u64,
    /// Most entries.
    #[prost(uint64, tag = "3")]
    pub(crate) max_entries: u64,
}

/// Become a command.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RunTask {
    /// The program and its arguments.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(crate) words: Vec<Bytes>,
    /// `NAME=VALUE` of the supervisor that plugins may see.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) inherited: Vec<Bytes>,
    /// `NAME=VALUE` of the request.
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(crate) environment: Vec<Bytes>,
    /// Where programs are looked up: the supervisor's `PATH`, as Argo CD does.
    #[prost(bytes = "bytes", tag = "4")]
    pub(crate) search: Bytes,
    /// The application directory, relative to the repository.
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) directory: Bytes,
    /// Whether the repository's files may be executable, for a better error text.
    #[prost(bool, tag = "6")]
    pub(crate) preserve_file_mode: bool,
}

/// What a worker answers.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Reply {
    #[prost(oneof = "Answer", tags = "1, 2, 3, 4, 5, 6")]
    pub(crate) answer: Option<Answer>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Answer {
    /// The read ends of the command's stdout and stderr come along. What
    /// follows is the end of the stream when the command runs, or a failure.
    /// What is stated was used before, by the same process.
    #[prost(message, tag = "1")]
    Running(RawUsage),
    /// The archive is unpacked.
    #[prost(message, tag = "2")]
    Unpacked(UnpackResult),
    /// The archive is refused, in words for the user.
    #[prost(string, tag = "3")]
    Refused(String),
    /// A step could not be taken.
    #[prost(message, tag = "4")]
    Failed(Failed),
    /// The attacks were tried.
    #[prost(message, tag = "5")]
    Canaries(CanaryResult),
    /// The command ended; its guard still stands, for what the command may have
    /// left behind.
    #[prost(message, tag = "6")]
    Exited(Exited),
}

/// The end of a command, as wait4(2) gives it.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Exited {
    #[prost(int32, tag = "1")]
    pub(crate) status: i32,
    #[prost(message, required, tag = "2")]
    pub(crate) used: RawUsage,
}

/// What a process and those it waited for used.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct RawUsage {
    #[prost(uint64, tag = "1")]
    pub(crate) user_us: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) system_us: u64,
    /// Largest resident set of one of them, in KiB.
    #[prost(uint64, tag = "3")]
    pub(crate) max_rss_kib: u64,
}

/// Attacks that worked, which none must.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CanaryResult {
    #[prost(string, repeated, tag = "1")]
    pub(crate) succeeded: Vec<String>,
}

/// What came out of an archive.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct UnpackResult {
    #[prost(uint64, tag = "1")]
    pub(crate) entries: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) bytes: u64,
}

/// A step of a worker that failed.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Failed {
    /// What was attempted, for a log or an error text.
    #[prost(string, tag = "1")]
    pub(crate) step: String,
    /// The error number, 0 when the text says it all.
    #[prost(int32, tag = "2")]
    pub(crate) errno: i32,
    /// The step was finding or starting the program: the plugin's mistake.
    #[prost(bool, tag = "3")]
    pub(crate) command: bool,
}

/// Puts a length in front of a message.
pub(crate) fn frame(message: &impl Message) -> Vec<u8> {
    let length = u32::try_from(message.encoded_len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_be_bytes().to_vec();
    // A Vec takes whatever there is; encoding can only fail for lack of room.
    let _ = message.encode(&mut bytes);
    bytes
}

/// How long the message behind these four bytes is.
pub(crate) fn frame_length(head: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_be_bytes(head) as usize;
    if length > MAX_FRAME {
        return Err(io::Error::other("a frame longer than a plan may be"));
    }
    Ok(length)
}

/// Reads one message from a socket.
pub(crate) fn read<M: Message + Default>(socket: &mut impl Read) -> io::Result<M> {
    let mut head = [0; 4];
    socket.read_exact(&mut head)?;
    let mut body = vec![0; frame_length(head)?];
    socket.read_exact(&mut body)?;
    M::decode(body.as_slice()).map_err(io::Error::other)
}
