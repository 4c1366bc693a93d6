//! Errors of a plugin definition.

use cmp_discovery::{InvalidPattern, PatternKind};
use thiserror::Error;

use super::{Step, shape::at};
use crate::plugin::{Code, InvalidName};

/// An error of a plugin definition.
#[derive(Debug, Error)]
pub enum InvalidManifest {
    /// Invalid YAML.
    #[error(transparent)]
    Yaml(cmp_yaml::Error),
    /// A value that the decoder of the typed fields refuses.
    #[error(transparent)]
    Json(serde_json::Error),
    /// A command printed invalid JSON. The text is Go's.
    #[error("{0}")]
    Printed(String),
    /// A value of the wrong type.
    #[error("{message}")]
    Type {
        /// Path of the key or value.
        path: Vec<Step>,
        /// Go's text.
        message: String,
        /// The expected type.
        wanted: String,
        /// The type found.
        found: &'static str,
    },
    /// `metadata.name` is empty.
    #[error("invalid plugin configuration file. metadata.name should be non-empty")]
    NoName,
    /// `kind` has another value.
    #[error(
        "invalid plugin configuration file. kind should be ConfigManagementPlugin, found {found}"
    )]
    Kind {
        /// The value of `kind`.
        found: String,
    },
    /// `spec.generate.command` is empty.
    #[error("invalid plugin configuration file. spec.generate command should be non-empty")]
    NoGenerate,
    /// An unknown key in a section of cmp-supervisor, or the misspelt name of one.
    #[error("unknown key {}: valid keys: {}", at(path), known.join(", "))]
    Unknown {
        /// Path of the key or value.
        path: Vec<Step>,
        /// The keys that exist there.
        known: Vec<&'static str>,
    },
    /// An invalid value in `spec.sandbox` or `spec.limits`.
    #[error("invalid value for {}: expected {expected}", at(path))]
    Value {
        /// Path of the key or value.
        path: Vec<Step>,
        /// Valid values, in words.
        expected: String,
    },
    /// A word of a command has a NUL byte, which ends each argument of a process.
    #[error("{} has a NUL byte: a process cannot get one", at(path))]
    Nul {
        /// Path of the word.
        path: Vec<Step>,
    },
    /// The name cannot be the name of a socket.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The discovery pattern never matches.
    #[error(transparent)]
    Pattern(#[from] InvalidPattern),
}

impl InvalidManifest {
    /// The code of its diagnostic.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Yaml(error) => match error.cause() {
                cmp_yaml::Cause::Encoding => Code::Encoding,
                cmp_yaml::Cause::Complexity | cmp_yaml::Cause::Limit | cmp_yaml::Cause::Stopped => {
                    Code::TooComplex
                }
                cmp_yaml::Cause::Syntax | cmp_yaml::Cause::Value | cmp_yaml::Cause::Json => {
                    Code::Syntax
                }
            },
            // The JSON comes from our converter, so only its nesting can be wrong.
            Self::Json(error) if error.is_syntax() => Code::TooComplex,
            Self::Printed(_) => Code::Syntax,
            Self::Json(_) | Self::Type { .. } => Code::Type,
            Self::NoName => Code::NoName,
            // `read_first` does not read definitions inside a ConfigMap.
            Self::Kind { found } if found == "ConfigMap" => Code::ConfigMap,
            Self::Kind { .. } => Code::Kind,
            Self::NoGenerate => Code::NoGenerate,
            Self::Unknown { .. } => Code::UnknownOwnKey,
            Self::Value { .. } => Code::InvalidValue,
            Self::Nul { .. } => Code::Nul,
            Self::Name(_) => Code::Name,
            Self::Pattern(_) => Code::Pattern,
        }
    }

    /// Path of the value that causes the error.
    #[must_use]
    pub fn path(&self) -> Vec<Step> {
        match self {
            Self::Yaml(_) | Self::Json(_) | Self::Printed(_) => Vec::new(),
            Self::Type { path, .. }
            | Self::Unknown { path, .. }
            | Self::Value { path, .. }
            | Self::Nul { path } => path.clone(),
            Self::NoName => Step::path("metadata.name"),
            Self::Kind { .. } => Step::path("kind"),
            Self::NoGenerate => Step::path("spec.generate.command"),
            Self::Name(error) => Step::path(error.field()),
            Self::Pattern(error) => Step::path(match error.kind {
                PatternKind::FileName => "spec.discover.fileName",
                PatternKind::Glob => "spec.discover.find.glob",
            }),
        }
    }
}
