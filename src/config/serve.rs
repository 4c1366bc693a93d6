//! What `serve` is told.

#![expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
#![expect(clippy::doc_markdown, reason = "help texts are not Markdown")]

use std::{
    env,
    path::{self, Path, PathBuf},
};

use clap::Args;
use cmp_sandbox::{Bounds, Caches};

use super::{
    Http, Isolation, LogFormat, LogLevel, PEER_CONFIG, PEER_FILE, PLUGINS_DIR, Ports, UidRange,
    path_variable,
};
use crate::{loader::Places, plugin::DEFAULT_SOCKET_DIR};

/// What plugins usually fetch from: ssh, DNS, HTTP and HTTPS, registries, Vault,
/// and git. Argo CD's own ports and ours are not among them.
const NETWORK: &str = "22,53,80,443,5000,8200,8443,9418";

/// Where Kubernetes puts a Pod's token.
const SERVICE_ACCOUNT: &str = "/var/run/secrets";

/// Deepest path in a repository, in components.
pub(super) const MAX_DEPTH: u32 = 255;

/// Longest gRPC message in MiB. The repo-server has the same default.
const MAX_MESSAGE_MIB: usize = 100;

/// Bytes in a MiB.
const MIB: usize = 1024 * 1024;

/// Serve every plugin of a directory.
#[derive(Args, Clone, Debug)]
pub struct Serve {
    /// Directory of plugin definitions, usually a mounted ConfigMap
    #[arg(long, value_name = "DIR", env = "CMP_SUPERVISOR_PLUGINS_DIR", default_value = PLUGINS_DIR)]
    pub plugins_dir: PathBuf,
    /// How long the last good plugins stay when every definition is gone at once
    #[arg(long, value_name = "SECONDS", env = "CMP_SUPERVISOR_EMPTY_GRACE", default_value_t = 120)]
    pub empty_grace: u64,
    /// Directory for the sockets, shared with the repo-server [default:
    /// $ARGOCD_PLUGINSOCKFILEPATH or /home/argocd/cmp-server/plugins]
    #[arg(long, value_name = "DIR", env = "CMP_SUPERVISOR_SOCKET_DIR")]
    pub socket_dir: Option<PathBuf>,
    /// Directory for repositories while they are worked on, best in memory
    /// [default: $ARGOCD_CMP_WORKDIR, $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR", env = "CMP_SUPERVISOR_WORK_DIR")]
    pub work_dir: Option<PathBuf>,
    /// Address for metrics and health, or `off`
    #[arg(long, value_name = "ADDR", env = "CMP_SUPERVISOR_HTTP", default_value = "0.0.0.0:9180")]
    pub http: Http,
    /// How requests are kept apart
    #[arg(long, env = "CMP_SUPERVISOR_ISOLATION", value_enum, default_value = "auto")]
    pub isolation: Isolation,
    /// Needed with `--isolation none`: every plugin can read every other's files
    #[arg(long, env = "CMP_SUPERVISOR_ACCEPT_NO_ISOLATION")]
    pub accept_no_isolation: bool,
    /// Accept users of their own without Landlock, where the kernel has none:
    /// secrets that everybody may read are then open to every plugin
    #[arg(long, env = "CMP_SUPERVISOR_ACCEPT_NO_LANDLOCK")]
    pub accept_no_landlock: bool,
    /// Users to lease, two to each request; they must belong to nobody else
    #[arg(
        long,
        value_name = "FIRST-LAST",
        env = "CMP_SUPERVISOR_UID_RANGE",
        default_value = "60706-61183"
    )]
    pub uid_range: UidRange,
    /// User to become when started as root; the repo-server's, so that it can connect
    #[arg(long, value_name = "UID", env = "CMP_SUPERVISOR_RUN_AS_UID", default_value_t = 999)]
    pub run_as_uid: u32,
    /// Requests that generate at a time; as many again may do discovery
    #[arg(long, value_name = "N", env = "CMP_SUPERVISOR_MAX_REQUESTS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub max_requests: u32,
    /// Requests that may wait for a place
    #[arg(long, value_name = "N", env = "CMP_SUPERVISOR_MAX_QUEUE", default_value_t = 512)]
    pub max_queue: usize,
    /// Largest archive, compressed
    #[arg(long, value_name = "BYTES", env = "CMP_SUPERVISOR_MAX_ARCHIVE_BYTES", default_value_t = 1 << 30)]
    pub max_archive_bytes: u64,
    /// Most bytes in the files of a repository
    #[arg(long, value_name = "BYTES", env = "CMP_SUPERVISOR_MAX_UNPACKED_BYTES", default_value_t = 4 << 30)]
    pub max_unpacked_bytes: u64,
    /// Most files in a repository
    #[arg(long, value_name = "N", env = "CMP_SUPERVISOR_MAX_FILES", default_value_t = 500_000)]
    pub max_files: u64,
    /// Longest path in a repository; Linux itself takes 4095 bytes at most
    #[arg(
        long,
        value_name = "BYTES",
        env = "CMP_SUPERVISOR_MAX_PATH_BYTES",
        default_value_t = 4095
    )]
    pub max_path_bytes: u32,
    /// Deepest path in a repository
    #[arg(long, value_name = "N", env = "CMP_SUPERVISOR_MAX_DEPTH", default_value_t = MAX_DEPTH)]
    pub max_depth: u32,
    /// Most bytes that a command may print [default: what a gRPC message holds]
    #[arg(long, value_name = "BYTES", env = "CMP_SUPERVISOR_MAX_OUTPUT_BYTES")]
    pub max_output_bytes: Option<usize>,
    /// Further paths that plugins may read: tools and data that are mounted
    #[arg(long, value_name = "PATH", env = "CMP_SUPERVISOR_READ", value_delimiter = ':')]
    pub read: Vec<PathBuf>,
    /// TCP ports that plugins may connect to, or `any`, or `none`
    #[arg(long, value_name = "PORTS", env = "CMP_SUPERVISOR_NETWORK", default_value = NETWORK)]
    pub network: Ports,
    /// Memory of each process of a plugin, and of all of a request together; 0
    /// for no limit, as below
    #[arg(long, value_name = "BYTES", env = "CMP_SUPERVISOR_MAX_MEMORY", default_value_t = 2 << 30)]
    pub max_memory: u64,
    /// Processes of a request at a time
    #[arg(long, value_name = "N", env = "CMP_SUPERVISOR_MAX_PROCESSES", default_value_t = 512)]
    pub max_processes: u64,
    /// Largest file that a plugin may write
    #[arg(long, value_name = "BYTES", env = "CMP_SUPERVISOR_MAX_FILE_BYTES", default_value_t = 1 << 30)]
    pub max_file_bytes: u64,
    /// Disk that the files of a request take together, the repository included
    #[arg(long, value_name = "BYTES", env = "CMP_SUPERVISOR_MAX_DISK_BYTES", default_value_t = 8 << 30)]
    pub max_disk_bytes: u64,
    /// Files and directories of a request, those of the repository included
    #[arg(
        long,
        value_name = "N",
        env = "CMP_SUPERVISOR_MAX_DISK_FILES",
        default_value_t = 1_000_000
    )]
    pub max_disk_files: u64,
    /// Processor time of each process of a plugin
    #[arg(long, value_name = "SECONDS", env = "CMP_SUPERVISOR_MAX_CPU", default_value_t = 600)]
    pub max_cpu: u64,
    /// How long requests may take to end when the supervisor is stopped
    #[arg(
        long,
        value_name = "SECONDS",
        env = "CMP_SUPERVISOR_DRAIN_TIMEOUT",
        default_value_t = 25
    )]
    pub drain_timeout: u64,
    /// How log lines look [default: text on a terminal, json elsewhere]
    #[arg(long, env = "CMP_SUPERVISOR_LOG_FORMAT", value_enum)]
    pub log_format: Option<LogFormat>,
    /// How much is logged
    #[arg(long, env = "CMP_SUPERVISOR_LOG_LEVEL", value_enum, default_value = "info")]
    pub log_level: LogLevel,
    /// Write events to standard output instead of a log to standard error
    #[arg(long, hide = true)]
    pub events: bool,
    /// The only definition, when serving as argocd-cmp-server
    #[arg(skip)]
    pub single: Option<PathBuf>,
}

/// A path that means the same wherever a process is.
fn absolute(path: &Path) -> PathBuf {
    path::absolute(path).unwrap_or_else(|_empty| path.to_owned())
}

impl Serve {
    /// Where sockets are made.
    #[must_use]
    pub fn socket_dir(&self) -> PathBuf {
        let default =
            || path_variable("ARGOCD_PLUGINSOCKFILEPATH").unwrap_or(DEFAULT_SOCKET_DIR.into());
        self.socket_dir.clone().unwrap_or_else(default)
    }

    /// Where workspaces are made.
    #[must_use]
    pub fn work_dir(&self) -> PathBuf {
        let default = || path_variable("ARGOCD_CMP_WORKDIR").unwrap_or_else(env::temp_dir);
        self.work_dir.clone().unwrap_or_else(default)
    }

    /// Where definitions are: in the directory, and where argocd-cmp-server
    /// would have its only one; or as that server, there alone.
    #[must_use]
    pub fn places(&self) -> Places {
        if let Some(single) = &self.single {
            return Places { directory: None, single: Some(single.clone()) };
        }
        let is_default = self.plugins_dir == Path::new(PLUGINS_DIR);
        Places {
            directory: Some(self.plugins_dir.clone()),
            single: is_default.then(|| Path::new(PEER_CONFIG).join(PEER_FILE)),
        }
    }

    /// What no request may open, whatever else allows it: the sockets, the
    /// definitions, and what Kubernetes gives a Pod to speak for itself.
    #[must_use]
    pub fn hidden(&self) -> Vec<PathBuf> {
        let places = self.places();
        let beside = places.single.as_deref().and_then(Path::parent).map(Path::to_owned);
        let own = [self.socket_dir(), SERVICE_ACCOUNT.into()];
        own.into_iter().chain(places.directory).chain(beside).collect()
    }

    /// Directories of programs: what is on the PATH.
    #[must_use]
    pub fn programs(&self) -> Vec<PathBuf> {
        env::split_paths(&env::var_os("PATH").unwrap_or_default())
            .filter(|path| path.is_absolute())
            .collect()
    }

    /// Longest gRPC message in bytes. What cannot be read is the default, as
    /// for Argo CD.
    #[must_use]
    pub fn max_message(&self) -> usize {
        let stated = env::var("ARGOCD_GRPC_MAX_SIZE_MB").ok();
        let mib = stated.and_then(|text| text.parse::<u32>().ok());
        mib.map_or(MAX_MESSAGE_MIB, |mib| mib as usize).saturating_mul(MIB)
    }

    /// What commands may reach and use.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds {
            read: self.read.iter().map(|path| absolute(path)).collect(),
            caches: Caches::default(),
            network: self.network.0.clone(),
            memory: self.max_memory,
            processes: self.max_processes,
            file_size: self.max_file_bytes,
            disk: self.max_disk_bytes,
            files: self.max_disk_files,
            cpu_seconds: self.max_cpu,
        }
    }

    /// Most bytes that a command may print.
    #[must_use]
    pub fn max_output(&self) -> usize {
        self.max_output_bytes.unwrap_or_else(|| self.max_message())
    }
}
