//! Arguments of `probe`.

use clap::{Args, ValueEnum};

use super::Target;

/// A health check of a running supervisor.
#[derive(Args, Clone, Debug)]
pub struct Probe {
    /// Health check to make
    #[arg(value_enum)]
    pub(crate) check: Check,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// A health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// the supervisor answers
    Live,
    /// the supervisor serves its plugins
    Ready,
}

impl Check {
    /// The path of its page.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Live => "/livez",
            Self::Ready => "/readyz",
        }
    }
}
