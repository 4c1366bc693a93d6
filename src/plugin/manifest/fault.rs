//! Why a text is not a plugin definition.

use cmp_discovery::{InvalidPattern, PatternKind};
use thiserror::Error;

use super::{Step, shape::at};
use crate::plugin::{Code, InvalidName};

/// Why a text is not a plugin definition.
#[derive(Debug, Error)]
pub enum InvalidManifest {
    /// Not YAML.
    #[error(transparent)]
    Yaml(cmp_yaml::Error),
    /// Not what the decoder of the typed form takes.
    #[error(transparent)]
    Json(serde_json::Error),
    /// What a command printed is not JSON. Go's text.
    #[error("{0}")]
    Printed(String),
    /// A value of the wrong type.
    #[error("{message}")]
    Type {
        /// Where it stands.
        path: Vec<Step>,
        /// Go's text.
        message: String,
        /// What it should be.
        wanted: String,
        /// What it is.
        found: &'static str,
    },
    /// `metadata.name` is empty.
    #[error("invalid plugin configuration file. metadata.name should be non-empty")]
    NoName,
    /// `kind` is another one.
    #[error(
        "invalid plugin configuration file. kind should be ConfigManagementPlugin, found {found}"
    )]
    Kind {
        /// What `kind` says.
        found: String,
    },
    /// Nothing to generate manifests with.
    #[error("invalid plugin configuration file. spec.generate command should be non-empty")]
    NoGenerate,
    /// A key of ours that does not exist.
    #[error("{} is not known; there are: {}", at(path), known.join(", "))]
    Unknown {
        /// Where it stands.
        path: Vec<Step>,
        /// The keys that exist there.
        known: Vec<&'static str>,
    },
    /// An invalid value of ours.
    #[error("invalid value for {}: expected {expected}", at(path))]
    Value {
        /// Where it stands.
        path: Vec<Step>,
        /// Valid values, in words.
        expected: String,
    },
    /// The name cannot be that of a socket.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The pattern of discovery matches nothing, ever.
    #[error(transparent)]
    Pattern(#[from] InvalidPattern),
}

impl InvalidManifest {
    /// Which kind of trouble it is.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Yaml(error) => match error.cause() {
                cmp_yaml::Cause::Encoding => Code::Encoding,
                cmp_yaml::Cause::Limit => Code::TooDeep,
                cmp_yaml::Cause::Syntax | cmp_yaml::Cause::Value | cmp_yaml::Cause::Json => {
                    Code::Syntax
                }
            },
            // Argo CD's JSON is JSON: only its depth can be too much for us.
            Self::Json(error) if error.is_syntax() => Code::TooDeep,
            Self::Printed(_) => Code::Syntax,
            Self::Json(_) | Self::Type { .. } => Code::Type,
            Self::NoName => Code::NoName,
            // Not looked into where only one definition is expected.
            Self::Kind { found } if found == "ConfigMap" => Code::Wrapped,
            Self::Kind { .. } => Code::Kind,
            Self::NoGenerate => Code::NoGenerate,
            Self::Unknown { .. } => Code::UnknownOwnKey,
            Self::Value { .. } => Code::InvalidValue,
            Self::Name(_) => Code::Name,
            Self::Pattern(_) => Code::Pattern,
        }
    }

    /// The value to blame.
    #[must_use]
    pub fn path(&self) -> Vec<Step> {
        let keys = |path: &str| path.split('.').map(|key| Step::Key(key.to_owned())).collect();
        match self {
            Self::Yaml(_) | Self::Json(_) | Self::Printed(_) => Vec::new(),
            Self::Type { path, .. } | Self::Unknown { path, .. } | Self::Value { path, .. } => {
                path.clone()
            }
            Self::NoName => keys("metadata.name"),
            Self::Kind { .. } => keys("kind"),
            Self::NoGenerate => keys("spec.generate.command"),
            Self::Name(error) => keys(error.field()),
            Self::Pattern(error) => keys(match error.kind {
                PatternKind::FileName => "spec.discover.fileName",
                PatternKind::Glob => "spec.discover.find.glob",
            }),
        }
    }
}
