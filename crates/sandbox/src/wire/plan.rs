//! Messages between the supervisor and a worker.
//!
//! The worker reads its plan after it has switched to the tenant's UID. A bug
//! in parsing it then affects only this tenant.

#![expect(clippy::too_many_arguments, reason = "of the code that prost derives")]

use std::{
    io::{self, Read},
    os::{fd::OwnedFd, unix::net::UnixStream},
};

use prost::{Message, Oneof, bytes::Bytes};

use super::{
    channel::{self, Received},
    last_part::{AlmostFull, Marks},
    refusal::News,
};

/// The step of a worker that opens its repository.
pub(crate) const OPEN_REPOSITORY: &str = "open the repository";

/// Longest plan in bytes. Linux limits arguments and environment to 6 MiB.
pub(crate) const MAX_PLAN: usize = 8 * 1024 * 1024;

/// Longest reply in bytes. Nobody counts the memory of an incomplete one.
pub(crate) const MAX_REPLY: usize = 128 * 1024;

/// Longest text of an error in a reply, in bytes; as long as in an answer to a client.
const MAX_TEXT: usize = 64 * 1024;

/// A worker's task, access and limits.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Plan {
    #[prost(oneof = "Task", tags = "1, 2, 3")]
    pub(crate) task: Option<Task>,
    /// Caches to use, out of those that the spawner granted.
    #[prost(message, repeated, tag = "4")]
    pub(crate) caches: Vec<Cache>,
    /// TCP ports to connect to.
    #[prost(uint32, repeated, tag = "6")]
    pub(crate) ports: Vec<u32>,
    /// Allow connections to all ports; `ports` is ignored.
    #[prost(bool, tag = "7")]
    pub(crate) any_port: bool,
    /// Bytes of memory for each process; `None` for no limit, as for those below.
    #[prost(uint64, optional, tag = "8")]
    pub(crate) max_memory: Option<u64>,
    /// Limit of processes of the tenant's UID.
    #[prost(uint64, optional, tag = "9")]
    pub(crate) max_processes: Option<u64>,
    /// Limit of each file's size in bytes.
    #[prost(uint64, optional, tag = "10")]
    pub(crate) max_file_size: Option<u64>,
    /// Limit of CPU time in seconds for each process.
    #[prost(uint64, optional, tag = "11")]
    pub(crate) max_cpu_seconds: Option<u64>,
    /// Deny internet sockets.
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

/// One directory that requests share.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Cache {
    /// Name of the cache, valid as a file name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Environment variable that holds the directory's path.
    #[prost(string, tag = "2")]
    pub variable: String,
}

/// Targets of the attacks.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CanaryTask {
    /// Process ID of the supervisor.
    #[prost(uint32, tag = "1")]
    pub(crate) supervisor: u32,
    /// Directory of all workspaces.
    #[prost(string, tag = "2")]
    pub(crate) root: String,
    /// File that only the supervisor may read.
    #[prost(string, tag = "3")]
    pub(crate) secret: String,
    /// File outside the image that everybody may read.
    #[prost(string, tag = "4")]
    pub(crate) world: String,
    /// Path of a socket like those of plugins.
    #[prost(string, tag = "5")]
    pub(crate) socket: String,
    /// Name of an abstract socket in the supervisor's network namespace.
    #[prost(string, tag = "6")]
    pub(crate) abstract_name: String,
    /// Address and TCP port of the supervisor on the loopback interface.
    #[prost(string, tag = "7")]
    pub(crate) port: String,
    /// Directory that everybody may write to.
    #[prost(string, tag = "8")]
    pub(crate) open: String,
}

/// Unpack the archive that comes through its own pipe. Another plan follows. If there is a
/// last part, the file to lock for the turn to use it comes with this one.
#[derive(Clone, PartialEq, Message)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct UnpackTask {
    /// Keep the permission bits of files and directories.
    #[prost(bool, tag = "1")]
    pub(crate) preserve_file_mode: bool,
    /// Limit of file contents in bytes.
    #[prost(uint64, tag = "2")]
    pub(crate) max_bytes: u64,
    /// Limit of entries.
    #[prost(uint64, tag = "3")]
    pub(crate) max_entries: u64,
    /// Patterns of the entries to unpack; none for all.
    #[prost(string, repeated, tag = "4")]
    pub(crate) include: Vec<String>,
    /// The application's directory in the archive, which patterns are relative to.
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) application: Bytes,
    /// The archive's root in the repository, for patterns that begin with `/`.
    #[prost(bytes = "bytes", tag = "10")]
    pub(crate) root: Bytes,
    /// The supervisor has decompressed the archive.
    #[prost(bool, tag = "6")]
    pub(crate) is_decompressed: bool,
    /// Other leases may read the repository, and no command runs under this one.
    #[prost(bool, tag = "7")]
    pub(crate) is_shared: bool,
    /// The limit of bytes is the size of the work volume.
    #[prost(bool, tag = "8")]
    pub(crate) is_volume: bool,
    /// Limits of the last part of a volume in memory.
    #[prost(message, optional, tag = "9")]
    pub(crate) last_part: Option<Marks>,
}

/// Become a command.
#[derive(Clone, PartialEq, Message)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct RunTask {
    /// The program and its arguments.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(crate) words: Vec<Bytes>,
    /// `NAME=VALUE` entries of the supervisor's environment that plugins may
    /// see.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) inherited: Vec<Bytes>,
    /// `NAME=VALUE` entries of the request.
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(crate) environment: Vec<Bytes>,
    /// The supervisor's `PATH`, in which the program is searched, as in Argo
    /// CD.
    #[prost(bytes = "bytes", tag = "4")]
    pub(crate) search: Bytes,
    /// Application directory, relative to the repository.
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) directory: Bytes,
    /// Files of the repository may be executable. Used for a better error text.
    #[prost(bool, tag = "6")]
    pub(crate) preserve_file_mode: bool,
    /// Variable for the path at which to ask for git credentials; empty for none.
    #[prost(string, tag = "7")]
    pub(crate) ask_pass: String,
    /// Deny changes of the repository.
    #[prost(bool, tag = "8")]
    pub(crate) is_read_only: bool,
    /// Run it even if a path to read was replaced meanwhile.
    #[prost(bool, tag = "9")]
    pub(crate) insists: bool,
    /// Fill HOME before: the worker that unpacked the archive could not read all of it.
    #[prost(bool, tag = "10")]
    pub(crate) fills_home: bool,
}

/// Message from a worker to the supervisor.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Reply {
    #[prost(oneof = "Answer", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10")]
    pub(crate) answer: Option<Answer>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Answer {
    /// The command is about to be executed. The read ends of its stdout and
    /// stderr come with this message, then the supervisor's ends of the place
    /// to ask for git credentials, and the usage of the process so far. If
    /// `execve` fails, another reply follows.
    #[prost(message, tag = "1")]
    Running(RawUsage),
    /// The archive is unpacked.
    #[prost(message, tag = "2")]
    Unpacked(UnpackResult),
    /// The archive is refused, or what a command would get; the text is for the user.
    #[prost(string, tag = "3")]
    Refused(String),
    /// A step failed.
    #[prost(message, tag = "4")]
    Failed(Failed),
    /// The attacks were tried.
    #[prost(message, tag = "5")]
    Canaries(CanaryResult),
    /// The command ended. Its guard still runs and handles leftover processes.
    #[prost(message, tag = "6")]
    Exited(Exited),
    /// The program could not be found or started, which is the plugin's
    /// mistake. The text is for the user.
    #[prost(string, tag = "7")]
    NotStarted(String),
    /// News about the processes of an observed command.
    #[prost(message, tag = "8")]
    Observed(News),
    /// The archive is not unpacked, because too little of the volume is free.
    #[prost(message, tag = "9")]
    AlmostFull(AlmostFull),
    /// The command has not started: this path, which it may read, was replaced since the
    /// worker got access to it.
    #[prost(string, tag = "10")]
    Replaced(String),
}

/// End of a process, as returned by wait4(2).
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Exited {
    #[prost(int32, tag = "1")]
    pub(crate) status: i32,
    #[prost(message, required, tag = "2")]
    pub(crate) used: RawUsage,
}

/// Usage of a process and of the children it waited for.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct RawUsage {
    #[prost(uint64, tag = "1")]
    pub(crate) user_us: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) system_us: u64,
    /// Largest resident set of one of the processes, in KiB.
    #[prost(uint64, tag = "3")]
    pub(crate) max_rss_kib: u64,
}

/// Names of the attacks that succeeded.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CanaryResult {
    #[prost(string, repeated, tag = "1")]
    pub(crate) succeeded: Vec<String>,
}

/// Size of an unpacked archive.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct UnpackResult {
    #[prost(uint64, tag = "1")]
    pub(crate) entries: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) bytes: u64,
    /// Entries that no pattern includes.
    #[prost(uint64, tag = "3")]
    pub(crate) left_out: u64,
    /// The first link that leads to nothing because of that, in words.
    #[prost(string, tag = "4")]
    pub(crate) dangling: String,
}

/// A step of a worker that failed.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Failed {
    /// Description of the step, for a log or an error text.
    #[prost(string, tag = "1")]
    pub(crate) step: String,
    /// The error number; 0 if there is none.
    #[prost(int32, tag = "2")]
    pub(crate) errno: i32,
}

/// Encodes a message with its length in front.
pub(crate) fn frame(message: &impl Message) -> Vec<u8> {
    let length = u32::try_from(message.encoded_len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_be_bytes().to_vec();
    // Encoding fails only for lack of room, and a `Vec` grows.
    let _ = message.encode(&mut bytes);
    bytes
}

/// Returns the length of the message after these four bytes, if it is at most `most`.
pub(crate) fn frame_length(head: [u8; 4], most: usize) -> io::Result<usize> {
    let length = u32::from_be_bytes(head) as usize;
    if length > most {
        return Err(io::Error::other(format!("a message exceeds the limit of {most} bytes")));
    }
    Ok(length)
}

/// Reads a plan from a socket, and the descriptor that came with it.
pub(crate) fn read(mut socket: &UnixStream) -> io::Result<(Plan, Option<OwnedFd>)> {
    let mut head = [0; 4];
    let Received { length, descriptors, .. } = channel::receive_bytes(socket, &mut head)?;
    socket.read_exact(head.get_mut(length..).unwrap_or_default())?;
    let mut body = vec![0; frame_length(head, MAX_PLAN)?];
    socket.read_exact(&mut body)?;
    let plan = Plan::decode(body.as_slice()).map_err(io::Error::other)?;
    Ok((plan, descriptors.into_iter().next()))
}

/// The beginning of a text that fits into a reply.
pub(crate) fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}
