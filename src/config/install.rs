//! Arguments of `install`.

use std::path::PathBuf;

use clap::Args;

/// A directory of another container.
#[derive(Args, Clone, Debug)]
pub struct Install {
    /// Directory to copy the program to; created if it is missing
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}
