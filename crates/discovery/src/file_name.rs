//! Patterns of `spec.discover.fileName`, with the rules of Go's
//! `filepath.Glob`.

mod component;
mod search;

use component::Component;
use search::Search;

use cmp_go::path;

use super::invalid_pattern::MAX_PATTERN_BYTES;
use super::match_error::{MatchError, PatternKind};
use super::relative_pattern::RelativePattern;
use super::steps::{GoOn, Steps};
use super::{AppDirectory, Decision, FileIndex, InvalidPattern, PatternFault};

/// A compiled `fileName`.
///
/// Without `*`, `?`, `[` and `\` it names a file, a directory, or a link, even
/// a dangling one. Otherwise each component is matched against the entries of
/// the directories that the earlier components matched. Links are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNamePattern {
    text: String,
    climbs: usize,
    /// The components before the first one with a metacharacter.
    literal: String,
    components: Vec<Component>,
}

impl FileNamePattern {
    /// Compiles a pattern, which is relative to an application.
    pub fn new(pattern: &str) -> Result<Self, InvalidPattern> {
        let invalid = |offset, fault| InvalidPattern {
            kind: PatternKind::FileName,
            pattern: pattern.to_owned(),
            offset,
            fault,
        };
        if pattern.len() > MAX_PATTERN_BYTES {
            let limit = MAX_PATTERN_BYTES;
            return Err(invalid(limit, PatternFault::TooLong { limit }));
        }
        let cleaned = RelativePattern::clean(pattern);
        let is_literal = |(text, _): &&(&str, usize)| !text.contains(['*', '?', '[', '\\']);
        let literals = cleaned.components.iter().take_while(is_literal).count();
        let (literal, rest) = cleaned.components.split_at(literals);
        let components = rest.iter().map(|&(text, offset)| {
            Component::new(text)
                .map_err(|error| invalid(offset + error.offset, PatternFault::Syntax))
        });
        let literal: Vec<&str> = literal.iter().map(|&(text, _)| text).collect();
        Ok(Self {
            text: pattern.to_owned(),
            climbs: cleaned.climbs,
            literal: literal.join("/"),
            components: components.collect::<Result<_, _>>()?,
        })
    }

    /// The pattern as in the definition.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Decides if the pattern matches anything, relative to an application. Stops
    /// when `go_on` returns false.
    pub fn decide(
        &self,
        index: &FileIndex,
        app: &AppDirectory,
        go_on: &GoOn<'_>,
    ) -> Result<Decision, MatchError> {
        self.decide_within(Steps::all(go_on), index, app)
    }

    fn decide_within(
        &self,
        steps: Steps<'_>,
        index: &FileIndex,
        app: &AppDirectory,
    ) -> Result<Decision, MatchError> {
        let Some(top) = path::ascend(app.path(), self.climbs) else {
            return Ok(Decision::NoMatch);
        };
        let mut path = top.to_vec();
        if !self.literal.is_empty() {
            path::push(&mut path, self.literal.as_bytes());
        }
        if self.components.is_empty() {
            let found = index.lstat(&path).is_ok();
            return Ok(if found { Decision::Match(path) } else { Decision::NoMatch });
        }
        let found = Search::new(index, &self.components, steps).run(&path);
        found.map_err(|exhausted| MatchError {
            kind: PatternKind::FileName,
            pattern: self.text.clone(),
            cause: exhausted.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::match_error::MatchCause;
    use super::*;

    #[test]
    fn a_decision_that_needs_too_many_steps_is_an_error() {
        let mut index = FileIndex::default();
        for number in 0..100 {
            index.add_file(format!("{number:0>250}").as_bytes()).unwrap();
        }
        let app = AppDirectory::resolve(&index, b".").unwrap();
        let pattern = FileNamePattern::new(&format!("*{}x", "0".repeat(120))).unwrap();
        let decide = |steps| pattern.decide_within(Steps::at_most(steps, &|| true), &index, &app);
        assert_eq!(decide(100 * 250 * 122), Ok(Decision::NoMatch));
        assert_eq!(decide(100_000).unwrap_err().cause, MatchCause::TooMuchWork);
        let stopped = pattern.decide(&index, &app, &|| false);
        assert_eq!(stopped.unwrap_err().cause, MatchCause::Stopped);
    }
}
