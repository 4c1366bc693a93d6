//! Arguments of `serve`.

use std::{
    env,
    fmt::Display,
    path::{self, Path, PathBuf},
    time::Duration,
};

use clap::Args;
use cmp_sandbox::{Bounds, Caches};

use super::{
    Http, Isolation, LogFilter, LogFormat, Otlp, PEER_CONFIG, PEER_FILE, Ports, RequestCgroups,
    UidRange,
    argument::{Described as _, Time, expected},
    path_variable, work_dir,
};
use crate::{
    budget::{Budget, Given},
    evidence::{self, MAX_BUNDLES},
    loader::Places,
    plugin::DEFAULT_SOCKET_DIR,
    recent::Details,
    settings::{self, Limit, Setting},
};

/// Directory of tokens: of the service account, and those that clouds add.
const TOKENS: &str = "/var/run/secrets";

/// Files of a service account that are no secrets: tools read the namespace of the Pod
/// there, and the CA of the API server.
const NO_SECRETS: [&str; 2] = [
    "/var/run/secrets/kubernetes.io/serviceaccount/namespace",
    "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
];

/// Longest gRPC message in MiB. The repo-server has the same default.
pub(crate) const MAX_MESSAGE_MIB: usize = 100;

/// Bytes in a MiB.
const MIB: usize = 1024 * 1024;

/// Longest duration of a command in milliseconds. Argo CD documents 90 s, but
/// argocd-cmp-server never applies them: the client's deadline ends commands, and
/// users who raise it rely on that. This ends commands of clients without one.
const EXEC_TIMEOUT_MS: u64 = 30 * 60 * 1000;

/// Milliseconds between SIGTERM and SIGKILL.
const EXEC_GRACE_MS: u64 = 5 * 1000;

/// A variable that Argo CD documents for its sidecars, and the setting it stands for.
type PeerVariable = (&'static str, &'static Setting);

const EXEC_TIMEOUT: PeerVariable = ("ARGOCD_EXEC_TIMEOUT", &settings::EXEC_TIMEOUT);
const EXEC_GRACE: PeerVariable = ("ARGOCD_EXEC_FATAL_TIMEOUT", &settings::EXEC_GRACE);

/// The value of another program's variable, if it is set; or why it cannot be read.
fn foreign<T, E: Display>(
    name: &str,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, String> {
    let Some(text) = env::var_os(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    let shown = text.to_string_lossy();
    read(&shown).map(Some).map_err(|error| format!("{name} is {shown:?}: {error}"))
}

/// A time in a variable of Argo CD.
fn peer_time((name, row): PeerVariable) -> Result<Option<Limit>, String> {
    let amount = row.amount();
    foreign(name, |text| amount.read(text).ok_or_else(|| expected(amount.expected())))
}

/// MiB of the longest gRPC message in Argo CD's variable, which takes the same numbers there.
fn peer_message() -> Result<Option<usize>, String> {
    foreign("ARGOCD_GRPC_MAX_SIZE_MB", |text| {
        let mib = text.parse().ok().filter(|mib| i32::try_from(*mib).is_ok());
        mib.ok_or_else(|| expected("a whole number of MiB, for example 100"))
    })
}

/// The filter in the variable that most programs in Rust read.
fn usual_filter() -> Result<Option<LogFilter>, String> {
    foreign("RUST_LOG", str::parse)
}

/// Serve every plugin of a directory.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Serve {
    #[arg(described = &settings::PLUGINS_DIR)]
    pub(crate) plugins_dir: PathBuf,
    #[arg(described = &settings::SOCKET_DIR)]
    pub(super) socket_dir: Option<PathBuf>,
    #[arg(described = &settings::WORK_DIR)]
    pub(super) work_dir: Option<PathBuf>,
    #[arg(described = &settings::HTTP)]
    pub(crate) http: Http,
    #[arg(described = &settings::ADMIN_HTTP)]
    pub(crate) admin_http: Http,
    #[arg(described = &settings::STATUS_DETAILS)]
    pub(super) status_details: bool,
    #[arg(count = &settings::METRICS_PER_APPLICATION)]
    pub(crate) metrics_per_application: u32,
    #[arg(described = &settings::ISOLATION, value_enum)]
    pub(crate) isolation: Isolation,
    #[arg(described = &settings::ACCEPT_NO_ISOLATION)]
    pub(crate) accept_no_isolation: bool,
    #[arg(described = &settings::ACCEPT_NO_LANDLOCK)]
    pub(crate) accept_no_landlock: bool,
    #[arg(described = &settings::REQUEST_CGROUPS, value_enum)]
    pub(crate) request_cgroups: RequestCgroups,
    #[arg(described = &settings::UID_RANGE)]
    pub(crate) uid_range: UidRange,
    #[arg(count = &settings::RUN_AS_UID, value_name = "UID")]
    pub(crate) run_as_uid: u32,
    #[arg(described = &settings::NETWORK)]
    pub(crate) network: Ports,
    #[arg(described = &settings::READ, value_delimiter = ':')]
    pub(crate) read: Vec<PathBuf>,
    #[arg(size = &settings::MAX_ARCHIVE)]
    pub(crate) max_archive: u64,
    #[arg(size = &settings::MAX_REPOSITORY)]
    pub(crate) max_repository: Option<u64>,
    #[arg(count = &settings::MAX_REPOSITORY_FILES)]
    pub(crate) max_repository_files: Option<u32>,
    #[arg(limit = &settings::MEMORY)]
    pub(super) max_memory: Option<Limit>,
    #[arg(limit = &settings::PROCESSES)]
    pub(super) max_processes: Option<Limit>,
    #[arg(limit = &settings::CPU)]
    pub(super) max_cpu: Limit,
    #[arg(limit = &settings::FILE_SIZE)]
    pub(super) max_file_size: Option<Limit>,
    #[arg(limit = &settings::DISK)]
    pub(super) max_disk: Option<Limit>,
    #[arg(limit = &settings::FILES)]
    pub(super) max_files: Option<Limit>,
    #[arg(size = &settings::OUTPUT)]
    pub(super) max_output: Option<u64>,
    #[arg(count = &settings::MAX_REQUESTS)]
    pub(crate) max_requests: Option<u32>,
    #[arg(count = &settings::MAX_QUEUE)]
    pub(crate) max_queue: Option<u32>,
    #[arg(time = &settings::STREAM_TIMEOUT)]
    pub(crate) stream_timeout: Time,
    #[arg(limit = &settings::EXEC_TIMEOUT)]
    pub(super) exec_timeout: Option<Limit>,
    #[arg(limit = &settings::EXEC_GRACE)]
    pub(super) exec_grace: Option<Limit>,
    #[arg(time = &settings::EMPTY_GRACE)]
    pub(crate) empty_grace: Time,
    #[arg(time = &settings::DRAIN_TIMEOUT)]
    pub(crate) drain_timeout: Time,
    #[arg(time = &settings::SHUTDOWN_DELAY)]
    pub(crate) shutdown_delay: Time,
    #[arg(count = &settings::KEEP_FAILED)]
    pub(crate) keep_failed: u32,
    #[arg(described = &settings::LOG_FORMAT, value_enum)]
    pub(crate) log_format: Option<LogFormat>,
    #[arg(described = &settings::LOG_LEVEL)]
    pub(super) log_level: Option<LogFilter>,
    #[command(flatten)]
    pub(crate) otlp: Otlp,
    /// Write events to standard output instead of a log to standard error
    #[arg(long, hide = true)]
    pub events: bool,
    /// Report what the kernel refuses to commands; only for `render`
    #[arg(long, hide = true, requires = "events")]
    pub observe: bool,
    /// A file that commands may read, in addition to --read; only for `render`
    #[arg(long, hide = true, requires = "events", value_name = "PATH")]
    pub(super) script: Vec<PathBuf>,
    /// The only definition, when serving as argocd-cmp-server.
    #[arg(skip)]
    pub(crate) single: Option<PathBuf>,
    /// Settings of argocd-cmp-server that are given and have no effect.
    #[arg(skip)]
    pub(crate) without_effect: Vec<String>,
}

/// A path that means the same wherever a process is.
fn absolute(path: &Path) -> PathBuf {
    path::absolute(path).unwrap_or_else(|_empty| path.to_owned())
}

impl Serve {
    /// Directory of the sockets.
    #[must_use]
    pub fn socket_dir(&self) -> PathBuf {
        let default =
            || path_variable("ARGOCD_PLUGINSOCKFILEPATH").unwrap_or(DEFAULT_SOCKET_DIR.into());
        self.socket_dir.clone().unwrap_or_else(default)
    }

    /// Directory of the workspaces.
    #[must_use]
    pub fn work_dir(&self) -> PathBuf {
        work_dir(self.work_dir.as_deref())
    }

    /// Directories of definitions: the given one, and the one in which
    /// argocd-cmp-server expects its only definition. Started under that
    /// name, only the latter.
    #[must_use]
    pub fn places(&self) -> Places {
        if let Some(single) = &self.single {
            return Places { directory: None, single: Some(single.clone()) };
        }
        let is_default = self.plugins_dir == Path::new(settings::DEFAULT_PLUGINS_DIR);
        Places {
            directory: Some(self.plugins_dir.clone()),
            single: is_default.then(|| Path::new(PEER_CONFIG).join(PEER_FILE)),
        }
    }

    /// Directories of definitions.
    #[must_use]
    pub fn definition_directories(&self) -> Vec<PathBuf> {
        let Places { directory, single } = self.places();
        let beside = single.as_deref().and_then(Path::parent).map(Path::to_owned);
        directory.into_iter().chain(beside).collect()
    }

    /// Directories of secrets. A plugin must name what it reads there.
    #[must_use]
    pub fn secret(&self) -> Vec<PathBuf> {
        vec![TOKENS.into()]
    }

    /// Files in them that every request may read.
    #[must_use]
    pub fn no_secrets(&self) -> Vec<PathBuf> {
        NO_SECRETS.map(PathBuf::from).into()
    }

    /// Paths that no request may open, even if a key or flag allows it: sockets,
    /// definitions and failed requests.
    #[must_use]
    pub fn hidden(&self) -> Vec<PathBuf> {
        let bundles = (self.keep_failed > 0).then(|| self.work_dir().join(evidence::DIRECTORY));
        let sockets = std::iter::once(self.socket_dir());
        sockets.chain(self.definition_directories()).chain(bundles).collect()
    }

    /// Directories of programs: what is on the PATH.
    #[must_use]
    pub fn programs(&self) -> Vec<PathBuf> {
        env::split_paths(&env::var_os("PATH").unwrap_or_default())
            .filter(|path| path.is_absolute())
            .collect()
    }

    /// Longest gRPC message in bytes.
    #[must_use]
    pub fn max_message(&self) -> usize {
        let stated = peer_message().ok().flatten();
        stated.unwrap_or(MAX_MESSAGE_MIB).saturating_mul(MIB)
    }

    /// The settings that decide what follows from the container.
    #[must_use]
    pub fn given(&self) -> Given {
        let uids = &self.uid_range.0;
        Given {
            uids: uids.end() - uids.start() + 1,
            leases: None,
            message: self.max_message() as u64,
            bundles: if self.keep_failed > 0 { MAX_BUNDLES } else { 0 },
            requests: self.max_requests,
            queue: self.max_queue,
            memory: self.max_memory,
            processes: self.max_processes,
            file_size: self.max_file_size,
            disk: self.max_disk,
            files: self.max_files,
            output: self.max_output,
            repository: self.max_repository,
            repository_files: self.max_repository_files,
        }
    }

    /// Longest duration of a command, unless its plugin has a timeout; `None` for
    /// no limit.
    #[must_use]
    pub fn exec_timeout(&self) -> Option<Duration> {
        let default = Limit(Some(EXEC_TIMEOUT_MS));
        let limit = self.exec_timeout.or_else(|| peer_time(EXEC_TIMEOUT).ok()?);
        limit.unwrap_or(default).0.map(Duration::from_millis)
    }

    /// Time between SIGTERM and SIGKILL for a command.
    #[must_use]
    pub fn exec_grace(&self) -> Duration {
        let limit = self.exec_grace.or_else(|| peer_time(EXEC_GRACE).ok()?);
        Duration::from_millis(limit.and_then(|limit| limit.0).unwrap_or(EXEC_GRACE_MS))
    }

    /// The treatment of names of applications and of error texts.
    #[must_use]
    pub fn details(&self) -> Details {
        let has_admin = matches!(self.admin_http, Http::On(_));
        if self.status_details || has_admin { Details::Shown } else { Details::Hidden }
    }

    /// True if `grpc_server_handling_seconds` is wanted, as in Argo CD.
    #[must_use]
    pub fn has_grpc_times(&self) -> bool {
        env::var("ARGOCD_ENABLE_GRPC_TIME_HISTOGRAM").is_ok_and(|value| value == "true")
    }

    /// The format of the log; `None` for the usual one.
    #[must_use]
    pub fn log_format(&self) -> Option<LogFormat> {
        self.log_format
    }

    /// The format of the spawner's last error; `None` for the usual one. People read it with
    /// `--events`, which do not pass it on.
    #[must_use]
    pub fn spawner_format(&self) -> Option<LogFormat> {
        if self.events { Some(LogFormat::Text) } else { self.log_format }
    }

    /// The filter of the log.
    #[must_use]
    pub fn log_filter(&self) -> LogFilter {
        let filter = self.log_level.clone().or_else(|| usual_filter().ok()?);
        filter.unwrap_or_default()
    }

    /// Variables of other programs with values that cannot be read. Their defaults
    /// apply.
    #[must_use]
    pub fn misread(&self) -> Vec<String> {
        let times = [EXEC_TIMEOUT, EXEC_GRACE].into_iter().filter_map(|peer| peer_time(peer).err());
        let filter = usual_filter().err().filter(|_| self.log_level.is_none());
        times.chain(peer_message().err()).chain(filter).collect()
    }

    /// Default grants of commands, and their limits that no container sets.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds {
            read: self.read.iter().chain(&self.script).map(|path| absolute(path)).collect(),
            caches: Caches::default(),
            network: self.network.0.clone(),
            cpu_seconds: self.max_cpu.0,
            stop_grace: Some(self.exec_grace()),
            ..Bounds::default()
        }
    }

    /// The limits in force, in the order of the help.
    #[must_use]
    pub fn limits(&self, budget: &Budget) -> [(&'static Setting, Limit); 20] {
        let each = &budget.each;
        let count = |count: usize| Limit(Some(count as u64));
        let millis = |time: Duration| Limit(u64::try_from(time.as_millis()).ok());
        let time = |Time(time)| millis(time);
        [
            (&settings::METRICS_PER_APPLICATION, Limit(Some(self.metrics_per_application.into()))),
            (&settings::MAX_ARCHIVE, Limit(Some(self.max_archive))),
            (&settings::MAX_REPOSITORY, Limit(each.repository.amount)),
            (&settings::MAX_REPOSITORY_FILES, Limit(each.repository_files.amount)),
            (&settings::MEMORY, Limit(each.memory.amount)),
            (&settings::PROCESSES, Limit(each.processes.amount)),
            (&settings::CPU, self.max_cpu),
            (&settings::FILE_SIZE, Limit(each.file_size.amount)),
            (&settings::DISK, Limit(each.disk.amount)),
            (&settings::FILES, Limit(each.files.amount)),
            (&settings::OUTPUT, Limit(each.output.amount)),
            (&settings::MAX_REQUESTS, count(budget.requests.amount)),
            (&settings::MAX_QUEUE, count(budget.queue.amount)),
            (&settings::STREAM_TIMEOUT, time(self.stream_timeout)),
            (&settings::EXEC_TIMEOUT, self.exec_timeout().map_or(Limit(None), millis)),
            (&settings::EXEC_GRACE, millis(self.exec_grace())),
            (&settings::EMPTY_GRACE, time(self.empty_grace)),
            (&settings::DRAIN_TIMEOUT, time(self.drain_timeout)),
            (&settings::SHUTDOWN_DELAY, time(self.shutdown_delay)),
            (&settings::KEEP_FAILED, Limit(Some(self.keep_failed.into()))),
        ]
    }
}
