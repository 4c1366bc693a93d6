//! How strongly requests are kept apart.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The tiers there are, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Nothing: every request runs as the same user and may do what that may.
    None,
    /// The same user, but the kernel keeps every request to its own files,
    /// processes and sockets (Landlock, seccomp).
    Landlock,
    /// That, and a user of its own for every request.
    Uid,
    /// That, and process, mount and IPC namespaces of its own.
    Namespaces,
}

impl Tier {
    /// All tiers, the strongest first.
    pub const ALL: [Self; 4] = [Self::Namespaces, Self::Uid, Self::Landlock, Self::None];

    /// The word for it on the command line, in logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Landlock => "landlock",
            Self::Uid => "uid",
            Self::Namespaces => "namespaces",
        }
    }

    /// Whether no two live requests have the same user.
    #[must_use]
    pub fn has_users(self) -> bool {
        matches!(self, Self::Uid | Self::Namespaces)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_ordered_by_strength() {
        assert!(Tier::Namespaces > Tier::Uid && Tier::Uid > Tier::Landlock);
        assert!(Tier::Landlock > Tier::None);
    }
}
