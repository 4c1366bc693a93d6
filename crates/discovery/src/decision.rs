//! The result of deciding a pattern, and its explanation.

use std::fmt;

use super::{AppDirectory, FileIndex};

/// The result of deciding a pattern for an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The path of the first match, relative to the repository. It may lead
    /// through links.
    Match(Vec<u8>),
    /// Nothing matches.
    NoMatch,
}

impl Decision {
    /// The pattern matches.
    #[must_use]
    pub fn is_match(&self) -> bool {
        matches!(self, Self::Match(_))
    }

    /// The explanation for people.
    #[must_use]
    pub fn explain(&self, index: &FileIndex, app: &AppDirectory) -> Explanation {
        match self {
            Self::Match(path) => Explanation::Match { path: ShownPath(path.clone()) },
            Self::NoMatch => Explanation::NoMatch {
                files: index.files_below(app.path()),
                app: ShownPath(app.path().to_vec()),
            },
        }
    }
}

/// The explanation of a decision: `apps/keda/Chart.yaml matches`, or `matched 0
/// of 312 files under apps/keda`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Explanation {
    /// The first path that matches.
    Match {
        /// The path in the repository.
        path: ShownPath,
    },
    /// Nothing matched.
    NoMatch {
        /// Number of files and links below the application, at any depth.
        files: usize,
        /// The application's directory.
        app: ShownPath,
    },
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Match { path } => write!(f, "{path} matches"),
            Self::NoMatch { files, app } => write!(f, "matched 0 of {files} files under {app}"),
        }
    }
}

/// A path of the repository as text for people. The root is `.`. Bytes that are
/// not UTF-8 are replaced, and control characters are escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownPath(pub(super) Vec<u8>);

impl ShownPath {
    /// A path relative to the repository.
    #[must_use]
    pub fn new(path: &[u8]) -> Self {
        Self(path.to_vec())
    }
}

impl fmt::Display for ShownPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(".");
        }
        String::from_utf8_lossy(&self.0).chars().try_for_each(|character| {
            if character.is_control() {
                write!(f, "{}", character.escape_default())
            } else {
                write!(f, "{character}")
            }
        })
    }
}
