//! Why the spawner cannot give the isolation that was asked for.

use prost::Message;
use serde::{Deserialize, Serialize};

use super::tier::Tier;

/// Why the spawner cannot do what it was set up for.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Unfitness {
    /// All of it, as a sentence.
    #[prost(string, tag = "1")]
    pub(crate) reason: String,
    /// For each tier that was asked for, if that is the reason.
    #[prost(message, repeated, tag = "2")]
    pub(crate) shortages: Vec<Shortage>,
}

/// Why a tier is not available.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Shortage {
    #[prost(enumeration = "Tier", tag = "1")]
    pub(crate) tier: i32,
    #[prost(enumeration = "Need", tag = "2")]
    pub(crate) need: i32,
    #[prost(string, tag = "3")]
    pub(crate) reason: String,
}

/// The missing requirement of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// Another requirement; the reason names it.
    Other = 0,
    /// A capability of the container.
    Capability = 1,
    /// Landlock, or a newer version of it.
    Landlock = 2,
}
