//! Warnings about announcements that Argo CD's user interface cannot show.

use std::collections::BTreeSet;

use super::MAX_FOUND;
use crate::plugin::{
    Announcement, Code, Diagnostic, PluginDefinition, locator::Locator, manifest::Step,
};

/// The valid values of `collectionType`; an empty one means `string`.
const COLLECTIONS: [&str; 4] = ["", "string", "array", "map"];

pub(super) fn lint(
    definition: &PluginDefinition,
    locator: &Locator<'_>,
    found: &mut Vec<Diagnostic>,
) {
    let mut names = BTreeSet::new();
    let announcements = definition.announcements.iter().enumerate();
    let complaints = announcements.filter_map(|(index, announcement)| {
        Some((index, complaint(announcement.as_ref(), &mut names)?))
    });
    for (index, text) in complaints.take(MAX_FOUND) {
        let path = Step::item("spec.parameters.static", index);
        found.push(Diagnostic::new(Code::Announcement, text).at(locator.value(&path)));
    }
}

fn complaint<'a>(
    announcement: Option<&'a Announcement>,
    names: &mut BTreeSet<&'a str>,
) -> Option<String> {
    let Some(announcement) = announcement else {
        return Some("null announcement: argocd-cmp-server crashes on it".into());
    };
    let Announcement { name, collection_type, array, map, .. } = announcement;
    if name.is_empty() {
        return Some("announcement without a name".into());
    }
    if !names.insert(name) {
        return Some(format!("`{name}` is announced twice"));
    }
    if !COLLECTIONS.contains(&collection_type.as_str()) {
        return Some(format!("`{name}`: collectionType must be string, array or map"));
    }
    if !array.is_empty() && collection_type != "array" {
        return Some(format!("`{name}` has an array, but not `collectionType: array`"));
    }
    if !map.is_empty() && collection_type != "map" {
        return Some(format!("`{name}` has a map, but not `collectionType: map`"));
    }
    None
}
