//! The answer to "does this plugin claim the application?", and why.

use std::fmt;

use super::{AppDirectory, FileIndex};

/// What a pattern says of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Something matches: its path in the repository, by the way it was found,
    /// which may lead through links.
    Match(Vec<u8>),
    /// Nothing matches.
    NoMatch,
}

impl Verdict {
    /// Whether something matches.
    #[must_use]
    pub fn is_match(&self) -> bool {
        matches!(self, Self::Match(_))
    }

    /// The reason, in words.
    #[must_use]
    pub fn explain(&self, index: &FileIndex, app: &AppDirectory) -> Explanation {
        match self {
            Self::Match(path) => Explanation::Match { path: Shown(path.clone()) },
            Self::NoMatch => Explanation::NoMatch {
                files: index.files_below(app.path()),
                app: Shown(app.path().to_vec()),
            },
        }
    }
}

/// Why a verdict is what it is, for people: `apps/keda/Chart.yaml matches`,
/// `matched 0 of 312 files under apps/keda`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Explanation {
    /// The first path that matches.
    Match {
        /// In the repository.
        path: Shown,
    },
    /// How much was searched in vain.
    NoMatch {
        /// Files and links below the application, at any depth.
        files: usize,
        /// The application's directory.
        app: Shown,
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

/// A path of the repository as people read it: `.` for its root, what is not
/// UTF-8 replaced, control characters escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown(pub(super) Vec<u8>);

impl Shown {
    /// A path as it stands.
    #[must_use]
    pub fn new(path: &[u8]) -> Self {
        Self(path.to_vec())
    }
}

impl fmt::Display for Shown {
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
