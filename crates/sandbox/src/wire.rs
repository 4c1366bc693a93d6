//! Messages between supervisor, spawner and worker, and types that all three
//! use. This folder uses no other folder of the crate.

pub(crate) mod account;
pub(crate) mod arguments;
pub(crate) mod ask_pass;
pub(crate) mod channel;
pub(crate) mod descriptors;
pub(crate) mod exceeded;
pub(crate) mod file_memory;
pub(crate) mod last_part;
pub(crate) mod message;
pub(crate) mod plan;
pub(crate) mod quarantine;
pub(crate) mod refusal;
pub(crate) mod shared;
pub(crate) mod shortage;
pub(crate) mod skeleton;
pub(crate) mod tier;
pub(crate) mod transient;
pub(crate) mod usage;
