//! The part of a file that contains a definition.

use std::fmt;

/// The path of a definition inside its file, outermost part first.
///
/// It identifies a definition while its text is invalid: the last good
/// definition at the same place stays in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(Vec<Part>);

/// A step of a [`Place`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// A document, counted from 1.
    Document(usize),
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

    /// True if `inner` is this place or inside it.
    #[must_use]
    pub fn holds(&self, inner: &Self) -> bool {
        inner.0.starts_with(&self.0)
    }

    /// The key of the `ConfigMap` that it is in, with the place of this key.
    #[must_use]
    pub fn key(&self) -> Option<(&str, Self)> {
        let index = self.0.iter().position(|part| matches!(part, Part::Key(_)))?;
        match self.0.get(index)? {
            Part::Key(key) => Some((key, Self(self.0.iter().take(index + 1).cloned().collect()))),
            Part::Document(_) | Part::Item(_) => None,
        }
    }
}

/// Empty for the first document of a file, where most definitions are.
impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.0.iter().filter(|part| **part != Part::Document(1));
        parts.enumerate().try_for_each(|(number, part)| {
            if number > 0 {
                formatter.write_str(", ")?;
            }
            match part {
                Part::Document(document) => write!(formatter, "document {document}"),
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
    }
}
