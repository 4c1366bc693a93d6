//! An application on this machine.

#![expect(clippy::doc_markdown, reason = "help texts are not Markdown")]

use std::path::{Path, PathBuf};

use clap::Args;

use super::{
    Isolation, PLUGINS_DIR,
    parameter::{Parameter, pair, parameter},
    serve::MAX_DEPTH,
};

/// An application on this machine, and how to try it.
#[derive(Args, Clone, Debug)]
pub struct Application {
    /// Directory of the application
    #[arg(value_name = "APP_DIR")]
    pub directory: PathBuf,
    /// Plugin to use, with its version behind a dash [default: whichever claims the application]
    #[arg(long, value_name = "NAME")]
    pub plugin: Option<String>,
    /// Directory of plugin definitions [default: ./plugins.d if it is there]
    #[arg(long, value_name = "DIR", env = "CMP_SUPERVISOR_PLUGINS_DIR")]
    pub plugins_dir: Option<PathBuf>,
    /// What is sent to the plugin; the application has to be below it [default: the application]
    #[arg(long, value_name = "DIR")]
    pub repo_root: Option<PathBuf>,
    /// An item of spec.source.plugin.env; the plugin sees it as ARGOCD_ENV_NAME
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub env: Vec<(String, String)>,
    /// An item of spec.source.plugin.parameters; NAME[]=VALUE for lists, NAME[KEY]=VALUE for maps
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    pub param: Vec<Parameter>,
    /// Ask the server on this socket, ours or argocd-cmp-server, instead of one of its own
    #[arg(long, value_name = "SOCK")]
    pub socket: Option<PathBuf>,
    /// How the request is kept apart
    #[arg(long, env = "CMP_SUPERVISOR_ISOLATION", value_enum, default_value = "auto")]
    pub isolation: Isolation,
    /// How long the answer may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,
    /// Deepest path in the repository
    #[arg(long, value_name = "N", env = "CMP_SUPERVISOR_MAX_DEPTH", default_value_t = MAX_DEPTH)]
    pub max_depth: u32,
}

impl Application {
    /// Where definitions are.
    #[must_use]
    pub fn plugins_dir(&self) -> PathBuf {
        let here = Path::new("plugins.d");
        let default = || if here.is_dir() { here.into() } else { PLUGINS_DIR.into() };
        self.plugins_dir.clone().unwrap_or_else(default)
    }
}
