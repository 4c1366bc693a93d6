//! Starting as argocd-cmp-server.

#![expect(clippy::doc_markdown, reason = "help texts are not Markdown")]

use std::{env, error::Error as _, ffi::OsStr, path::PathBuf};

use clap::{
    Parser,
    error::{ContextKind, ContextValue, ErrorKind},
};
use thiserror::Error;
use tracing_subscriber::filter::LevelFilter;

use super::{
    Http, LogFilter, LogFormat, Otlp, PEER_CONFIG, PEER_FILE, Ratio, Serve, source::with_variable,
};
use crate::settings::HTTP;

/// Variables without an effect here: those of argocd-cmp-server, and the one of ours whose flag
/// `--config-dir-path` replaces.
const UNUSED: [&str; 4] = [
    "ARGOCD_GRPC_KEEP_ALIVE_MIN",
    "ARGOCD_LOG_FORMAT_ENABLE_FULL_TIMESTAMP",
    "ARGOCD_LOG_FORMAT_TIMESTAMP",
    "CMP_SUPERVISOR_PLUGINS_DIR",
];

/// The name under which this program behaves as argocd-cmp-server.
pub const PEER_NAME: &str = "argocd-cmp-server";

/// The flags of argocd-cmp-server. As there, the last of several counts.
#[derive(Debug, Parser)]
#[command(name = PEER_NAME, version, about = "cmp-supervisor, serving as argocd-cmp-server")]
#[command(args_override_self = true)]
#[command(after_help = "\
Flags of `cmp-supervisor serve` are variables here: errors that name --max-memory mean
CMP_SUPERVISOR_MAX_MEMORY. CMP_SUPERVISOR_PLUGINS_DIR has no effect.")]
pub struct Peer {
    /// Directory of plugin.yaml
    #[arg(long, value_name = "DIR", default_value = PEER_CONFIG)]
    pub config_dir_path: PathBuf,
    /// `json` or `text` [default: $ARGOCD_CMP_SERVER_LOGFORMAT,
    /// $CMP_SUPERVISOR_LOG_FORMAT or json]
    #[arg(long)]
    pub logformat: Option<String>,
    /// `trace`, `debug`, `info`, `warn`, `error`, `fatal` or `panic` [default:
    /// $ARGOCD_CMP_SERVER_LOGLEVEL, $CMP_SUPERVISOR_LOG_LEVEL, $RUST_LOG or info]
    #[arg(long)]
    pub loglevel: Option<String>,
    /// Host and port of a collector of traces
    #[arg(long)]
    pub otlp_address: Option<String>,
    /// Send traces without TLS, which is not supported [default: true]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool)]
    pub otlp_insecure: Option<bool>,
    /// Headers for the collector, as NAME=VALUE,NAME=VALUE
    #[arg(long)]
    pub otlp_headers: Option<String>,
    /// Attributes of all traces, as NAME:VALUE,NAME:VALUE
    #[arg(long)]
    pub otlp_attrs: Option<String>,
    /// Part of the traces that are sent, from 0 to 1
    #[arg(long)]
    pub otlp_sample_ratio: Option<Ratio>,
    /// Accepted and ignored
    #[arg(hide = true)]
    pub rest: Vec<String>,
}

/// Errors of the command line or the environment, in the words of argocd-cmp-server.
#[derive(Debug, Error)]
pub enum NotPeer {
    /// Help or the version is wanted.
    #[error("{0}")]
    Shown(clap::Error),
    /// The flags are wrong.
    #[error("{}", cobra(.0))]
    Usage(clap::Error),
    /// There is no such log format.
    #[error("Unknown log format '{0}': expected json or text")]
    Format(String),
    /// There is no such log level.
    #[error(
        "not a valid logrus Level: {0:?}: expected trace, debug, info, warn, error, fatal or panic"
    )]
    Level(String),
}

impl Peer {
    /// Returns true if this program was started under the peer's name: by the
    /// name of its file, or by the variable that Argo CD's image uses.
    ///
    /// The variable is often set for the whole container, where `kubectl exec` and
    /// probes run other subcommands: it does not count if the first argument is one.
    pub fn is_meant(is_subcommand: impl FnOnce(&OsStr) -> bool) -> bool {
        let mut arguments = env::args_os();
        let file = arguments.next().map(PathBuf::from);
        let is_file = file.is_some_and(|path| path.file_name() == Some(OsStr::new(PEER_NAME)));
        match env::var_os("ARGOCD_BINARY_NAME").filter(|name| !name.is_empty()) {
            None => is_file,
            Some(name) if name != PEER_NAME => false,
            Some(_) => is_file || !arguments.next().is_some_and(|first| is_subcommand(&first)),
        }
    }

    /// Reads command line and environment as argocd-cmp-server does.
    ///
    /// HTTP is off unless `CMP_SUPERVISOR_HTTP` is set: several of these may
    /// share a Pod and its ports.
    pub fn read() -> Result<Serve, NotPeer> {
        let peer = Self::try_parse().map_err(NotPeer::of)?;
        // Like argocd-cmp-server: the format first, then the level.
        let log_format = peer.log_format()?;
        let log_level = peer.log_level()?;
        let Alone { serve } = Alone::try_parse_from(["cmp-supervisor"])
            .map_err(|error| NotPeer::of(with_variable(error)))?;
        let asked_for_http = env::var_os(HTTP.variable()).is_some();
        Ok(Serve {
            http: if asked_for_http { serve.http } else { Http::Off },
            single: Some(peer.config_dir_path.join(PEER_FILE)),
            log_format: log_format.or(serve.log_format).or(Some(LogFormat::Json)),
            log_level: log_level.or(serve.log_level),
            without_effect: peer.without_effect(),
            otlp: peer.otlp(serve.otlp),
            ..serve
        })
    }

    /// The flags of traces, and otherwise the variables.
    fn otlp(&self, otlp: Otlp) -> Otlp {
        Otlp {
            address: self.otlp_address.clone().or(otlp.address),
            insecure: self.otlp_insecure.or(otlp.insecure),
            headers: self.otlp_headers.clone().or(otlp.headers),
            attrs: self.otlp_attrs.clone().or(otlp.attrs),
            sample_ratio: self.otlp_sample_ratio.or(otlp.sample_ratio),
        }
    }

    /// The arguments and variables that are set and have no effect.
    fn without_effect(&self) -> Vec<String> {
        let variables = UNUSED.into_iter().filter(|name| variable(name).is_some());
        let rest = self.rest.iter().map(|argument| format!("argument {argument:?}"));
        variables.map(str::to_owned).chain(rest).collect()
    }

    /// The format that a flag or variable of argocd-cmp-server states.
    fn log_format(&self) -> Result<Option<LogFormat>, NotPeer> {
        let stated = self.logformat.clone();
        let Some(stated) = stated.or_else(|| variable("ARGOCD_CMP_SERVER_LOGFORMAT")) else {
            return Ok(None);
        };
        match stated.to_lowercase().as_str() {
            "json" => Ok(Some(LogFormat::Json)),
            "text" | "" => Ok(Some(LogFormat::Text)),
            _ => Err(NotPeer::Format(stated)),
        }
    }

    /// The level that a flag or variable of argocd-cmp-server states.
    fn log_level(&self) -> Result<Option<LogFilter>, NotPeer> {
        let stated = self.loglevel.clone();
        let Some(stated) = stated.or_else(|| variable("ARGOCD_CMP_SERVER_LOGLEVEL")) else {
            return Ok(None);
        };
        let level = match stated.to_lowercase().as_str() {
            "trace" => LevelFilter::TRACE,
            "debug" => LevelFilter::DEBUG,
            "info" | "" => LevelFilter::INFO,
            "warn" | "warning" => LevelFilter::WARN,
            "error" | "fatal" | "panic" => LevelFilter::ERROR,
            _ => return Err(NotPeer::Level(stated)),
        };
        Ok(Some(level.into()))
    }
}

impl NotPeer {
    fn of(error: clap::Error) -> Self {
        if error.use_stderr() { Self::Usage(error) } else { Self::Shown(error) }
    }
}

/// The value of a variable, if it is set and not empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Reads a boolean as Go's `strconv.ParseBool`.
fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
    }
}

/// Says of the usual mistakes what the peer's flag parser says.
fn cobra(error: &clap::Error) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    // Known flags come with their values: `--name <VALUE>`, `--name[=<VALUE>]`.
    let flag = text(ContextKind::InvalidArg).split([' ', '[']).next().unwrap_or_default();
    let value = text(ContextKind::InvalidValue);
    match (error.kind(), flag.strip_prefix('-')) {
        (ErrorKind::UnknownArgument, Some(name)) if name.starts_with('-') => {
            format!("unknown flag: {flag}")
        }
        (ErrorKind::UnknownArgument, Some(letter)) => {
            format!("unknown shorthand flag: '{letter}' in {flag}")
        }
        (ErrorKind::InvalidValue, Some(_)) if value.is_empty() => {
            format!("flag needs an argument: {flag}")
        }
        (ErrorKind::ValueValidation, Some(_)) => {
            let reason = error.source().map(ToString::to_string).unwrap_or_default();
            let origin = match error.get(ContextKind::Suggested) {
                Some(ContextValue::StyledStrs(texts)) => {
                    texts.first().map(|text| format!(": {text}"))
                }
                _ => None,
            };
            format!(
                "invalid argument {value:?} for {flag:?} flag: {reason}{}",
                origin.unwrap_or_default()
            )
        }
        _ => {
            let rendered = error.to_string();
            let line = rendered.lines().next().unwrap_or_default();
            line.trim_start_matches("error: ").to_owned()
        }
    }
}

/// Only the environment and the defaults.
#[derive(Debug, Parser)]
struct Alone {
    #[command(flatten)]
    serve: Serve,
}
