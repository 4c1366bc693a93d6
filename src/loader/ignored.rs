//! Entries of a plugins directory that are ignored.

use std::fmt;

use crate::plugin::{Code, Diagnostic};

/// An entry of a plugins directory that is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ignored {
    /// Its path in the directory.
    pub(crate) name: String,
    /// The reason.
    pub(crate) reason: Exclusion,
}

/// Reason for ignoring an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exclusion {
    Encoding,
    Reserved,
    Extension,
    Directory,
    Depth,
    Unmanaged,
}

impl Ignored {
    /// A note on the entry.
    pub(crate) fn diagnostic(&self) -> Diagnostic {
        Diagnostic::new(Code::Ignored, format!("ignored: {}", self.reason))
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Encoding => "its name is not UTF-8",
            Self::Reserved => "names that begin with two dots are reserved for Kubernetes",
            Self::Extension => "its name does not end in .yaml, .yml or .json",
            Self::Directory => "directories are read only in ConfigMap volumes",
            Self::Depth => "the directory is nested too deeply",
            Self::Unmanaged => "kubelet did not put it into this ConfigMap volume",
        })
    }
}
