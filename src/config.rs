//! What was typed, what the environment says, and what both mean.
//!
//! The only reader of the environment. Flags beat variables beat defaults.

#![expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
#![expect(clippy::doc_markdown, reason = "help texts are not Markdown")]

use std::{
    env,
    ffi::OsString,
    fmt,
    net::SocketAddr,
    ops::RangeInclusive,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    str::FromStr,
};

use bytes::Bytes;
use clap::{Args, Parser, ValueEnum};
use thiserror::Error;

use crate::{
    loader::Places,
    local::{self, Parameter},
    sandbox::{Bounds, Network, Tier},
};

/// Where Argo CD looks for sockets. The repo-server has the same default.
const SOCKET_DIR: &str = "/home/argocd/cmp-server/plugins";

/// Where definitions are looked for.
const PLUGINS_DIR: &str = "/home/argocd/cmp-server/plugins.d";

/// Where argocd-cmp-server has its only definition.
const PEER_CONFIG: &str = "/home/argocd/cmp-server/config";

/// What plugins usually fetch from: ssh, DNS, HTTP and HTTPS, registries, Vault,
/// and git. Argo CD's own ports and ours are not among them.
const NETWORK: &str = "22,53,80,443,5000,8200,8443,9418";

/// Where Kubernetes puts a Pod's token.
const SERVICE_ACCOUNT: &str = "/var/run/secrets";

/// What that definition is called.
const PEER_FILE: &str = "plugin.yaml";

/// The name under which this program behaves as argocd-cmp-server.
const PEER_NAME: &str = "argocd-cmp-server";

/// Longest gRPC message in MiB. The repo-server has the same default.
const MAX_MESSAGE_MIB: usize = 100;

/// Bytes in a MiB.
const MIB: usize = 1024 * 1024;

/// Names that begin with this are the supervisor's own and no plugin's.
const OWN_PREFIX: &[u8] = b"CMP_SUPERVISOR_";

/// How requests are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Isolation {
    /// The best that can be had; never none.
    Auto,
    /// A user, and process, mount and IPC namespaces of its own for every request.
    Namespaces,
    /// A user of its own for every request.
    Uid,
    /// One user, but no request can reach another's files, processes or sockets.
    Landlock,
    /// Nothing: every request runs as the same user.
    None,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Only what is broken.
    Error,
    /// And what should not be.
    Warn,
    /// And what happens.
    Info,
    /// And why.
    Debug,
}

/// Where HTTP is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    /// On this address.
    On(SocketAddr),
    /// Nowhere.
    Off,
}

/// TCP ports, as they are typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(pub Network);

/// Users that are leased to requests, first and last included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UidRange(pub RangeInclusive<u32>);

/// Serve every plugin of a directory.
#[derive(Args, Clone, Debug)]
pub struct Serve {
    /// Directory of plugin definitions, usually a mounted ConfigMap
    #[arg(long, value_name = "DIR", env = "CMP_SUPERVISOR_PLUGINS_DIR", default_value = PLUGINS_DIR)]
    pub plugins_dir: PathBuf,
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
    /// Users to lease to requests; they must belong to nobody else
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
    /// Most bytes that a command may print [default: what a gRPC message holds]
    #[arg(long, value_name = "BYTES", env = "CMP_SUPERVISOR_MAX_OUTPUT_BYTES")]
    pub max_output_bytes: Option<usize>,
    /// Further paths that plugins may read: tools and data that are mounted
    #[arg(long, value_name = "PATH", env = "CMP_SUPERVISOR_READ", value_delimiter = ':')]
    pub read: Vec<PathBuf>,
    /// TCP ports that plugins may connect to, or `any`, or `none`
    #[arg(long, value_name = "PORTS", env = "CMP_SUPERVISOR_NETWORK", default_value = NETWORK)]
    pub network: Ports,
    /// Memory of each process of a plugin; 0 for no limit, as below
    #[arg(long, value_name = "BYTES", env = "CMP_SUPERVISOR_MAX_MEMORY", default_value_t = 2 << 30)]
    pub max_memory: u64,
    /// Processes of a request at a time
    #[arg(long, value_name = "N", env = "CMP_SUPERVISOR_MAX_PROCESSES", default_value_t = 512)]
    pub max_processes: u64,
    /// Largest file that a plugin may write
    #[arg(long, value_name = "BYTES", env = "CMP_SUPERVISOR_MAX_FILE_BYTES", default_value_t = 1 << 30)]
    pub max_file_bytes: u64,
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
    /// The only definition, when serving as argocd-cmp-server
    #[arg(skip)]
    pub single: Option<PathBuf>,
}

/// What argocd-cmp-server is started with. All its flags are taken.
#[derive(Debug, Parser)]
#[command(name = PEER_NAME, version, about = "cmp-supervisor, serving as argocd-cmp-server")]
pub struct Peer {
    /// Directory of plugin.yaml
    #[arg(long, value_name = "DIR", default_value = PEER_CONFIG)]
    pub config_dir_path: PathBuf,
    /// `json` or `text`
    #[arg(long, env = "ARGOCD_CMP_SERVER_LOGFORMAT", default_value = "json", ignore_case = true)]
    pub logformat: LogFormat,
    /// `trace`, `debug`, `info`, `warn`, `error`, `fatal` or `panic`
    #[arg(long, env = "ARGOCD_CMP_SERVER_LOGLEVEL", default_value = "info")]
    pub loglevel: String,
    /// Taken, not used: traces are not exported
    #[arg(long, env = "ARGOCD_CMP_SERVER_OTLP_ADDRESS", hide = true)]
    pub otlp_address: Option<String>,
    /// Taken, not used
    #[arg(long, hide = true, num_args = 0..=1)]
    pub otlp_insecure: Option<String>,
    /// Taken, not used
    #[arg(long, hide = true)]
    pub otlp_headers: Option<String>,
    /// Taken, not used
    #[arg(long, hide = true)]
    pub otlp_attrs: Option<String>,
    /// Taken, not used
    #[arg(long, hide = true)]
    pub otlp_sample_ratio: Option<String>,
    /// Taken, not used
    #[arg(hide = true)]
    pub rest: Vec<String>,
}

impl Peer {
    /// Whether this program was started under the peer's name: as its file, or
    /// by the variable that Argo CD's own image uses.
    #[must_use]
    pub fn is_meant() -> bool {
        let stated = env::var_os("ARGOCD_BINARY_NAME").filter(|name| !name.is_empty());
        let file = || env::args_os().next().map(PathBuf::from)?.file_name().map(OsString::from);
        stated.or_else(file).is_some_and(|name| name == PEER_NAME)
    }

    /// The same in our terms: no HTTP unless it is asked for, since several
    /// peers may share a Pod and its ports.
    #[must_use]
    pub fn into_serve(self) -> Serve {
        let Alone { serve } = Alone::parse_from(["cmp-supervisor"]);
        let asked_for_http = env::var_os("CMP_SUPERVISOR_HTTP").is_some();
        Serve {
            http: if asked_for_http { serve.http } else { Http::Off },
            single: Some(self.config_dir_path.join(PEER_FILE)),
            log_format: Some(self.logformat),
            log_level: match self.loglevel.as_str() {
                "trace" | "debug" => LogLevel::Debug,
                "warn" | "warning" => LogLevel::Warn,
                "error" | "fatal" | "panic" => LogLevel::Error,
                _ => LogLevel::Info,
            },
            ..serve
        }
    }
}

/// Only the environment and the defaults.
#[derive(Debug, Parser)]
struct Alone {
    #[command(flatten)]
    serve: Serve,
}

impl Serve {
    /// Where sockets are made.
    #[must_use]
    pub fn socket_dir(&self) -> PathBuf {
        let default = || path_variable("ARGOCD_PLUGINSOCKFILEPATH").unwrap_or(SOCKET_DIR.into());
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
            read: self.read.clone(),
            write: Vec::new(),
            network: self.network.0.clone(),
            memory: self.max_memory,
            processes: self.max_processes,
            file_size: self.max_file_bytes,
            cpu_seconds: self.max_cpu,
        }
    }

    /// Most bytes that a command may print.
    #[must_use]
    pub fn max_output(&self) -> usize {
        self.max_output_bytes.unwrap_or_else(|| self.max_message())
    }
}

/// An application on this machine, and how to try it.
#[derive(Args, Clone, Debug)]
pub struct Application {
    /// Directory of the application
    #[arg(value_name = "APP_DIR")]
    pub directory: PathBuf,
    /// Plugin to use, with its version as in NAME-VERSION [default: whichever claims the application]
    #[arg(long, value_name = "NAME")]
    pub plugin: Option<String>,
    /// Directory of plugin definitions [default: ./plugins.d if it is there]
    #[arg(long, value_name = "DIR", env = "CMP_SUPERVISOR_PLUGINS_DIR")]
    pub plugins_dir: Option<PathBuf>,
    /// What is sent to the plugin; the application has to be below it [default: the application]
    #[arg(long, value_name = "DIR")]
    pub repo_root: Option<PathBuf>,
    /// An item of spec.source.plugin.env; the plugin sees it as ARGOCD_ENV_NAME
    #[arg(long, value_name = "NAME=VALUE", value_parser = local::pair)]
    pub env: Vec<(String, String)>,
    /// An item of spec.source.plugin.parameters; NAME[]=VALUE for lists, NAME[KEY]=VALUE for maps
    #[arg(long, value_name = "NAME=VALUE", value_parser = local::parameter)]
    pub param: Vec<Parameter>,
    /// Ask the server on this socket, ours or argocd-cmp-server, instead of one of its own
    #[arg(long, value_name = "SOCK", conflicts_with_all = ["plugins_dir", "isolation"])]
    pub socket: Option<PathBuf>,
    /// How the request is kept apart
    #[arg(long, env = "CMP_SUPERVISOR_ISOLATION", value_enum, default_value = "auto")]
    pub isolation: Isolation,
    /// How long the answer may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub timeout: u64,
}

impl Application {
    /// Where definitions are.
    #[must_use]
    pub fn plugins_dir(&self) -> PathBuf {
        let here = Path::new("plugins.d");
        let default = || if here.is_dir() { here.into() } else { PLUGINS_DIR.into() };
        self.plugins_dir.clone().unwrap_or_else(default)
    }
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people.
    Yaml,
    /// For machines.
    Json,
}

impl Isolation {
    /// The word for it on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Namespaces => "namespaces",
            Self::Uid => "uid",
            Self::Landlock => "landlock",
            Self::None => "none",
        }
    }

    /// The tiers to try, in this order.
    #[must_use]
    pub fn tiers(self) -> Vec<Tier> {
        match self {
            Self::Auto => vec![Tier::Namespaces, Tier::Uid, Tier::Landlock],
            Self::Namespaces => vec![Tier::Namespaces],
            Self::Uid => vec![Tier::Uid],
            Self::Landlock => vec![Tier::Landlock],
            Self::None => vec![Tier::None],
        }
    }
}

/// The variables that plugins may see, as `NAME=VALUE`.
#[must_use]
pub fn inherited() -> Vec<Bytes> {
    let visible = env::vars_os().filter(|(name, _)| !name.as_bytes().starts_with(OWN_PREFIX));
    visible.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat().into()).collect()
}

/// Where programs are looked up.
#[must_use]
pub fn search() -> Bytes {
    env::var_os("PATH").unwrap_or_default().as_bytes().to_vec().into()
}

/// Whether colours are unwelcome.
#[must_use]
pub fn no_color() -> bool {
    env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

fn path_variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from)
}

/// Why an address is none.
#[derive(Debug, Error)]
#[error("an address like 0.0.0.0:9180, or off")]
pub struct NoAddress;

impl FromStr for Http {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        match text {
            "off" => Ok(Self::Off),
            address => address.parse().map(Self::On).map_err(|_invalid| NoAddress),
        }
    }
}

/// Why a list of ports is none.
#[derive(Debug, Error)]
#[error("ports like 22,443, or any, or none")]
pub struct NoPorts;

impl FromStr for Ports {
    type Err = NoPorts;

    fn from_str(text: &str) -> Result<Self, NoPorts> {
        match text {
            "any" => Ok(Self(Network::Any)),
            "none" => Ok(Self(Network::Ports(Vec::new()))),
            list => {
                let ports = list.split(',').map(|port| port.trim().parse());
                let ports: Result<Vec<u16>, _> = ports.collect();
                ports.map(|ports| Self(Network::Ports(ports))).map_err(|_invalid| NoPorts)
            }
        }
    }
}

/// Why a range is none.
#[derive(Debug, Error)]
#[error("two numbers above 0 like 60706-61183, at least two apart and at most 65534 long")]
pub struct NoRange;

impl FromStr for UidRange {
    type Err = NoRange;

    fn from_str(text: &str) -> Result<Self, NoRange> {
        let (first, last) = text.split_once('-').ok_or(NoRange)?;
        let first = first.parse().map_err(|_invalid| NoRange)?;
        let last = last.parse().map_err(|_invalid| NoRange)?;
        // Two at least: one to lease, one to kill with. Root is never leased,
        // nor is the user that stands for nobody.
        let is_range = first > 0 && last > first && last - first < 65_534 && last < u32::MAX - 1;
        if is_range { Ok(Self(first..=last)) } else { Err(NoRange) }
    }
}

impl fmt::Display for UidRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.0.start(), self.0.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_two_users_at_least_and_never_root() {
        assert_eq!("60706-61183".parse::<UidRange>().unwrap().to_string(), "60706-61183");
        for text in ["0-10", "5", "9-5", "7-7", "a-b", "1-70000", "4294967290-4294967295"] {
            assert!(text.parse::<UidRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn http_is_an_address_or_off() {
        assert_eq!("off".parse::<Http>().unwrap(), Http::Off);
        assert!("127.0.0.1:0".parse::<Http>().is_ok());
        assert!("9180".parse::<Http>().is_err());
    }
}
