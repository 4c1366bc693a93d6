//! Arguments of `validate` and `explain`.

#![expect(clippy::doc_markdown, reason = "help texts are not Markdown")]

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Check plugin definitions: files, directories, ConfigMaps, kustomize's output.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Exit codes: 0 nothing is wrong, 1 errors, 2 usage, 3 warnings with --deny-warnings.

Examples:
  cmp-supervisor validate plugins.d
  kustomize build overlays/prod | cmp-supervisor validate -
  cmp-supervisor validate plugins.d --against /mnt/served/plugins.d")]
pub struct Validate {
    /// Files, directories as serve would read them, or - for standard input
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Definitions that are served now: show the effect of a reload
    #[arg(long, value_name = "PATH")]
    pub against: Vec<PathBuf>,
    /// Format of the report
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: ReportFormat,
    /// Fail if there are warnings
    #[arg(long)]
    pub deny_warnings: bool,
}

/// Format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people, with the text around each place.
    Text,
    /// For programs.
    Json,
    /// Annotations of a workflow on GitHub.
    Github,
    /// For code scanning: SARIF 2.1.0.
    Sarif,
}

/// Explain a diagnostic, or list all of them.
#[derive(Args, Clone, Debug)]
pub struct Explain {
    /// The diagnostic's code, like CMP0104
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
}
