//! Rows of what the operator decides about the server and the sandbox.

use super::{
    Amount, Heading, Kind,
    Kind::{Address, Caches, Directory, Isolation, Paths, Ports, Switch, Uids, Variables, Word},
    Setting, Unit, setting,
};

/// A number of failed requests.
const FAILED: Kind =
    Kind::Amount(Amount { unit: Unit::Count, least: 0, most: 100, may_be_unlimited: false });

/// A number of applications.
const APPLICATIONS: Kind =
    Kind::Amount(Amount { unit: Unit::Count, least: 0, most: 1000, may_be_unlimited: false });

/// A UID. The kernel takes the largest 32-bit number for "no change".
const UID: Kind = Kind::Amount(Amount {
    unit: Unit::Count,
    least: 0,
    most: u32::MAX as u64 - 1,
    may_be_unlimited: false,
});

/// Default directory of plugin definitions.
pub(crate) const DEFAULT_PLUGINS_DIR: &str = "/home/argocd/cmp-server/plugins.d";

pub(crate) static PLUGINS_DIR: Setting = setting(Heading::Paths, Directory)
    .flag("plugins-dir", "CMP_SUPERVISOR_PLUGINS_DIR")
    .default(DEFAULT_PLUGINS_DIR)
    .about("Directory of plugin definitions, usually a mounted ConfigMap");

pub(crate) static SOCKET_DIR: Setting = setting(Heading::Paths, Directory)
    .flag("socket-dir", "CMP_SUPERVISOR_SOCKET_DIR")
    .derived("$ARGOCD_PLUGINSOCKFILEPATH or /home/argocd/cmp-server/plugins")
    .about("Directory for the sockets, shared with the repo-server");

pub(crate) static WORK_DIR: Setting = setting(Heading::Paths, Directory)
    .flag("work-dir", "CMP_SUPERVISOR_WORK_DIR")
    .derived("$ARGOCD_CMP_WORKDIR, $TMPDIR or /tmp")
    .about("Directory for the repositories of running requests, best in memory");

pub(crate) static HTTP: Setting = setting(Heading::Http, Address)
    .flag("http", "CMP_SUPERVISOR_HTTP")
    .default("[::]:9180")
    .about("Address for metrics and health, or off; [::] is all IPv6 and IPv4 addresses, or all IPv4 addresses where IPv6 is disabled");

pub(crate) static ADMIN_HTTP: Setting = setting(Heading::Http, Address)
    .flag("admin-http", "CMP_SUPERVISOR_ADMIN_HTTP")
    .default("off")
    .about("Second address, for operators: it takes orders from everybody who can reach it, and shows /requests, names of applications and error texts; --http then has none of these");

pub(crate) static STATUS_DETAILS: Setting = setting(Heading::Http, Switch)
    .flag("status-details", "CMP_SUPERVISOR_STATUS_DETAILS")
    .about("Without --admin-http, show names of applications and error texts at /requests and on the status page to everybody who can reach --http; --admin-http always shows them");

pub(crate) static METRICS_PER_APPLICATION: Setting = setting(Heading::Http, APPLICATIONS)
    .flag("metrics-per-application", "CMP_SUPERVISOR_METRICS_PER_APPLICATION")
    .default("0")
    .about("Applications with metrics of their own, at most 1000: those that cost most CPU time; all others are counted as other, and 0 counts none");

pub(crate) static ISOLATION: Setting = setting(Heading::Isolation, Isolation)
    .flag("isolation", "CMP_SUPERVISOR_ISOLATION")
    .default("auto")
    .about("How strongly requests are isolated from each other");

pub(crate) static MINIMUM_ISOLATION: Setting = setting(Heading::Isolation, Isolation)
    .key("sandbox", "minimumIsolation")
    .about("Weakest isolation that the plugin accepts; with a weaker one, it is not served");

pub(crate) static ACCEPT_NO_ISOLATION: Setting = setting(Heading::Isolation, Switch)
    .flag("accept-no-isolation", "CMP_SUPERVISOR_ACCEPT_NO_ISOLATION")
    .about(
        "Needed with --isolation none: every plugin can then read the files of every other plugin",
    );

pub(crate) static ACCEPT_NO_LANDLOCK: Setting = setting(Heading::Isolation, Switch)
    .flag("accept-no-landlock", "CMP_SUPERVISOR_ACCEPT_NO_LANDLOCK")
    .about("Accept isolation by UID alone if the kernel has no Landlock: every plugin can then read secrets that any UID can read");

pub(crate) static REQUEST_CGROUPS: Setting = setting(Heading::Isolation, Word)
    .flag("request-cgroups", "CMP_SUPERVISOR_REQUEST_CGROUPS")
    .default("auto")
    .about("A cgroup v2 for each request, where the kernel enforces its limits as a whole");

pub(crate) static UID_RANGE: Setting = setting(Heading::Isolation, Uids)
    .flag("uid-range", "CMP_SUPERVISOR_UID_RANGE")
    .default("60706-61183")
    .about("UIDs for requests, two for each; nothing else may use them");

pub(crate) static RUN_AS_UID: Setting = setting(Heading::Isolation, UID)
    .flag("run-as-uid", "CMP_SUPERVISOR_RUN_AS_UID")
    .default("999")
    .about("UID to switch to when started as root; the repo-server's, so that it can connect");

pub(crate) static ENV: Setting = setting(Heading::Isolation, Variables)
    .key("sandbox", "env")
    .derived("all")
    .about("Variables of the sidecar that commands see; all if absent");

pub(crate) static NETWORK: Setting = setting(Heading::Isolation, Ports)
    .key("sandbox", "network")
    .flag("network", "CMP_SUPERVISOR_NETWORK")
    .default("22,53,80,443,5000,8200,8443,9418")
    .about("TCP ports that commands can connect to: a list, any or none");

pub(crate) static READ: Setting = setting(Heading::Isolation, Paths)
    .key("sandbox", "read")
    .flag("read", "CMP_SUPERVISOR_READ")
    .about("Additional paths that commands can read, separated by : in the flag and its variable; paths in a definition are a list, must be absolute, and are added to these");

pub(crate) static CACHES: Setting = setting(Heading::Isolation, Caches)
    .key("sandbox", "caches")
    .about("Directories that requests of this plugin share");

pub(crate) static KEEP_FAILED: Setting = setting(Heading::Logs, FAILED)
    .flag("keep-failed", "CMP_SUPERVISOR_KEEP_FAILED")
    .default("0")
    .about("Failed requests to keep in the work directory, at most 100, with repository and outputs, for `bundle list`; 0 keeps none");

pub(crate) static INCLUDE: Setting = setting(Heading::Repository, Paths)
    .key("workspace", "include")
    .derived("all")
    .about("Files of the repository that the plugin needs; all if absent. Relative to the application, or to the repository if they begin with /; a directory includes everything below, and *, ** and ? are special");

pub(crate) static READ_ONLY: Setting = setting(Heading::Repository, Switch)
    .key("workspace", "readOnly")
    .default("false")
    .about("Commands cannot change the repository. Requests that send the same archive then share its files, if commands have separate UIDs and include is absent");

pub(crate) static LOG_FORMAT: Setting = setting(Heading::Logs, Word)
    .flag("log-format", "CMP_SUPERVISOR_LOG_FORMAT")
    .derived("text on a terminal, json elsewhere")
    .about("Format of log lines");

pub(crate) static LOG_LEVEL: Setting = setting(Heading::Logs, Word)
    .flag("log-level", "CMP_SUPERVISOR_LOG_LEVEL")
    .derived("$RUST_LOG or info")
    .about("Least severity of log lines: error, warn, info, debug or trace, and those of targets, such as info,cmp_supervisor::grpc=debug; PUT /-/log-level changes it");

pub(crate) static OTLP_ADDRESS: Setting = setting(Heading::Traces, Word)
    .flag("otlp-address", "CMP_SUPERVISOR_OTLP_ADDRESS")
    .derived("$ARGOCD_CMP_SERVER_OTLP_ADDRESS, or no traces")
    .about("Host and port of a collector that takes traces by OTLP over gRPC");

pub(crate) static OTLP_INSECURE: Setting = setting(Heading::Traces, Word)
    .flag("otlp-insecure", "CMP_SUPERVISOR_OTLP_INSECURE")
    .derived("$ARGOCD_CMP_SERVER_OTLP_INSECURE or true")
    .about("Send traces without TLS; there is no TLS, so with false no traces are sent");

pub(crate) static OTLP_HEADERS: Setting = setting(Heading::Traces, Word)
    .flag("otlp-headers", "CMP_SUPERVISOR_OTLP_HEADERS")
    .derived("$ARGOCD_CMP_SERVER_OTLP_HEADERS or none")
    .about(
        "Headers for the collector, as NAME=VALUE,NAME=VALUE; use the variable if they are secret",
    );

pub(crate) static OTLP_ATTRS: Setting = setting(Heading::Traces, Word)
    .flag("otlp-attrs", "CMP_SUPERVISOR_OTLP_ATTRS")
    .derived("$ARGOCD_CMP_SERVER_OTLP_ATTRS or none")
    .about("Attributes of all traces, as NAME:VALUE,NAME:VALUE");

pub(crate) static OTLP_SAMPLE_RATIO: Setting = setting(Heading::Traces, Word)
    .flag("otlp-sample-ratio", "CMP_SUPERVISOR_OTLP_SAMPLE_RATIO")
    .derived("$ARGOCD_CMP_SERVER_OTLP_SAMPLE_RATIO or 1")
    .about("Part of the traces that are sent, from 0 to 1; the client's decision counts if it has a trace");
