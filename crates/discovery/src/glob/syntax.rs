//! Parser for the part of Go's `regexp` syntax that globs produce.

use super::class::{Class, Side};
use super::{Fault, PatternFault};

/// A set of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Matcher {
    Character(char),
    /// `.`: in Go it does not match a line feed.
    AnyButLineFeed,
    /// `[^/]`.
    AnyButSlash,
    Class(Class),
}

/// A part of an expression.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    One(Matcher),
    /// Any number of matching characters.
    Many(Matcher),
    Group {
        alternatives: Vec<Vec<Piece>>,
        is_optional: bool,
    },
}

/// Reads an expression that ends with `$`. An error's offset is an offset in
/// `text`.
pub(super) fn parse(text: &str) -> Result<Vec<Piece>, Fault> {
    let mut reader = Reader { text, at: 0 };
    let pieces = reader.sequence()?;
    match reader.peek() {
        Some('$') => Ok(pieces),
        _ => Err(reader.fault(format!("unexpected ): `^{text}`"))),
    }
}

impl Matcher {
    /// The set contains `character`.
    pub(super) fn takes(&self, character: char) -> bool {
        match self {
            Self::Character(wanted) => *wanted == character,
            Self::AnyButLineFeed => character != '\n',
            Self::AnyButSlash => character != '/',
            Self::Class(class) => class.contains(character),
        }
    }
}

impl Piece {
    /// Two of this piece in a row match the same as one. The only optional
    /// group is that of `**/`, which matches any number of directories.
    fn is_any_number(&self) -> bool {
        match self {
            Self::One(_) => false,
            Self::Many(_) => true,
            Self::Group { is_optional, .. } => *is_optional,
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    fn skip_if(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn fault(&self, text: String) -> Fault {
        Fault { offset: self.at, fault: PatternFault::Expression(text) }
    }

    /// Reads pieces up to the end of a sequence.
    fn sequence(&mut self) -> Result<Vec<Piece>, Fault> {
        let mut pieces = Vec::new();
        while let Some(next) = self.peek() {
            let piece = match next {
                '$' | ')' | '|' => break,
                '(' => self.group()?,
                _ => self.matcher()?,
            };
            // Repeated stars are dropped. Otherwise the program's size would be
            // quadratic in their number.
            if !(piece.is_any_number() && pieces.last() == Some(&piece)) {
                pieces.push(piece);
            }
        }
        Ok(pieces)
    }

    /// Reads a group. Groups contain no groups, because braces contain only
    /// literals.
    fn group(&mut self) -> Result<Piece, Fault> {
        self.skip_if('(');
        let mut alternatives = vec![self.flat_sequence()?];
        while self.skip_if('|') {
            alternatives.push(self.flat_sequence()?);
        }
        if !self.skip_if(')') {
            return Err(self.fault(format!("missing closing ): `^{}`", self.text)));
        }
        Ok(Piece::Group { alternatives, is_optional: self.skip_if('?') })
    }

    fn flat_sequence(&mut self) -> Result<Vec<Piece>, Fault> {
        let mut pieces = Vec::new();
        while self.peek().is_some_and(|next| !matches!(next, '$' | '(' | ')' | '|')) {
            pieces.push(self.matcher()?);
        }
        Ok(pieces)
    }

    fn matcher(&mut self) -> Result<Piece, Fault> {
        let matcher = match self.peek() {
            Some('[') => self.class()?,
            Some('.') => {
                self.at += 1;
                Matcher::AnyButLineFeed
            }
            Some(character) => {
                self.at += character.len_utf8();
                Matcher::Character(character)
            }
            None => return Err(self.fault("unexpected end".to_owned())),
        };
        Ok(if self.skip_if('*') { Piece::Many(matcher) } else { Piece::One(matcher) })
    }

    fn class(&mut self) -> Result<Matcher, Fault> {
        let text = self.text.get(self.at..).unwrap_or_default();
        let parsed = Class::parse(text);
        let (class, length) = parsed.map_err(|fault| Fault { offset: self.at, fault })?;
        self.at += length;
        Ok(match class.single() {
            Some((character, Side::Inside)) => Matcher::Character(character),
            Some(('/', Side::Outside)) => Matcher::AnyButSlash,
            Some(_) | None => Matcher::Class(class),
        })
    }
}
