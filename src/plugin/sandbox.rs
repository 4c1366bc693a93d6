//! What a definition says of confinement: keys of our own, which Argo CD skips.

use std::{fmt, str::FromStr, time::Duration};

use super::variable::{self, VariablePattern};
use crate::settings::Limit;

/// How strongly a plugin wants its requests kept apart, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// Not at all.
    None,
    /// By the kernel's rules for files, processes and sockets.
    Landlock,
    /// That, and by users of their own.
    Uid,
    /// That, and by namespaces.
    Namespaces,
}

/// TCP ports a plugin may connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// These; none if there are none.
    Ports(Vec<u16>),
    /// All.
    Any,
}

/// A directory that requests of one plugin share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// What it is called.
    pub name: String,
    /// The variable that tells commands where it is.
    pub variable: String,
}

/// `spec.sandbox`. What is absent is as the operator of the sidecar has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// The plugin is not served with less.
    pub minimum_isolation: Option<Isolation>,
    /// Variables of the sidecar that commands see; `None` for all.
    pub variables: Option<Vec<VariablePattern>>,
    /// Ports to connect to.
    pub network: Option<Network>,
    /// Further paths to read.
    pub read: Vec<String>,
    /// Directories to keep between requests.
    pub caches: Vec<Cache>,
}

/// `spec.limits`. What is absent is as the operator of the sidecar has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time of a request, if that is less than the caller grants.
    pub timeout: Option<Duration>,
    /// Bytes of memory of each process, and of all together.
    pub memory: Option<Limit>,
    /// Processes at a time.
    pub processes: Option<Limit>,
    /// Seconds of processor time of each process.
    pub cpu: Option<Limit>,
    /// Bytes of each file.
    pub file_size: Option<Limit>,
    /// Bytes of all files together.
    pub disk: Option<Limit>,
    /// Files and directories.
    pub files: Option<Limit>,
    /// Bytes of standard output.
    pub output: Option<u64>,
    /// Requests at a time.
    pub requests: Option<u32>,
    /// Fewer manifests are an error: with automated pruning, none delete the
    /// application.
    pub minimum_manifests: usize,
}

impl Sandbox {
    /// Whether commands see the sidecar's variable of this name.
    #[must_use]
    pub fn admits(&self, name: &[u8]) -> bool {
        variable::admits(self.variables.as_deref(), name)
    }
}

impl Isolation {
    /// The words there are, the weakest first.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::None, "none"),
        (Self::Landlock, "landlock"),
        (Self::Uid, "uid"),
        (Self::Namespaces, "namespaces"),
    ];
}

impl fmt::Display for Isolation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::ALL.iter().find(|(isolation, _)| isolation == self);
        formatter.write_str(word.map_or("none", |(_, word)| word))
    }
}

impl FromStr for Isolation {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let known = Self::ALL.iter().find(|(_, word)| *word == text);
        known.map(|(isolation, _)| *isolation).ok_or(())
    }
}
