//! Arguments of `bundle`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{TextFormat, argument::Described as _, work_dir};
use crate::settings;

/// List, show and copy failed requests that `serve --keep-failed` has kept
#[derive(Args, Clone, Debug)]
pub struct Bundle {
    /// The use.
    #[command(subcommand)]
    pub action: BundleAction,
    #[arg(described = &settings::WORK_DIR, help_heading = None, global = true)]
    pub(super) work_dir: Option<PathBuf>,
}

/// The use of bundles.
#[derive(Clone, Debug, Subcommand)]
pub enum BundleAction {
    /// List the failed requests, the latest first
    List {
        /// Output format of the list
        #[arg(short, long, value_enum, default_value = "text")]
        output: TextFormat,
    },
    /// Show a failed request: metadata, limits, and what its commands wrote
    Show {
        /// ID of the request, as in its log line
        id: String,
    },
    /// Write a bundle to standard output, for `render --from-bundle`
    Get {
        /// ID of the request, as in its log line
        id: String,
    },
}

impl Bundle {
    /// The work directory of the supervisor.
    #[must_use]
    pub fn work_dir(&self) -> PathBuf {
        work_dir(self.work_dir.as_deref())
    }
}
