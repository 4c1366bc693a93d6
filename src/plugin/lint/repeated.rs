//! Warnings about repeated keys.

use std::collections::BTreeMap;

use cmp_yaml::tree::Node;

use super::MAX_FOUND;
use crate::plugin::{Code, Diagnostic, Related, diagnose::shown, locator::Locator};

/// Most nodes that are visited; aliases can multiply them.
const MAX_NODES: usize = 10_000;

pub(super) fn lint(locator: &Locator<'_>, found: &mut Vec<Diagnostic>) {
    let mut open: Vec<Node<'_>> = locator.root().into_iter().collect();
    let (mut looked_at, most) = (0, found.len() + MAX_FOUND);
    while let Some(node) = open.pop()
        && looked_at < MAX_NODES
    {
        looked_at += 1;
        let mut seen = BTreeMap::new();
        for (key, value) in node.entries().take(MAX_NODES) {
            open.push(value);
            let Some(name) = key.text().filter(|_| !key.is_merge()) else { continue };
            let Some(first) = seen.insert(name, key) else { continue };
            if found.len() == most {
                return;
            }
            found.push(diagnostic(locator, first, key));
        }
        open.extend(node.items().take(MAX_NODES));
    }
}

fn diagnostic(locator: &Locator<'_>, first: Node<'_>, last: Node<'_>) -> Diagnostic {
    let name = shown(last.text().unwrap_or_default());
    let related = Related {
        file: String::new(),
        region: Some(locator.region(first)),
        label: "ignored".into(),
    };
    let diagnostic = Diagnostic::new(Code::RepeatedKey, format!("`{name}` appears twice"))
        .at(Some(locator.region(last)))
        .label("this value is used")
        .help("remove one of them");
    Diagnostic { related: vec![related], ..diagnostic }
}
