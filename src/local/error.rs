//! Errors of the commands that run a plugin on this machine, and their exit codes.

use std::{fmt, io, path::PathBuf};

use thiserror::Error;

use super::{NoApplication, NoPeer, NotPacked, NotPrivate, NotReplayed};
use crate::{exit, grpc::ClientError, plugin::nearest, plural::plural};

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
    /// The Application in a file cannot be rendered.
    #[error("{path}: {error}")]
    Application {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: NoApplication,
    },
    /// The repository cannot be packed.
    #[error(transparent)]
    Pack(#[from] NotPacked),
    /// A bundle cannot be sent again.
    #[error("{path}: {error}")]
    Bundle {
        /// The bundle.
        path: PathBuf,
        /// The error.
        error: Box<NotReplayed>,
    },
    /// The private supervisor could not be started.
    #[error(transparent)]
    Private(#[from] NotPrivate),
    /// No argocd-cmp-server could be started.
    #[error(transparent)]
    Peer(#[from] NoPeer),
    /// A variable with the default of a flag has a wrong value.
    #[error(transparent)]
    Options(clap::Error),
    /// The plugin returned an error.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The plugin does not exist.
    #[error(
        "no plugin `{name}`: {}available plugins: {}{}",
        Meant(name, known), known.join(", "), LeftOut(left_out)
    )]
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
    /// The plugin gave two results for the same input.
    #[error(
        "plugin {plugin} does not give the same result twice: Argo CD would show the application \
         as out of sync after each refresh"
    )]
    Nondeterministic {
        /// The plugin.
        plugin: String,
    },
    /// No plugin of a migration claims the application.
    #[error("no plugin claims this application: choose one with --check-plugin: {}", known.join(", "))]
    Unclaimed {
        /// The names of all plugins.
        known: Vec<String>,
    },
    /// One of the two servers cannot render the application.
    #[error("{plugin} by {server}: {error}")]
    Failed {
        /// The plugin.
        plugin: String,
        /// The server.
        server: &'static str,
        /// Its error.
        error: Box<LocalError>,
    },
    /// The migration changes results.
    #[error(
        "{} not the same after the migration: {}: if the plugin gives the same result twice \
         (render --check-deterministic), do not apply the migration yet",
        if plugins.len() == 1 { "a result is" } else { "results are" },
        plugins.join(", ")
    )]
    Different {
        /// The plugins.
        plugins: Vec<String>,
    },
    /// The result cannot be printed.
    #[error("cannot print the result: {0}")]
    Show(String),
}

/// The part of an error message that suggests one of the known names.
struct Meant<'m>(&'m str, &'m [String]);

impl fmt::Display for Meant<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, known) = self;
        // The version of a definition ends its plugin's name, but other names contain `-` too.
        let is_version = |known: &&str| {
            let rest = known.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
            let number = rest.map(|rest| rest.strip_prefix('v').unwrap_or(rest));
            number.is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
        };
        let known = || known.iter().map(String::as_str);
        match known().find(is_version).or_else(|| nearest(name, known())) {
            Some(meant) => write!(formatter, "did you mean `{meant}`? "),
            None => Ok(()),
        }
    }
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
    pub(super) fn with_left_out(mut self, definitions: Vec<String>) -> Self {
        if let Self::NoPlugin { left_out, .. } = &mut self {
            *left_out = definitions;
        }
        self
    }

    /// The program's exit code.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Parameters(_) => exit::USAGE,
            Self::NoMatch { .. } | Self::Unclaimed { .. } => exit::NO_MATCH,
            Self::Client(ClientError::Status(status)) => status.exit_code(),
            Self::Failed { error, .. } => error.exit_code(),
            Self::Private(NotPrivate::Definitions(_))
            | Self::Directory { .. }
            | Self::Outside { .. }
            | Self::Application { .. }
            | Self::Pack(_)
            | Self::Bundle { .. }
            | Self::Client(ClientError::Archive(_))
            | Self::NoPlugin { .. }
            | Self::NoPlugins { .. }
            | Self::Unhealthy { .. }
            | Self::Nondeterministic { .. }
            | Self::Peer(_)
            | Self::Options(_)
            | Self::Different { .. }
            | Self::Show(_) => exit::FAILED,
            Self::Private(_) | Self::Unisolated | Self::Client(ClientError::Connect { .. }) => {
                exit::NO_ANSWER
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_with_a_version_or_a_similar_name_is_suggested() {
        let known = ["concat-v1.0", "helm-secrets", "other"].map(str::to_owned).to_vec();
        for (name, meant) in [
            ("concat", "did you mean `concat-v1.0`? "),
            ("concat-v1", "did you mean `concat-v1.0`? "),
            ("othre", "did you mean `other`? "),
            ("conc", ""),
            ("helm", ""),
        ] {
            let (name, known, left_out) = (name.to_owned(), known.clone(), Vec::new());
            let expected = format!(
                "no plugin `{name}`: {meant}available plugins: concat-v1.0, helm-secrets, other"
            );
            let error = LocalError::NoPlugin { name, known, left_out };
            assert_eq!(error.to_string(), expected);
        }
    }
}
