//! The result of reading one part of a file.

use crate::plugin::{Diagnostic, Place, PluginDefinition, Region};

/// Result of reading one part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The part of the file.
    pub place: Place,
    /// Present if and only if no diagnostic is an error.
    pub definition: Option<PluginDefinition>,
    /// Region of `metadata.name`, or of its parent if it is missing.
    pub name_region: Option<Region>,
    /// Region of `minimumIsolation`, or of its parent if it is missing.
    pub isolation_region: Option<Region>,
    /// Region of each command's program, with the path of the command's key.
    pub program_regions: Vec<(&'static str, Region)>,
    /// Problems and notes, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// True if this part may have nothing to do with plugins. It matters only if
    /// there was a definition in it.
    pub is_doubtful: bool,
}

impl Reading {
    /// A part without a definition, with the reason.
    #[must_use]
    pub fn refused(place: Place, reason: Diagnostic) -> Self {
        Self {
            place,
            definition: None,
            name_region: None,
            isolation_region: None,
            program_regions: Vec::new(),
            diagnostics: vec![reason],
            is_doubtful: false,
        }
    }
}
