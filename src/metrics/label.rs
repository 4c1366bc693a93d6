//! Labels of metrics, and all values that each may have.

use cmp_sandbox::Tier;
use metrics::Label;

use super::{Outcome, PluginState, Reload, WatchError, values::values};

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
    /// The mode of processor time.
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

/// A label: its name and its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    /// A plugin's name.
    Plugin,
    /// An application's name.
    Application,
    /// A [`Method`].
    Method,
    /// An [`Outcome`].
    Outcome,
    /// A [`Phase`].
    Phase,
    /// A [`Timer`].
    Timer,
    /// A [`Kill`].
    Kill,
    /// A [`StreamFault`].
    StreamFault,
    /// A [`RequestLimit`].
    RequestLimit,
    /// A [`CpuMode`].
    CpuMode,
    /// A [`Shared`] resource.
    Shared,
    /// A [`Contained`] resource.
    Contained,
    /// A [`Feature`].
    Feature,
    /// A [`PluginState`].
    State,
    /// A [`Reload`].
    Reload,
    /// A [`WatchError`].
    WatchError,
    /// The name of a tier.
    Isolation,
    /// This program's version.
    Version,
    /// The name of a definition's file.
    File,
    /// A [`DiscoveryKind`].
    Discovery,
    /// First digits of a definition's digest.
    Hash,
    /// `unary` or `client_stream`.
    GrpcType,
    /// The name of Argo CD's service.
    GrpcService,
    /// The name of a method in Argo CD's service.
    GrpcMethod,
    /// A [`GrpcCode`].
    GrpcCode,
}

impl Dimension {
    /// The label's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Application => "application",
            Self::Method => "method",
            Self::Outcome => "outcome",
            Self::Phase => "phase",
            Self::Timer => "kind",
            Self::Kill | Self::StreamFault | Self::WatchError => "reason",
            Self::RequestLimit => "limit",
            Self::CpuMode => "mode",
            Self::Shared | Self::Contained => "resource",
            Self::Feature => "feature",
            Self::State => "state",
            Self::Reload => "result",
            Self::Isolation => "isolation",
            Self::Version => "version",
            Self::File => "file",
            Self::Discovery => "discovery",
            Self::Hash => "hash",
            Self::GrpcType => "grpc_type",
            Self::GrpcService => "grpc_service",
            Self::GrpcMethod => "grpc_method",
            Self::GrpcCode => "grpc_code",
        }
    }

    /// All values; empty if users or builds decide them.
    #[must_use]
    pub fn values(self) -> Vec<&'static str> {
        fn texts<T: Copy>(all: &[T], text: impl Fn(T) -> &'static str) -> Vec<&'static str> {
            all.iter().map(|value| text(*value)).collect()
        }
        match self {
            Self::Method => texts(Method::ALL, Method::as_str),
            Self::Outcome => texts(Outcome::ALL, Outcome::as_str),
            Self::Phase => texts(Phase::ALL, Phase::as_str),
            Self::Timer => texts(Timer::ALL, Timer::as_str),
            Self::Kill => texts(Kill::ALL, Kill::as_str),
            Self::StreamFault => texts(StreamFault::ALL, StreamFault::as_str),
            Self::RequestLimit => texts(RequestLimit::ALL, RequestLimit::as_str),
            Self::CpuMode => texts(CpuMode::ALL, CpuMode::as_str),
            Self::Shared => texts(Shared::ALL, Shared::as_str),
            Self::Contained => texts(Contained::ALL, Contained::as_str),
            Self::Feature => texts(Feature::ALL, Feature::as_str),
            Self::State => texts(PluginState::ALL, PluginState::as_str),
            Self::Reload => texts(Reload::ALL, Reload::as_str),
            Self::WatchError => texts(WatchError::ALL, WatchError::as_str),
            Self::Discovery => texts(DiscoveryKind::ALL, DiscoveryKind::as_str),
            Self::GrpcCode => texts(GrpcCode::ALL, GrpcCode::as_str),
            Self::GrpcType => vec!["unary", "client_stream"],
            Self::GrpcMethod => texts(Method::ALL, Method::full_name),
            Self::GrpcService => vec![GRPC_SERVICE],
            Self::Isolation => Tier::ALL.map(Tier::as_str).to_vec(),
            Self::Plugin | Self::Application | Self::Version | Self::File | Self::Hash => {
                Vec::new()
            }
        }
    }

    /// The label with a value.
    pub(super) fn is(self, value: &'static str) -> Label {
        Label::from_static_parts(self.name(), value)
    }
}

/// The full name of Argo CD's service.
pub const GRPC_SERVICE: &str = "plugin.ConfigManagementPluginService";

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
