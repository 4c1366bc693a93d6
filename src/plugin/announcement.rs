//! A parameter that a plugin announces to Argo CD's user interface.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A parameter that an Application can set. Field names are those of Argo CD's API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Announcement {
    /// The parameter's name.
    pub name: String,
    /// The name that the user interface shows.
    pub title: String,
    /// Help text shown on hover.
    pub tooltip: String,
    /// True if an Application must set it.
    pub required: bool,
    /// `string`, `number` or `boolean`; Argo CD does not check it.
    pub item_type: String,
    /// `string`, `array`, `map` or empty; Argo CD does not check it.
    pub collection_type: String,
    /// The default of a string parameter.
    pub string: String,
    /// The default of an array parameter.
    pub array: Vec<String>,
    /// The default of a map parameter.
    pub map: BTreeMap<String, String>,
}
