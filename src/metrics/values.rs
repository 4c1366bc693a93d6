//! The values that labels may have.

use serde::{Deserialize, Serialize};

/// Declares a label's values: an enum with the text of each value.
macro_rules! values {
    ($(#[$about:meta])* $name:ident { $($(#[$each:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$each])* #[serde(rename = $text)] $value,)*
        }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$value,)*];

            /// The text in metrics and logs.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)*
                }
            }
        }
    };
}

values! {
    /// The method of a call.
    Method {
        /// `CheckPluginConfiguration`.
        Check = "check",
        /// `MatchRepository`.
        Match = "match",
        /// `GenerateManifest`.
        Generate = "generate",
        /// `GetParametersAnnouncement`.
        Parameters = "parameters",
    }
}

values! {
    /// A part of a request that takes time.
    Phase {
        /// Until the client has packed the repository, and its first bytes have arrived.
        Open = "open",
        /// Waiting for a free place.
        Queue = "queue",
        /// Receiving and unpacking the archive.
        Receive = "receive",
        /// `spec.init`.
        Init = "init",
        /// `spec.generate`.
        Generate = "generate",
        /// `spec.discover`.
        Discover = "discover",
        /// `spec.parameters.dynamic`.
        Parameters = "parameters",
        /// Turning output into manifests.
        Split = "split",
    }
}

values! {
    /// A clock that ends requests.
    Timer {
        /// The deadline that the client set.
        Client = "client_deadline",
        /// `spec.limits.timeout`.
        Plugin = "plugin_timeout",
        /// `--exec-timeout`.
        Command = "exec_timeout",
        /// `--stream-timeout`.
        Stream = "stream_timeout",
    }
}

values! {
    /// The reason why the supervisor ended the processes of a request.
    Kill {
        /// The client's deadline passed.
        ClientDeadline = "client_deadline",
        /// `spec.limits.timeout` passed.
        PluginTimeout = "plugin_timeout",
        /// `--exec-timeout` passed.
        ExecTimeout = "exec_timeout",
        /// The client cancelled the call or went away.
        ClientCancelled = "client_cancelled",
        /// The supervisor stopped.
        Shutdown = "shutdown",
        /// The output was too long.
        OutputLimit = "output_limit",
        /// The request used too much memory.
        Memory = "memory",
        /// Its files took too much space.
        Disk = "disk",
        /// It had too many files.
        Files = "files",
        /// It had too many processes.
        Processes = "processes",
        /// All requests used too much memory, and this one the most.
        TotalMemory = "total_memory",
        /// The container was almost full, although all requests together had no more than is for
        /// them when last measured; this one had the most.
        ContainerMemory = "container_memory",
        /// It watched too many descriptors with epoll, where all requests have one UID.
        Watches = "watches",
        /// All requests had too many processes, and this one the most.
        TotalProcesses = "total_processes",
        /// The files of all requests took too much space, and those of this one the most.
        TotalDisk = "total_disk",
        /// All requests had too many local ports, and this one the most.
        TotalPorts = "total_ports",
        /// It could not be measured.
        Unmeasured = "unmeasured",
    }
}

values! {
    /// The fault of an archive or its stream.
    StreamFault {
        /// A message cannot be read, is not the metadata if it is the first, or has no
        /// bytes later.
        Message = "message",
        /// The checksum differs.
        Checksum = "checksum",
        /// It is longer than `--max-archive`.
        TooLarge = "too_large",
        /// It cannot be unpacked: gzip, tar, a forbidden entry, or too large inside.
        Archive = "archive",
        /// The application's directory is not in it.
        Directory = "directory",
    }
}

values! {
    /// A limit of one request.
    RequestLimit {
        /// `spec.limits.memory`.
        Memory = "memory",
        /// `spec.limits.disk`.
        Disk = "disk",
        /// `spec.limits.files`.
        Files = "files",
        /// `spec.limits.processes`.
        Processes = "processes",
        /// `spec.limits.output`.
        Output = "output",
    }
}

values! {
    /// The mode of CPU time.
    CpuMode {
        /// In the program.
        User = "user",
        /// In the kernel.
        System = "system",
    }
}

values! {
    /// A resource that all requests share.
    Shared {
        /// Bytes of decompressed archives that are kept, and of repositories in memory that requests share.
        Archives = "archives",
        /// Connections of clients.
        Connections = "connections",
        /// Bytes on the work volume.
        Disk = "disk",
        /// UIDs with a workspace.
        Leases = "leases",
        /// Bytes of memory of processes.
        Memory = "memory",
        /// Bytes for outputs and answers in the supervisor.
        Outputs = "outputs",
        /// Processes and threads.
        Processes = "processes",
        /// Requests that wait.
        Queue = "queue",
        /// Requests that run.
        Requests = "requests",
    }
}

values! {
    /// A resource that the container limits.
    Contained {
        /// Thousandths of a processor.
        Cpu = "cpu",
        /// File descriptors of the supervisor.
        Descriptors = "descriptors",
        /// Bytes of memory.
        Memory = "memory",
        /// Processes and threads.
        Processes = "processes",
    }
}

values! {
    /// A means of isolation.
    Feature {
        /// Namespaces for each request.
        Namespaces = "namespaces",
        /// A UID for each request.
        Uid = "uid",
        /// Landlock.
        Landlock = "landlock",
        /// A cgroup for each request.
        Cgroups = "cgroups",
        /// The kernel limits the processes of a UID.
        ProcessLimit = "process_limit",
    }
}

values! {
    /// The way in which a plugin recognises applications.
    DiscoveryKind {
        /// Applications must name the plugin.
        None = "none",
        /// `spec.discover.fileName`.
        FileName = "fileName",
        /// `spec.discover.find.glob`.
        Glob = "glob",
        /// `spec.discover.find.command`.
        Command = "command",
    }
}

values! {
    /// A status code of gRPC that this server returns.
    GrpcCode {
        /// Success.
        Ok = "OK",
        /// The client cancelled the call or went away.
        Canceled = "Canceled",
        /// An error of a plugin or a repository.
        Unknown = "Unknown",
        /// A deadline or timeout passed.
        DeadlineExceeded = "DeadlineExceeded",
        /// There was no place or no space, or the answer is too long.
        ResourceExhausted = "ResourceExhausted",
        /// The sandbox failed.
        Internal = "Internal",
        /// The supervisor stopped.
        Unavailable = "Unavailable",
    }
}

values! {
    /// The result of reading the plugins' definitions again.
    #[derive(Default)]
    Reload {
        /// All changes are served.
        Applied = "applied",
        /// Some definitions are invalid; the others are served.
        Partial = "partial",
        /// Nothing could be read, or nothing valid: the last good definitions are served.
        Rejected = "rejected",
        /// Nothing changed.
        #[default]
        Unchanged = "unchanged",
    }
}

values! {
    /// Reasons why notices of changes may be lost.
    WatchError {
        /// The kernel's queue of notices overflowed.
        Overflow = "overflow",
        /// A watched file or directory was removed.
        Lost = "watch_lost",
        /// There are no descriptors or watches left.
        Exhausted = "emfile",
        /// Another error of the operating system.
        Io = "io",
    }
}

values! {
    /// The state of a plugin.
    #[derive(Default)]
    PluginState {
        /// It is served as defined.
        Serving = "serving",
        /// Its file has become invalid; the last good definition is served.
        Stale = "stale",
        /// Its socket answers, but a program of its commands is missing.
        Unusable = "unusable",
        /// Its socket is about to be created.
        #[default]
        Starting = "starting",
        /// Its socket cannot be created.
        Failed = "failed",
        /// Its file was never valid, so it is not served.
        Invalid = "invalid",
    }
}

values! {
    /// The result of a request.
    Outcome {
        /// Success.
        Ok = "ok",
        /// The plugin does not claim the application.
        NoMatch = "no_match",
        /// The client disconnected or cancelled the call.
        ClientCancelled = "client_cancelled",
        /// A deadline passed.
        Deadline = "deadline",
        /// A command's exit code was not 0, or it did not start.
        ExitNonzero = "exit_nonzero",
        /// A signal ended a command.
        Signaled = "signaled",
        /// A command's output was longer than the limit.
        OutputLimit = "output_limit",
        /// A request exceeded its limit for memory, disk or files.
        ResourceLimit = "resource_limit",
        /// A command's output was invalid.
        BadOutput = "bad_output",
        /// The archive or the stream was invalid.
        BadStream = "bad_stream",
        /// The client sent too little for too long.
        Stalled = "stalled",
        /// No place or no UID was free.
        Rejected = "rejected",
        /// A command could not be confined.
        Sandbox = "sandbox",
        /// The work volume had no space.
        VolumeFull = "volume_full",
        /// The supervisor stopped before the request ended.
        Shutdown = "shutdown",
    }
}

impl Method {
    /// The name in Argo CD's service.
    #[must_use]
    pub const fn full_name(self) -> &'static str {
        match self {
            Self::Check => "CheckPluginConfiguration",
            Self::Match => "MatchRepository",
            Self::Generate => "GenerateManifest",
            Self::Parameters => "GetParametersAnnouncement",
        }
    }

    /// The kind of call.
    pub(super) const fn grpc_type(self) -> &'static str {
        match self {
            Self::Check => "unary",
            Self::Match | Self::Generate | Self::Parameters => "client_stream",
        }
    }
}

impl PluginState {
    /// True if the plugin's socket answers and its programs exist.
    #[must_use]
    pub fn is_up(self) -> bool {
        matches!(self, Self::Serving | Self::Stale)
    }
}
