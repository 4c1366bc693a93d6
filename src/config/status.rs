//! Arguments of `status`.

use clap::Args;

use super::{Target, TextFormat};

/// A running supervisor, and the format of its state.
#[derive(Args, Clone, Debug)]
pub struct Status {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Format of the result
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: TextFormat,
}
