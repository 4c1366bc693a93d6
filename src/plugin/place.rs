//! The part of a file that contains a definition.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The path of a definition inside its file, outermost part first.
///
/// It identifies a definition while its text is invalid: the last good
/// definition at the same place stays in use.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place(Vec<Part>);

/// A step of a [`Place`].
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Part {
    /// A document, counted from 1.
    Document(usize),
    /// A document and all behind it, because the text may be cut off in it.
    Rest(usize),
    /// An item of a list, counted from 0.
    Item(usize),
    /// A key of a `ConfigMap`'s `data`.
    Key(String),
}

impl Place {
    /// This place with one more part.
    #[must_use]
    pub fn with(&self, part: Part) -> Self {
        Self(self.0.iter().cloned().chain([part]).collect())
    }

    /// `inner`, which is in a document of this text, and all of the text from this
    /// document on.
    #[must_use]
    pub(super) fn rest_from(&self, inner: &Self) -> Self {
        let part = |(index, part): (usize, &Part)| match part {
            Part::Document(document) if index == self.0.len() => Part::Rest(*document),
            Part::Document(_) | Part::Rest(_) | Part::Item(_) | Part::Key(_) => part.clone(),
        };
        Self(inner.0.iter().enumerate().map(part).collect())
    }

    /// True if `inner` is this place or inside it, or in the rest that this place includes.
    #[must_use]
    pub fn holds(&self, inner: &Self) -> bool {
        let mut parts = self.0.iter().zip(&inner.0).skip_while(|(part, inner)| part == inner);
        match parts.next() {
            Some((Part::Rest(first), Part::Document(document))) => document >= first,
            Some(_) => false,
            None => self.0.len() <= inner.0.len(),
        }
    }

    /// True for a document of the file itself, which is in no list and no `ConfigMap`.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Document(_) | Part::Rest(_)))
    }

    /// The key of the `ConfigMap` that it is in, with the place of this key.
    #[must_use]
    pub fn key(&self) -> Option<(&str, Self)> {
        let index = self.0.iter().position(|part| matches!(part, Part::Key(_)))?;
        match self.0.get(index)? {
            Part::Key(key) => Some((key, Self(self.0.iter().take(index + 1).cloned().collect()))),
            Part::Document(_) | Part::Rest(_) | Part::Item(_) => None,
        }
    }
}

/// Empty for the first document of a file, where most definitions are.
impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_first = |part: &Part| matches!(part, Part::Document(1) | Part::Rest(1));
        let parts = self.0.iter().filter(|part| !is_first(part));
        parts.enumerate().try_for_each(|(number, part)| {
            if number > 0 {
                formatter.write_str(", ")?;
            }
            match part {
                Part::Document(document) | Part::Rest(document) => {
                    write!(formatter, "document {document}")
                }
                Part::Item(item) => write!(formatter, "items[{item}]"),
                Part::Key(key) => write!(formatter, "data[{key}]"),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_outermost_part_first_without_document_1() {
        let first = Place::default().with(Part::Document(1));
        assert_eq!(first.to_string(), "");
        let key = first.with(Part::Key("a.yaml".into()));
        assert_eq!(key.with(Part::Document(2)).to_string(), "data[a.yaml], document 2");
        assert!(first.holds(&key) && !key.holds(&first));
        assert!(first.is_plain() && !key.is_plain() && !first.with(Part::Item(0)).is_plain());
    }

    #[test]
    fn the_rest_of_a_text_has_its_last_documents() {
        let key = Place::default().with(Part::Document(1)).with(Part::Key("a.yaml".into()));
        let document = |number| key.with(Part::Document(number));
        let rest = key.with(Part::Rest(2));
        assert_eq!(rest.to_string(), document(2).to_string());
        let held = [1, 2, 3].map(|number| rest.holds(&document(number).with(Part::Item(0))));
        assert_eq!(held, [false, true, true]);
        assert!(!rest.holds(&key) && Place::default().holds(&rest));
        let all = Place::default().rest_from(&rest);
        assert_eq!(all.to_string(), "data[a.yaml], document 2");
        assert!(all.holds(&key) && all.holds(&Place::default().with(Part::Document(2))));
    }
}
