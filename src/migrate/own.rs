//! Variables with a meaning to the supervisor, the sandbox or argocd-cmp-server, and paths
//! that no request may use.

use serde_json::Value;

use super::{
    field::{is_within, replace_path, text, trimmed},
    plugin::Plugin,
    reference::{reference, refers},
    report::Report,
};
use crate::{
    config::OWN_PREFIX,
    settings::{
        ADMIN_HTTP, HTTP, ISOLATION, OTLP_HEADERS, PLUGINS_DIR, RUN_AS_UID, SHUTDOWN_DELAY,
        SOCKET_DIR, Setting, WORK_DIR,
    },
};

/// Variables that the sandbox sets for each request.
const OF_REQUESTS: [&str; 2] = ["TMPDIR", "PWD"];

/// Variables of directories in which a sidecar keeps the repositories of running requests.
pub(super) const WORK_DIRS: [&str; 3] = [WORK_DIR.variable(), "ARGOCD_CMP_WORKDIR", "TMPDIR"];

/// Variables that contradict the arguments, probes or volumes of the new container.
const OF_CONTAINER: [&str; 2] = ["ARGOCD_BINARY_NAME", "ARGOCD_CMP_WORKDIR"];

/// Settings of a supervisor that contradict them.
const CONTRADICTING: [&Setting; 8] = [
    &ADMIN_HTTP,
    &HTTP,
    &ISOLATION,
    &PLUGINS_DIR,
    &RUN_AS_UID,
    &SHUTDOWN_DELAY,
    &SOCKET_DIR,
    &WORK_DIR,
];

/// Directories that a request gets for itself. Outside /tmp, they are also where the
/// files of the image are that its copies begin with.
pub(super) const HOMES: [&str; 5] =
    ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"];

/// Directories that a request gets for itself, empty.
const CACHES: [&str; 2] = ["XDG_CACHE_HOME", "HELM_CACHE_HOME"];

/// Directory of temporary files; the work volume replaces it.
pub(super) const TEMPORARY: &str = "/tmp";

/// Variables of argocd-cmp-server that became flags.
const FLAGS: [&str; 2] = [LOG_LEVEL, LOG_FORMAT];
pub(super) const LOG_LEVEL: &str = "ARGOCD_CMP_SERVER_LOGLEVEL";
pub(super) const LOG_FORMAT: &str = "ARGOCD_CMP_SERVER_LOGFORMAT";

/// Directories in which commands look for programs.
pub(super) const PATH: &str = "PATH";

/// Headers for a collector of traces, which often hold a token.
const HEADERS: &str = "ARGOCD_CMP_SERVER_OTLP_HEADERS";

/// Variables of argocd-cmp-server that the server itself reads.
const SETTINGS: [&str; 10] = [
    "ARGOCD_CMP_SERVER_OTLP_ADDRESS",
    "ARGOCD_CMP_SERVER_OTLP_ATTRS",
    HEADERS,
    "ARGOCD_CMP_SERVER_OTLP_INSECURE",
    "ARGOCD_CMP_SERVER_OTLP_SAMPLE_RATIO",
    "ARGOCD_ENABLE_GRPC_TIME_HISTOGRAM",
    "ARGOCD_EXEC_FATAL_TIMEOUT",
    "ARGOCD_EXEC_TIMEOUT",
    "ARGOCD_GRPC_MAX_SIZE_MB",
    "ARGOCD_PLUGINSOCKFILEPATH",
];

/// True if the variable became a flag.
pub(super) fn is_flag(name: &str) -> bool {
    FLAGS.contains(&name)
}

/// True if the server itself reads the variable.
pub(super) fn is_setting(name: &str) -> bool {
    SETTINGS.contains(&name) || name.starts_with(OWN_PREFIX)
}

/// True if the value of a setting must not be shown.
pub(super) fn is_hidden(name: &str) -> bool {
    [HEADERS, OTLP_HEADERS.variable()].contains(&name)
}

/// True if the sandbox or the new container sets this variable.
pub(super) fn is_own(name: &str) -> bool {
    OF_REQUESTS.contains(&name) || is_of_container(name) || is_flag(name)
}

fn is_of_container(name: &str) -> bool {
    OF_CONTAINER.contains(&name) || CONTRADICTING.iter().any(|own| own.variable() == name)
}

/// True if the container does not keep the variable: `report_removal` tells why.
pub(super) fn is_gone(variable: &Value) -> bool {
    let (name, value) = (text(variable, "name"), text(variable, "value"));
    is_own(name) || HOMES.contains(&name) && is_within(value, TEMPORARY)
}

/// Reports a variable that the container does not keep.
pub(super) fn report_removal(plugin: &Plugin, name: &str, report: &mut Report) {
    let removed = format!("plugin `{}`: {name} was removed", plugin.name);
    if !is_of_container(name) {
        report.change(format!("{removed}, because the sandbox sets it"));
    } else if name.starts_with(OWN_PREFIX) {
        report.check(format!(
            "{removed}, because the new container has its own arguments, probes and volumes: change \
             them if you need this setting"
        ));
    } else {
        report.change(format!(
            "{removed}, because the new container has its own program and work volume"
        ));
    }
}

/// True if the sandbox replaces the variable by a directory of each request. No request could
/// write to a path that a shell sets instead. The container keeps one value: the sandbox sets
/// most of these variables only if the container has them, and finds helm's plugins by one.
pub(super) fn is_replaced(name: &str) -> bool {
    CACHES.contains(&name) || cmp_sandbox::WRITTEN.contains(&name)
}

/// Tells if a value refers to a variable that the new container does not have, and Kubernetes
/// leaves such a reference as it is, or to one with another value in each request.
pub(super) fn warn_of_gone(plugin: &Plugin, variable: &Value, gone: &[&str], report: &mut Report) {
    if let Some(other) = gone.iter().find(|other| refers(text(variable, "value"), other)) {
        let name = text(variable, "name");
        let why = if is_replaced(other) {
            "which the sandbox sets"
        } else {
            "which the new container does not have"
        };
        report.check(format!(
            "plugin `{}`: {name} refers to {}, {why}: set {name} in the plugin's commands, from \
             ${other}",
            plugin.name,
            reference(other)
        ));
    }
}

/// Reports a path that commands cannot use unless they run in namespaces. Other lines of the
/// report tell of settings of the server, and of volumes that were removed.
pub(super) fn warn_of_temporary(plugin: &Plugin, variable: &Value, report: &mut Report) {
    let (name, value) = (text(variable, "name"), text(variable, "value"));
    let mut paths = plugin.sidecar.mounts().iter().map(|mount| trimmed(text(mount, "mountPath")));
    let is_removed = |path: &str| path != TEMPORARY && is_within(path, TEMPORARY);
    let is_told = is_setting(name)
        || paths.any(|path| is_removed(path) && replace_path(value, path, "") != value);
    if is_replaced(name) || is_told || replace_path(value, TEMPORARY, "") == value {
        return;
    }
    let advice = match name {
        PATH => "put the programs into the image",
        _ => "let the commands set it to a path in $TMPDIR",
    };
    report.check(format!(
        "plugin `{}`: {name} names a path in {TEMPORARY}, where requests cannot write (`uid`, \
         `landlock`) or each command has its own files (`namespaces`): {advice}",
        plugin.name
    ));
}
