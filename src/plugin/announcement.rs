//! A parameter that a plugin announces to Argo CD's user interface.

use std::collections::BTreeMap;

/// One parameter an Application may set. Field names are those of Argo CD's API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    /// What the parameter is called.
    pub name: String,
    /// A name for people.
    pub title: String,
    /// Help shown on hover.
    pub tooltip: String,
    /// Whether an Application must set it.
    pub required: bool,
    /// `string`, `number` or `boolean`; Argo CD does not check it.
    pub item_type: String,
    /// Empty or `string`, `array`, `map`; Argo CD does not check it.
    pub collection_type: String,
    /// The default of a plain parameter.
    pub string: String,
    /// The default of an array parameter.
    pub array: Vec<String>,
    /// The default of a map parameter.
    pub map: BTreeMap<String, String>,
}
