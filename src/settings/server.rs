//! Rows of what the operator decides about the server and the sandbox.

use super::{
    COUNT, Default, Heading,
    Kind::{Address, Caches, Directory, Isolation, Paths, Ports, Switch, Uids, Variables, Word},
    Setting, flag, key,
};

/// `--plugins-dir`.
pub static PLUGINS_DIR: Setting = Setting {
    key: None,
    flag: Some(flag("plugins-dir", "CMP_SUPERVISOR_PLUGINS_DIR")),
    kind: Directory,
    default: Default::Value("/home/argocd/cmp-server/plugins.d"),
    heading: Heading::Paths,
    about: "Directory of plugin definitions, usually a mounted ConfigMap",
};

/// `--socket-dir`.
pub static SOCKET_DIR: Setting = Setting {
    key: None,
    flag: Some(flag("socket-dir", "CMP_SUPERVISOR_SOCKET_DIR")),
    kind: Directory,
    default: Default::Derived("$ARGOCD_PLUGINSOCKFILEPATH or /home/argocd/cmp-server/plugins"),
    heading: Heading::Paths,
    about: "Directory for the sockets, shared with the repo-server",
};

/// `--work-dir`.
pub static WORK_DIR: Setting = Setting {
    key: None,
    flag: Some(flag("work-dir", "CMP_SUPERVISOR_WORK_DIR")),
    kind: Directory,
    default: Default::Derived("$ARGOCD_CMP_WORKDIR, $TMPDIR or /tmp"),
    heading: Heading::Paths,
    about: "Directory for the repositories of running requests, best in memory",
};

/// `--http`.
pub static HTTP: Setting = Setting {
    key: None,
    flag: Some(flag("http", "CMP_SUPERVISOR_HTTP")),
    kind: Address,
    default: Default::Value("0.0.0.0:9180"),
    heading: Heading::Http,
    about: "Address for metrics and health, or off",
};

/// `--isolation`.
pub static ISOLATION: Setting = Setting {
    key: None,
    flag: Some(flag("isolation", "CMP_SUPERVISOR_ISOLATION")),
    kind: Isolation,
    default: Default::Value("auto"),
    heading: Heading::Isolation,
    about: "How strongly requests are isolated from each other",
};

/// `spec.sandbox.minimumIsolation`.
pub static MINIMUM_ISOLATION: Setting = Setting {
    key: Some(key("sandbox", "minimumIsolation")),
    flag: None,
    kind: Isolation,
    default: Default::None,
    heading: Heading::Isolation,
    about: "Weakest isolation that the plugin accepts; with a weaker one, it is not served",
};

/// `--accept-no-isolation`.
pub static ACCEPT_NO_ISOLATION: Setting = Setting {
    key: None,
    flag: Some(flag("accept-no-isolation", "CMP_SUPERVISOR_ACCEPT_NO_ISOLATION")),
    kind: Switch,
    default: Default::None,
    heading: Heading::Isolation,
    about: "Needed with --isolation none: every plugin can then read the files of every other plugin",
};

/// `--accept-no-landlock`.
pub static ACCEPT_NO_LANDLOCK: Setting = Setting {
    key: None,
    flag: Some(flag("accept-no-landlock", "CMP_SUPERVISOR_ACCEPT_NO_LANDLOCK")),
    kind: Switch,
    default: Default::None,
    heading: Heading::Isolation,
    about: "Accept isolation by UID alone if the kernel has no Landlock: every plugin can then read secrets that any UID can read",
};

/// `--uid-range`.
pub static UID_RANGE: Setting = Setting {
    key: None,
    flag: Some(flag("uid-range", "CMP_SUPERVISOR_UID_RANGE")),
    kind: Uids,
    default: Default::Value("60706-61183"),
    heading: Heading::Isolation,
    about: "UIDs for requests, two for each; nothing else may use them",
};

/// `--run-as-uid`.
pub static RUN_AS_UID: Setting = Setting {
    key: None,
    flag: Some(flag("run-as-uid", "CMP_SUPERVISOR_RUN_AS_UID")),
    kind: COUNT,
    default: Default::Value("999"),
    heading: Heading::Isolation,
    about: "UID to switch to when started as root; the repo-server's, so that it can connect",
};

/// `spec.sandbox.env`.
pub static ENV: Setting = Setting {
    key: Some(key("sandbox", "env")),
    flag: None,
    kind: Variables,
    default: Default::Derived("all"),
    heading: Heading::Isolation,
    about: "Variables of the sidecar that commands see; all if absent",
};

/// `spec.sandbox.network`.
pub static NETWORK: Setting = Setting {
    key: Some(key("sandbox", "network")),
    flag: Some(flag("network", "CMP_SUPERVISOR_NETWORK")),
    kind: Ports,
    default: Default::Value("22,53,80,443,5000,8200,8443,9418"),
    heading: Heading::Isolation,
    about: "TCP ports that commands can connect to: a list, any or none",
};

/// `spec.sandbox.read`.
pub static READ: Setting = Setting {
    key: Some(key("sandbox", "read")),
    flag: Some(flag("read", "CMP_SUPERVISOR_READ")),
    kind: Paths,
    default: Default::None,
    heading: Heading::Isolation,
    about: "More paths that commands can read; a definition gives absolute ones, and adds to those of the flag",
};

/// `spec.sandbox.caches`.
pub static CACHES: Setting = Setting {
    key: Some(key("sandbox", "caches")),
    flag: None,
    kind: Caches,
    default: Default::None,
    heading: Heading::Isolation,
    about: "Directories that requests of this plugin share",
};

/// `--log-format`.
pub static LOG_FORMAT: Setting = Setting {
    key: None,
    flag: Some(flag("log-format", "CMP_SUPERVISOR_LOG_FORMAT")),
    kind: Word,
    default: Default::Derived("text on a terminal, json elsewhere"),
    heading: Heading::Logs,
    about: "Format of log lines",
};

/// `--log-level`.
pub static LOG_LEVEL: Setting = Setting {
    key: None,
    flag: Some(flag("log-level", "CMP_SUPERVISOR_LOG_LEVEL")),
    kind: Word,
    default: Default::Value("info"),
    heading: Heading::Logs,
    about: "Amount of logging",
};
