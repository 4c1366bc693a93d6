//! The messages between supervisor, spawner and worker, and the words that all
//! three share. Everything else in this crate builds on it; it builds on nothing.

pub(crate) mod channel;
pub(crate) mod exceeded;
pub(crate) mod message;
pub(crate) mod plan;
pub(crate) mod shared;
pub(crate) mod shortage;
pub(crate) mod tier;
