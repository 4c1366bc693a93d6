//! Starting as argocd-cmp-server.

#![expect(clippy::disallowed_methods, reason = "this is where the environment is read")]

use std::{env, ffi::OsString, path::PathBuf};

use clap::Parser;

use super::{Http, LogFormat, LogLevel, PEER_CONFIG, PEER_FILE, Serve};

/// The name under which this program behaves as argocd-cmp-server.
const PEER_NAME: &str = "argocd-cmp-server";

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
                "trace" => LogLevel::Trace,
                "debug" => LogLevel::Debug,
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
