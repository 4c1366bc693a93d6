//! Arguments of `status`.

use clap::Args;

use super::{Target, TextFormat};

/// A running supervisor, and the format of its state.
#[derive(Args, Clone, Debug)]
pub struct Status {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Show it again every 2 s, with the last requests, until it is interrupted, or not read for 10 minutes
    #[arg(short, long, conflicts_with = "output")]
    pub(crate) watch: bool,
    /// Format of the result
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: TextFormat,
}
