//! What a plugin is: definitions, their names, and the set of them.
//!
//! Everything here is plain data that was parsed once and cannot be wrong
//! afterwards; nothing here knows of files, sockets or processes.

mod announcement;
mod catalog;
mod definition;
mod manifest;
mod name;
mod quantity;
mod sandbox;

pub use announcement::Announcement;
pub use catalog::Catalog;
pub use definition::{CommandLine, Discovery, PluginDefinition};
pub use manifest::{InvalidManifest, Step, read, read_announcements};
pub use name::{InvalidName, PluginName};
pub use sandbox::{Cache, Isolation, Limits, Network, Sandbox};
