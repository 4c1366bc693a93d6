//! An application on this machine.

use std::path::{Path, PathBuf};

use clap::{Args, Parser};

use super::{
    Isolation,
    argument::{Described as _, Time},
    fields::Fields,
};
use crate::settings;

/// An application on this machine, and how to try it.
#[derive(Args, Clone, Debug)]
pub struct Application {
    /// Directory of the application [default: spec.source.path of --application]
    #[arg(value_name = "APP_DIR", required_unless_present_any = ["application", "from_bundle"])]
    pub directory: Option<PathBuf>,
    /// Send a failed request again, from the file that `bundle get` wrote
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "directory", "application", "repo_root", "name", "namespace", "project", "revision",
            "target_revision", "repo_url", "kube_version", "api_versions",
        ]
    )]
    pub from_bundle: Option<PathBuf>,
    /// Plugin to use, with its version behind a dash [default: the only one, or whichever claims the application]
    #[arg(long, value_name = "NAME")]
    pub plugin: Option<String>,
    /// Directory of plugin definitions [default: ./plugins.d if it is there]
    #[arg(long, value_name = "DIR", env = settings::PLUGINS_DIR.variable())]
    pub plugins_dir: Option<PathBuf>,
    /// Directory that is sent to the plugin and contains the application [default: the application, or . with --application]
    #[arg(long, value_name = "DIR")]
    pub repo_root: Option<PathBuf>,
    /// Ask the server on this socket, ours or argocd-cmp-server, instead of one of its own
    #[arg(long, value_name = "SOCK")]
    pub socket: Option<PathBuf>,
    /// Isolation of the request
    #[arg(described = &settings::ISOLATION, value_enum, help_heading = None)]
    pub isolation: Isolation,
    /// Time for the answer
    #[arg(time = &settings::ANSWER_TIMEOUT, help_heading = None)]
    pub(crate) timeout: Time,
    /// Fields of the Application.
    #[command(flatten)]
    pub fields: Fields,
}

/// Arguments of a command that has nothing but an application.
#[derive(Parser)]
struct Alone {
    #[command(flatten)]
    application: Application,
}

impl Application {
    /// An application with the defaults of all flags.
    pub fn alone(directory: &Path) -> Result<Self, clap::Error> {
        let words = ["render".as_ref(), "--".as_ref(), directory.as_os_str()];
        Alone::try_parse_from(words).map(|alone| alone.application)
    }

    /// Directory of plugin definitions.
    #[must_use]
    pub fn plugins_dir(&self) -> PathBuf {
        let here = Path::new("plugins.d");
        let default =
            || if here.is_dir() { here.into() } else { settings::DEFAULT_PLUGINS_DIR.into() };
        self.plugins_dir.clone().unwrap_or_else(default)
    }
}
