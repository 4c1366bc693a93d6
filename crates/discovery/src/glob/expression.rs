//! The regular expression that go-zglob makes of a glob.
//!
//! The glob is compiled through this expression, because its meaning depends on
//! it. For example, brackets are copied unchanged, so a class that ends in `\`
//! or starts with `[^]` continues into the text after it.

use std::fmt::Write;

use super::RelativePattern;

/// Longest expression in bytes. Each unclosed bracket repeats the rest of the
/// pattern. Ordinary patterns stay below ten times their own length.
pub(super) const MAX_EXPRESSION_BYTES: usize = 64 << 10;

/// An expression for paths that start with `/`.
#[derive(Debug, Default)]
pub(super) struct Expression {
    text: String,
    /// Pairs of an offset in `text` and the offset in the pattern that it was
    /// written for, in ascending order.
    origins: Vec<(usize, usize)>,
    lead: Lead,
}

/// The literal characters at the start of a glob, up to `*`, `[` or `{`.
#[derive(Debug, Default)]
struct Lead {
    text: String,
    is_over: bool,
    /// A `!(…)` was among the characters. It adds nothing to `text`.
    has_gap: bool,
}

impl Expression {
    /// Writes the expression for components, each with its offset in the
    /// pattern.
    pub(super) fn write(components: &[(&str, usize)]) -> Self {
        let mut characters = Vec::new();
        for &(component, offset) in components {
            characters.push(('/', offset.saturating_sub(1)));
            let inside = component.char_indices();
            characters.extend(inside.map(|(at, character)| (character, offset + at)));
        }
        let mut expression = Self::default();
        let mut rest = characters.as_slice();
        while let Some(&(_, offset)) = rest.first() {
            expression.origins.push((expression.text.len(), offset));
            let taken = expression.element(rest);
            rest = rest.get(taken..).unwrap_or_default();
            if expression.text.len() > MAX_EXPRESSION_BYTES {
                return expression;
            }
        }
        if expression.text.ends_with('/') {
            expression.text.push_str("[^/]*");
        }
        expression
    }

    /// The expression, without `^` and `$`.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The offset in the pattern that the offset `at` in the expression comes
    /// from.
    pub(super) fn origin(&self, at: usize) -> usize {
        let after = self.origins.partition_point(|&(begin, _)| begin <= at);
        let before = after.checked_sub(1).and_then(|index| self.origins.get(index));
        before.map_or(0, |&(_, offset)| offset)
    }

    /// The directory that go-zglob wrongly takes for the only way to a match.
    /// It skips directories that do not lead there.
    ///
    /// It is the directory of the leading literal characters, with a slash at
    /// both ends. It is wrong only if a `!(…)` is among them, because go-zglob
    /// ignores it there.
    pub(super) fn mistaken_way(&self) -> Option<String> {
        let (directory, _) = self.lead.text.rsplit_once('/').filter(|_| self.lead.has_gap)?;
        let cleaned = RelativePattern::clean(directory);
        let way = cleaned.components.iter().fold("/".to_owned(), |way, (name, _)| way + name + "/");
        (cleaned.climbs == 0).then_some(way)
    }

    /// Writes the first element of `rest`. Returns its length in characters.
    fn element(&mut self, rest: &[(char, usize)]) -> usize {
        let ahead = |distance: usize| rest.get(distance).map(|&(character, _)| character);
        self.lead.is_over |= matches!(ahead(0), Some('*' | '[' | '{'));
        match (ahead(0), ahead(1), ahead(2)) {
            // A `\` among the last two characters is a literal.
            (Some('\\'), Some(escaped), Some(_)) => {
                self.lead.push(escaped);
                self.code(escaped);
                2
            }
            (Some('*'), Some('*'), Some('/')) => {
                self.text.push_str("(.*/)?");
                3
            }
            (Some('*'), ..) => {
                self.text.push_str("[^/]*");
                1
            }
            (Some('['), ..) => self.class(&rest[1..]),
            (Some('{'), ..) => self.alternatives(&rest[1..]),
            (Some('!'), Some('('), _) => self.exclusion(&rest[2..]),
            (Some(character), ..) => {
                self.lead.push(character);
                self.literal(character);
                1
            }
            (None, ..) => 0,
        }
    }

    /// Copies the class after a `[`. An empty class is dropped.
    fn class(&mut self, rest: &[(char, usize)]) -> usize {
        let (content, closed) = until(rest, ']');
        if content.is_empty() {
            return 1 + closed;
        }
        self.text.push('[');
        self.text.extend(content.iter().map(|&(character, _)| character));
        self.text.push(']');
        // An unclosed class ends at the end of the pattern, and its content is
        // read again after it.
        if closed == 0 { 1 } else { 1 + content.len() + closed }
    }

    /// Writes the alternatives after a `{`. They are literal texts, even a `*`.
    fn alternatives(&mut self, rest: &[(char, usize)]) -> usize {
        let (content, closed) = until(rest, '}');
        if content.is_empty() {
            self.literal(if closed == 0 { '{' } else { '}' });
            return 1 + closed;
        }
        self.text.push('(');
        for &(character, _) in content {
            match character {
                ',' => self.text.push('|'),
                character => self.literal(character),
            }
        }
        self.text.push(')');
        if closed == 0 { 1 } else { 1 + content.len() + closed }
    }

    /// Writes the exclusion after a `!(`. Each of its characters becomes a run
    /// of any other characters.
    fn exclusion(&mut self, rest: &[(char, usize)]) -> usize {
        let (content, closed) = until(rest, ')');
        if content.is_empty() {
            let last = if closed == 0 { '(' } else { ')' };
            self.lead.push(last);
            self.literal(last);
            return 2 + closed;
        }
        self.lead.has_gap |= !self.lead.is_over;
        for &(character, _) in content {
            let _ = write!(self.text, "[^\\x{:02X}/]*", u32::from(character)); // writing to a `String` cannot fail
        }
        if closed == 0 { 2 } else { 2 + content.len() + closed }
    }

    /// Writes a literal character.
    fn literal(&mut self, character: char) {
        let is_plain = character == '/' || character.is_ascii_alphanumeric();
        if is_plain || u32::from(character) > 0xFF {
            self.text.push(character);
        } else {
            self.code(character);
        }
    }

    /// Writes a character by its code. Go reads only two digits. Above U+00FF,
    /// the class therefore contains the character of the first two digits and
    /// the remaining digits.
    fn code(&mut self, character: char) {
        let _ = write!(self.text, "[\\x{:02X}]", u32::from(character)); // writing to a `String` cannot fail
    }
}

impl Lead {
    fn push(&mut self, character: char) {
        if !self.is_over {
            self.text.push(character);
        }
    }
}

/// The part before `end`, and the length of `end`, which is 0 if it is missing.
fn until(rest: &[(char, usize)], end: char) -> (&[(char, usize)], usize) {
    match rest.iter().position(|&(character, _)| character == end) {
        Some(position) => (&rest[..position], 1),
        None => (rest, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pattern: &str) -> String {
        Expression::write(&[(pattern, 0)]).text().to_owned()
    }

    #[test]
    fn a_glob_is_written_as_an_expression() {
        for (pattern, expected) in [
            ("*.y", "/[^/]*[\\x2E]y"),
            ("a**", "/a[^/]*[^/]*"),
            ("{a.b,*}é€", "/(a[\\x2E]b|[\\x2A])[\\xE9]€"),
            ("{}{", "/[\\x7D][\\x7B]"),
            ("[^x][]a", "/[^x]a"),
            ("[ab*", "/[ab*]ab[^/]*"),
            ("{a*", "/(a[\\x2A])a[^/]*"),
            ("!(ab)c", "/[^\\x61/]*[^\\x62/]*c"),
            ("!()!(a", "/[\\x29][^\\x61/]*a"),
            ("!(", "/[\\x28]"),
            ("\\*ab\\*", "/[\\x2A]ab[\\x5C][^/]*"),
            ("\\€ab", "/[\\x20AC]ab"),
            ("[", "/[^/]*"),
        ] {
            assert_eq!(written(pattern), expected, "{pattern}");
        }
        assert_eq!(Expression::write(&[("**", 0), ("a", 3)]).text(), "/(.*/)?a");
    }

    #[test]
    fn an_offset_in_the_expression_maps_to_the_pattern() {
        let expression = Expression::write(&[("é*", 4), ("[b]", 8)]);
        assert_eq!(expression.text(), "/[\\xE9][^/]*/[b]");
        let class = expression.text().rfind('[').unwrap();
        assert_eq!(expression.origin(class), 8);
        assert_eq!(expression.origin(1), 4);
        assert_eq!(expression.origin(8), 6);
    }

    #[test]
    fn an_exclusion_causes_a_mistaken_way() {
        let way = |components: &[(&str, usize)]| Expression::write(components).mistaken_way();
        assert_eq!(way(&[("x!(a*)", 0), ("d.y", 7), ("!(b)*", 11)]), Some("/x/d.y/".to_owned()));
        assert_eq!(way(&[("x", 0), ("!(a)*", 7)]), Some("/x/".to_owned()));
        assert_eq!(way(&[("x!()", 0), ("y*", 7)]), None);
        assert_eq!(way(&[("x*!(a)", 0), ("y*", 7)]), None);
    }

    #[test]
    fn unclosed_brackets_are_bounded() {
        let text = written(&"{".repeat(4000));
        assert!(text.len() < 2 * MAX_EXPRESSION_BYTES, "{}", text.len());
    }
}
