//! Which part of a file holds a definition.

use std::fmt;

/// A way into a file, from the outside to the inside.
///
/// It is a definition's identity as long as its text is broken: what was good
/// at a place before is what its author still means to have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(Vec<Part>);

/// A step of a [`Place`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// To a document, counted from 1.
    Document(usize),
    /// To an item of a list, counted from 0.
    Item(usize),
    /// To a value of a `ConfigMap`'s `data`.
    Key(String),
}

impl Place {
    /// The place a step further in.
    #[must_use]
    pub fn with(&self, part: Part) -> Self {
        Self(self.0.iter().cloned().chain([part]).collect())
    }

    /// Whether `inner` is this place or in it.
    #[must_use]
    pub fn holds(&self, inner: &Self) -> bool {
        inner.0.starts_with(&self.0)
    }

    /// Whether it is in a `ConfigMap`.
    #[must_use]
    pub fn is_wrapped(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Key(_)))
    }
}

/// Nothing for the first document of a file, which is the usual one.
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
    fn a_place_is_named_from_the_outside_and_the_first_document_goes_without_saying() {
        let first = Place::default().with(Part::Document(1));
        assert_eq!(first.to_string(), "");
        let key = first.with(Part::Key("a.yaml".into()));
        assert_eq!(key.with(Part::Document(2)).to_string(), "data[a.yaml], document 2");
        assert!(first.holds(&key) && !key.holds(&first) && key.is_wrapped());
    }
}
