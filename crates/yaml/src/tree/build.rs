//! Builds a tree from events.

use std::collections::HashMap;

use super::{Content, Data, Error, MAX_NODES, Parser, Value};
use crate::{
    event::{Event, EventKind, Scalar},
    scalar,
};

/// The nodes and the index of the root.
type Built = (Vec<Data>, usize);

/// A collection that is not complete, and its key that waits for a value.
struct Open {
    node: usize,
    key: Option<usize>,
}

#[derive(Default)]
pub(super) struct Builder {
    nodes: Vec<Data>,
    open: Vec<Open>,
    names: HashMap<Box<[u8]>, usize>,
    root: Option<usize>,
}

impl Builder {
    pub(super) fn build(mut self, mut parser: Parser<'_>) -> Result<Option<Built>, Error> {
        loop {
            let event = parser.next_event()?;
            let content = match event.kind {
                EventKind::Scalar(scalar) => scalar_content(&scalar, &parser),
                EventKind::SequenceStart => Content::Sequence(Vec::new()),
                EventKind::MappingStart => Content::Mapping(Vec::new()),
                EventKind::Alias(name) => self.alias(parser.text(name), &event)?,
                EventKind::SequenceEnd | EventKind::MappingEnd => {
                    self.close(event.end());
                    continue;
                }
                EventKind::DocumentStart => continue,
                EventKind::DocumentEnd | EventKind::StreamEnd => break,
            };
            let node = self.add(content, &event)?;
            if let Some(name) = event.anchor {
                self.names.insert(parser.text(name).into(), node);
            }
        }
        let nodes = self.nodes;
        Ok(self.root.map(|root| (nodes, root)))
    }

    fn alias(&self, name: &[u8], event: &Event) -> Result<Content, Error> {
        match self.names.get(name) {
            Some(&node) => Ok(Content::Alias(node)),
            None => Err(Error::unknown_anchor(name, event.place)),
        }
    }

    fn add(&mut self, content: Content, event: &Event) -> Result<usize, Error> {
        let node = self.nodes.len();
        if node >= MAX_NODES {
            return Err(Error::limit(format!("the document has more than {MAX_NODES} nodes")));
        }
        let is_collection = matches!(content, Content::Sequence(_) | Content::Mapping(_));
        self.nodes.push(Data { start: event.place, end: event.end(), content });
        self.attach(node);
        if is_collection {
            self.open.push(Open { node, key: None });
        }
        Ok(node)
    }

    fn attach(&mut self, node: usize) {
        let Some(open) = self.open.last_mut() else {
            self.root.get_or_insert(node);
            return;
        };
        match self.nodes.get_mut(open.node).map(|data| &mut data.content) {
            Some(Content::Sequence(items)) => items.push(node),
            Some(Content::Mapping(entries)) => match open.key.take() {
                Some(key) => entries.push((key, node)),
                None => open.key = Some(node),
            },
            Some(Content::Scalar { .. } | Content::Alias(_)) | None => {}
        }
    }

    fn close(&mut self, end: usize) {
        let node = self.open.pop().and_then(|open| self.nodes.get_mut(open.node));
        if let Some(node) = node {
            node.end = end;
        }
    }
}

/// A scalar whose tag does not fit its text counts as a string here.
fn scalar_content(scalar: &Scalar, parser: &Parser<'_>) -> Content {
    let text = parser.text(scalar.text);
    let value = scalar::resolve(scalar, text).unwrap_or(Value::Str);
    let is_merge = scalar::is_merge(scalar, text);
    let text = String::from_utf8_lossy(text).into();
    Content::Scalar { text, style: scalar.style, value, is_merge }
}
