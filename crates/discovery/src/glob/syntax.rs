//! Parser for the part of Go's `regexp` syntax that globs produce.

use super::super::cursor::Cursor;
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
    let mut cursor = Cursor { text, at: 0 };
    let pieces = sequence(&mut cursor)?;
    match cursor.peek() {
        Some('$') => Ok(pieces),
        _ => Err(fault(&cursor, format!("unexpected ): `^{text}`"))),
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

fn fault(cursor: &Cursor<'_>, text: String) -> Fault {
    Fault { offset: cursor.at, fault: PatternFault::Expression(text) }
}

/// Reads pieces up to the end of a sequence.
fn sequence(cursor: &mut Cursor<'_>) -> Result<Vec<Piece>, Fault> {
    let mut pieces = Vec::new();
    while let Some(next) = cursor.peek() {
        let piece = match next {
            '$' | ')' | '|' => break,
            '(' => group(cursor)?,
            _ => matcher(cursor)?,
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
fn group(cursor: &mut Cursor<'_>) -> Result<Piece, Fault> {
    cursor.skip_if('(');
    let mut alternatives = vec![flat_sequence(cursor)?];
    while cursor.skip_if('|') {
        alternatives.push(flat_sequence(cursor)?);
    }
    if !cursor.skip_if(')') {
        return Err(fault(cursor, format!("missing closing ): `^{}`", cursor.text)));
    }
    Ok(Piece::Group { alternatives, is_optional: cursor.skip_if('?') })
}

fn flat_sequence(cursor: &mut Cursor<'_>) -> Result<Vec<Piece>, Fault> {
    let mut pieces = Vec::new();
    while cursor.peek().is_some_and(|next| !matches!(next, '$' | '(' | ')' | '|')) {
        pieces.push(matcher(cursor)?);
    }
    Ok(pieces)
}

fn matcher(cursor: &mut Cursor<'_>) -> Result<Piece, Fault> {
    let matcher = match cursor.peek() {
        Some('[') => class(cursor)?,
        Some('.') => {
            cursor.at += 1;
            Matcher::AnyButLineFeed
        }
        Some(character) => {
            cursor.at += character.len_utf8();
            Matcher::Character(character)
        }
        None => return Err(fault(cursor, "unexpected end".to_owned())),
    };
    Ok(if cursor.skip_if('*') { Piece::Many(matcher) } else { Piece::One(matcher) })
}

fn class(cursor: &mut Cursor<'_>) -> Result<Matcher, Fault> {
    let parsed = Class::parse(cursor.rest());
    let (class, length) = parsed.map_err(|fault| Fault { offset: cursor.at, fault })?;
    cursor.at += length;
    Ok(match class.single() {
        Some((character, Side::Inside)) => Matcher::Character(character),
        Some(('/', Side::Outside)) => Matcher::AnyButSlash,
        Some(_) | None => Matcher::Class(class),
    })
}
