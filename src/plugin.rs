//! Plugin definitions: parsing, checking, names, and the set of all plugins.
//!
//! Input is parsed once into types that cannot hold invalid values. This module
//! does not access files, sockets or processes.

mod address;
mod announcement;
mod catalog;
mod code;
mod confinement;
mod definition;
mod diagnose;
mod diagnostic;
mod document;
mod lint;
mod locator;
mod manifest;
mod name;
mod passage;
mod place;
mod problem;
mod readings;
mod suggestion;
mod variable;
mod wrapper;

pub(crate) use address::{Address, addresses, open_ports};
pub use announcement::Announcement;
pub use catalog::Catalog;
#[cfg(test)]
pub(crate) use catalog::{catalog_of, definition_of};
pub use code::{Code, Severity};
pub(crate) use confinement::TOKENS;
pub use confinement::{Limits, Sandbox, Workspace};
pub use definition::{CommandLine, Discovery, PluginDefinition};
pub use diagnostic::{Diagnostic, Region, Related};
pub(crate) use document::split as documents;
pub(crate) use lint::{file_names, fixed_path, paths, precedes_script, shell_name, without_shell};
pub use manifest::{InvalidManifest, Step, read_announcements, schema};
pub(crate) use manifest::{folds_to, may_name_cache};
pub use name::{DEFAULT_SOCKET_DIR, InvalidName, MAX_SOCKET_PATH, PluginName, SOCKET_SUFFIX};
pub use place::{Part, Place};
pub use problem::Problem;
pub use readings::{MAX_DEFINITIONS, Reading, read_all, read_first};
pub(crate) use suggestion::nearest;
pub use variable::VariablePattern;
pub(crate) use wrapper::wrapper;
