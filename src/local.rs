//! `render`, `match` and `params`: run a plugin on a local application, with the
//! same sockets, protocol and sandbox as in a cluster.

mod doctor;
mod document;
mod environment;
mod interrupt;
mod pack;
mod private;
mod report;
mod show;
mod target;

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;

pub use self::{doctor::doctor, interrupt::interrupted, pack::NotPacked, private::NotPrivate};
use self::{
    pack::{Codec, Pack},
    report::Report,
    target::{Claim, Target, ask, choose, wanted},
};
use crate::{
    config::{self, Application, OutputFormat},
    grpc::{ClientError, Parcel},
    plural::plural,
};

/// An error of `render`, `match`, `params` or `doctor`.
#[derive(Debug, Error)]
pub enum LocalError {
    /// A directory cannot be read.
    #[error("{path}: {error}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The application is outside the repository.
    #[error(
        "{application} is not below {root}: set --repo-root to a parent directory of the application"
    )]
    Outside {
        /// The application's directory.
        application: PathBuf,
        /// The repository.
        root: PathBuf,
    },
    /// The repository cannot be packed.
    #[error(transparent)]
    Pack(#[from] NotPacked),
    /// The private supervisor could not be started.
    #[error(transparent)]
    Private(#[from] NotPrivate),
    /// The plugin returned an error.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The plugin does not exist.
    #[error("no plugin `{name}`: available plugins: {}{}", known.join(", "), LeftOut(left_out))]
    NoPlugin {
        /// The requested name.
        name: String,
        /// The names of all served plugins.
        known: Vec<String>,
        /// Definitions that are not served, each with its file and the reason.
        left_out: Vec<String>,
    },
    /// No plugin is served.
    #[error(
        "no plugin in {directory}: add a definition, or set --plugins-dir{}",
        LeftOut(left_out)
    )]
    NoPlugins {
        /// The plugins directory.
        directory: PathBuf,
        /// Definitions that are not served, each with its file and the reason.
        left_out: Vec<String>,
    },
    /// Parameters that contradict each other.
    #[error(
        "contradictory values of --param {0}: use one form (string, list or map) and set each value once"
    )]
    Parameters(String),
    /// No plugin claims the application.
    #[error("no plugin claims this application: choose one with --plugin: {}", known.join(", "))]
    NoMatch {
        /// The names of all served plugins.
        known: Vec<String>,
    },
    /// `doctor` found failures.
    #[error("{} found: fix them as described above", plural(*failures, "failure"))]
    Unhealthy {
        /// Number of failures.
        failures: usize,
    },
    /// The requested isolation is not available.
    #[error("the requested isolation is not available")]
    Unisolated,
    /// A signal ended the command.
    #[error("ended by {name}")]
    Interrupted {
        /// The signal.
        name: &'static str,
        /// Its number.
        number: i32,
    },
    /// The result cannot be printed.
    #[error("cannot print the result: {0}")]
    Show(String),
}

/// The end of an error message that lists definitions that are not served.
struct LeftOut<'l>(&'l [String]);

impl fmt::Display for LeftOut<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => Ok(()),
            left_out => write!(formatter, "; not served: {}", left_out.join("; ")),
        }
    }
}

impl LocalError {
    /// Adds the definitions that are not served. The missing plugin may be one.
    fn with_left_out(mut self, definitions: Vec<String>) -> Self {
        if let Self::NoPlugin { left_out, .. } = &mut self {
            *left_out = definitions;
        }
        self
    }

    /// The program's exit code.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Parameters(_) => 2,
            // As shells report a process that a signal killed.
            Self::Interrupted { number, .. } => u8::try_from(128 + number).unwrap_or(u8::MAX),
            Self::NoMatch { .. } => 4,
            Self::Client(ClientError::Status(status)) => status.exit_code(),
            Self::Private(_) | Self::Unisolated => 7,
            Self::Directory { .. }
            | Self::Outside { .. }
            | Self::Pack(_)
            | Self::Client(ClientError::Connect { .. } | ClientError::Archive(_))
            | Self::NoPlugin { .. }
            | Self::NoPlugins { .. }
            | Self::Unhealthy { .. }
            | Self::Show(_) => 1,
        }
    }
}

/// Prints the application's manifests.
pub async fn render(options: &Application, format: OutputFormat) -> Result<(), LocalError> {
    let mut report = Report::new();
    let (_pack, parcel) = pack(options, &report)?;
    let target = Target::open(options, &mut report).await?;
    let rendered = target.with(&mut report, async |sockets| {
        let (name, mut client) = choose(options.plugin.as_deref(), sockets, &parcel).await?;
        Ok((name, client.generate(&parcel).await?))
    });
    let (name, manifests) = rendered.await?;
    let count = plural(manifests.len(), "manifest");
    report.step("rendered", &format!("{count} by plugin {name}"));
    if manifests.is_empty() {
        report.warn("no manifests: with automated pruning Argo CD would delete the application");
    }
    show::print(&show::manifests(&manifests, format)?)
}

/// Prints which plugins claim the application.
pub async fn matches(options: &Application, format: OutputFormat) -> Result<(), LocalError> {
    let mut report = Report::new();
    let (_pack, parcel) = pack(options, &report)?;
    let target = Target::open(options, &mut report).await?;
    let asked = target.with(&mut report, async |sockets| {
        let mut asked = Vec::new();
        for (name, path) in wanted(options.plugin.as_deref(), sockets)? {
            asked.push((name.clone(), ask(path, &parcel).await));
        }
        Ok(asked)
    });
    let asked = asked.await?;
    show::print(&show::claims(&asked, format)?)?;
    if asked.iter().any(|(_, claim)| matches!(claim, Ok(Claim::Match))) {
        return Ok(());
    }
    let known = asked.iter().map(|(name, _)| name.clone()).collect();
    let failed = asked.into_iter().find_map(|(_, claim)| claim.err());
    Err(failed.map_or(LocalError::NoMatch { known }, LocalError::Client))
}

/// Prints the parameters that the application can set.
pub async fn parameters(options: &Application, format: OutputFormat) -> Result<(), LocalError> {
    let mut report = Report::new();
    let (_pack, parcel) = pack(options, &report)?;
    let target = Target::open(options, &mut report).await?;
    let announced = target.with(&mut report, async |sockets| {
        let (_, mut client) = choose(options.plugin.as_deref(), sockets, &parcel).await?;
        Ok(client.announce(&parcel).await?)
    });
    show::print(&show::announcements(announced.await?, format)?)
}

/// Packs the repository, and composes the request that Argo CD would send.
fn pack(options: &Application, report: &Report) -> Result<(Pack, Parcel), LocalError> {
    if let Some(name) = config::conflict(&options.param) {
        return Err(LocalError::Parameters(name.to_owned()));
    }
    let find = |path: &Path| {
        let found = fs::canonicalize(path);
        found.map_err(|error| LocalError::Directory { path: path.to_owned(), error })
    };
    let application = find(&options.directory)?;
    let root = options.repo_root.as_deref().map_or_else(|| Ok(application.clone()), find)?;
    let Ok(directory) = application.strip_prefix(&root) else {
        return Err(LocalError::Outside { application, root });
    };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let name = application.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let codec = if options.socket.is_some() { Codec::Gzip } else { Codec::Zstd };
    let pack = Pack::new(&root, codec)?;
    let files = plural(pack.files, "file");
    report.step("packed", &format!("{files}, {} bytes compressed", pack.size));
    let parcel = Parcel {
        environment: environment::compose(&name, directory, &options.env, &options.param),
        application: name,
        directory: directory.as_os_str().as_encoded_bytes().to_vec(),
        archive: pack.path().to_owned(),
        size: pack.size,
        checksum: pack.checksum.clone(),
        timeout: options.timeout.0,
    };
    Ok((pack, parcel))
}
