//! Levels of isolation.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Isolation tiers, from the weakest to the strongest.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, prost::Enumeration,
)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// No isolation: every request runs under the same UID with all its rights.
    None = 0,
    /// Same UID, but Landlock and seccomp restrict every request to its own
    /// files, processes and sockets.
    Landlock = 1,
    /// As `Landlock`, and every request has its own UID.
    Uid = 2,
    /// As `Uid`, and every request has its own process, mount and IPC
    /// namespaces.
    Namespaces = 3,
}

impl Tier {
    /// All tiers, the strongest first.
    pub const ALL: [Self; 4] = [Self::Namespaces, Self::Uid, Self::Landlock, Self::None];

    /// Name of the tier on the command line, in logs and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Landlock => "landlock",
            Self::Uid => "uid",
            Self::Namespaces => "namespaces",
        }
    }

    /// Returns true if no two running requests have the same UID.
    #[must_use]
    pub fn has_own_uids(self) -> bool {
        matches!(self, Self::Uid | Self::Namespaces)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The demand for an ability that is not part of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
pub enum Demand {
    /// Use it if it is available.
    Auto = 0,
    /// Do not start without it.
    Require = 1,
    /// Do not use it.
    Off = 2,
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
