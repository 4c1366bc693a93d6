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
    for (index, (text, help)) in complaints.take(MAX_FOUND) {
        let path = Step::item("spec.parameters.static", index);
        let diagnostic = Diagnostic::new(Code::Announcement, text).help(help);
        found.push(diagnostic.at(locator.value(&path)));
    }
}

/// The mistake in an announcement, and its remedy.
fn complaint<'a>(
    announcement: Option<&'a Announcement>,
    names: &mut BTreeSet<&'a str>,
) -> Option<(String, &'static str)> {
    let Some(announcement) = announcement else {
        let text = "null announcement: argocd-cmp-server crashes on it";
        return Some((text.to_owned(), "remove it, or give it a name"));
    };
    let Announcement { name, collection_type, array, map, .. } = announcement;
    if name.is_empty() {
        return Some(("announcement without a name".to_owned(), "set its name"));
    }
    if !names.insert(name) {
        return Some((format!("`{name}` is announced twice"), "remove one, or rename it"));
    }
    if !COLLECTIONS.contains(&collection_type.as_str()) {
        let text = format!("`{name}`: collectionType must be string, array or map");
        return Some((text, "write one of these"));
    }
    if !array.is_empty() && collection_type != "array" {
        let text = format!("`{name}` has an array, but not `collectionType: array`");
        return Some((text, "add `collectionType: array`, or remove `array`"));
    }
    if !map.is_empty() && collection_type != "map" {
        let text = format!("`{name}` has a map, but not `collectionType: map`");
        return Some((text, "add `collectionType: map`, or remove `map`"));
    }
    None
}
