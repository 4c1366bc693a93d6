//! `spec.workspace`.

use cmp_archive::PathPattern;
use serde::Deserialize;

use super::{Judge, MAX_LIST, TOO_LONG, key};
use crate::plugin::{
    Workspace,
    manifest::{InvalidManifest, Step},
};

/// `spec.workspace`, field for field.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::plugin::manifest) struct WorkspaceManifest {
    include: Vec<String>,
    read_only: bool,
}

impl WorkspaceManifest {
    /// Converts the values. Invalid ones are reported.
    pub(in crate::plugin::manifest) fn define(
        self,
        faults: &mut Vec<InvalidManifest>,
    ) -> Workspace {
        let mut judge = Judge { section: "workspace", faults };
        if self.include.len() > MAX_LIST {
            judge.refuse([key("include")], TOO_LONG);
        }
        for (index, pattern) in self.include.iter().enumerate().take(MAX_LIST) {
            if let Err(expected) = PathPattern::new(pattern) {
                judge.refuse([key("include"), Step::Index(index)], expected.to_string());
            }
        }
        Workspace { include: self.include, read_only: self.read_only }
    }
}
