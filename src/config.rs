//! Flags and environment variables, and the settings that follow from them.
//!
//! The only reader of the environment. Flags beat variables beat defaults.

#![expect(clippy::disallowed_methods, reason = "this is where the environment is read")]

mod application;
mod argument;
mod bundle;
mod fields;
mod git_ask_pass;
mod home;
mod install;
mod kube_version;
mod log_filter;
mod migrate;
mod otlp;
mod parameter;
mod passwd;
mod peer;
mod probe;
mod serve;
mod source;
mod status;
mod target;
mod unread;
mod validate;
mod value;

use std::{
    env,
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use bytes::Bytes;

pub use self::{
    application::Application,
    bundle::{Bundle, BundleAction},
    fields::Fields,
    git_ask_pass::GitAskPass,
    home::skeleton,
    install::Install,
    log_filter::{LogFilter, NoLogFilter},
    migrate::{Comparison, Migrate, Profile, SidecarKind, ToolSource},
    otlp::{Otlp, Ratio},
    parameter::{NoPair, NoParameter, Parameter, Place, conflict, pair, parameter},
    passwd::Passwd,
    peer::{NotPeer, PEER_NAME, Peer},
    probe::{Check, Probe},
    serve::Serve,
    source::with_variable,
    status::Status,
    target::Target,
    unread::unread,
    validate::{Explain, ReportFormat, Validate},
    value::{
        Http, Isolation, LogFormat, OutputFormat, Ports, RequestCgroups, TextFormat, UidRange,
    },
};

pub(crate) use self::serve::MAX_MESSAGE_MIB;

/// Directory in which argocd-cmp-server expects its only definition.
pub(crate) const PEER_CONFIG: &str = "/home/argocd/cmp-server/config";

/// File name of that definition.
pub(crate) const PEER_FILE: &str = "plugin.yaml";

/// Names that begin with this are the supervisor's own and no plugin's.
pub(crate) const OWN_PREFIX: &str = "CMP_SUPERVISOR_";

/// The variables that plugins may see, as `NAME=VALUE`.
#[must_use]
pub fn inherited() -> Vec<Bytes> {
    let is_hidden = |name: &OsString| {
        name.as_bytes().starts_with(OWN_PREFIX.as_bytes())
            || otlp::CREDENTIALS.iter().any(|own| name == own)
    };
    let visible = env::vars_os().filter(|(name, _)| !is_hidden(name));
    visible.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat().into()).collect()
}

/// The supervisor's `PATH`, in which programs are looked up.
#[must_use]
pub fn search() -> Bytes {
    env::var_os("PATH").unwrap_or_default().as_bytes().to_vec().into()
}

/// The path of this program, under which requests find it too; empty if it cannot be
/// told.
#[must_use]
pub fn program() -> PathBuf {
    env::current_exe().unwrap_or_default()
}

/// The trace that the caller of this program is in, for requests.
#[must_use]
pub fn trace_parent() -> Option<String> {
    env::var("TRACEPARENT").ok()
}

/// Returns true if `NO_COLOR` is set and not empty.
#[must_use]
pub fn no_color() -> bool {
    env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// The directory of workspaces, if none is given.
fn work_dir(given: Option<&Path>) -> PathBuf {
    let default = || path_variable("ARGOCD_CMP_WORKDIR").unwrap_or_else(env::temp_dir);
    given.map_or_else(default, Path::to_owned)
}

fn path_variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value: &OsString| !value.is_empty()).map(PathBuf::from)
}
