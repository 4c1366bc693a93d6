//! Patterns of `spec.discover.find.glob`, with the rules of go-zglob 0.0.6.

mod class;
mod expression;
mod program;
mod syntax;
mod walk;

use expression::Expression;
use program::Program;
use walk::{Scope, Walk};

use super::decision::ShownPath;
use cmp_go::path;

use super::invalid_pattern::MAX_PATTERN_BYTES;
use super::match_error::{MatchCause, MatchError, PatternKind};
use super::relative_pattern::RelativePattern;
use super::steps::{GoOn, Steps};
use super::{AppDirectory, Decision, FileIndex, InvalidPattern, LookupError, PatternFault};

/// A compiled `find.glob`.
///
/// Without `*` and `{` it names a file, and a missing file is an error.
/// Otherwise the directory before the first such component must exist, and the
/// pattern is matched against the whole path of everything below it. `**/`
/// matches any number of directories, `*` anything except `/`, `{a,b}` one of
/// some literal texts, and `[…]` a class as in Go's `regexp`. Links below that
/// directory can match, but the search does not enter them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobPattern {
    text: String,
    /// The named file, or the directory that is searched.
    root: Location,
    search: Option<CompiledGlob>,
}

/// A path relative to an application.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Location {
    climbs: usize,
    below: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct CompiledGlob {
    /// Number of directories above the application at which matched paths
    /// start.
    climbs: usize,
    program: Program,
    /// See [`Expression::mistaken_way`].
    mistaken_way: Option<String>,
}

impl GlobPattern {
    /// Compiles a pattern, which is relative to an application. A component
    /// that is an environment variable is an error.
    pub fn new(pattern: &str) -> Result<Self, InvalidPattern> {
        let compiled = if pattern.len() > MAX_PATTERN_BYTES {
            let limit = MAX_PATTERN_BYTES;
            Err(Fault { offset: limit, fault: PatternFault::TooLong { limit } })
        } else {
            compile(pattern)
        };
        let (root, search) = compiled.map_err(|Fault { offset, fault }| InvalidPattern {
            kind: PatternKind::Glob,
            pattern: pattern.to_owned(),
            offset,
            fault,
        })?;
        Ok(Self { text: pattern.to_owned(), root, search })
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
        let decided = match &self.search {
            None => self.exists(index, app),
            Some(search) => self.scope(search, index, app).and_then(|scope| {
                let found = Walk::new(index, search, scope, steps).first_match();
                found.map_err(Into::into)
            }),
        };
        decided.map_err(|cause| MatchError {
            kind: PatternKind::Glob,
            pattern: self.text.clone(),
            cause,
        })
    }

    fn exists(&self, index: &FileIndex, app: &AppDirectory) -> Result<Decision, MatchCause> {
        let path = self.root.seen_from(app).ok_or(MatchCause::FileDoesNotExist)?;
        match index.stat(&path) {
            Ok(_) => Ok(Decision::Match(path)),
            Err(_absent) => Err(MatchCause::FileDoesNotExist),
        }
    }

    fn scope(
        &self,
        search: &CompiledGlob,
        index: &FileIndex,
        app: &AppDirectory,
    ) -> Result<Scope, MatchCause> {
        let missing =
            |path: &[u8], error| MatchCause::Root { path: ShownPath(path.to_vec()), error };
        let above = || missing(b"..", LookupError::NotFound);
        let root = self.root.seen_from(app).ok_or_else(above)?;
        let node = index.stat(&root).map_err(|error| missing(&root, error))?;
        let top = path::ascend(app.path(), search.climbs).ok_or_else(above)?;
        Ok(Scope { root, node, above: top.len() })
    }
}

impl Location {
    fn new(climbs: usize, components: &[(&str, usize)]) -> Self {
        let names: Vec<&str> = components.iter().map(|&(name, _)| name).collect();
        Self { climbs, below: names.join("/") }
    }

    /// The path in the repository, or `None` if it is above the root.
    fn seen_from(&self, app: &AppDirectory) -> Option<Vec<u8>> {
        let mut path = path::ascend(app.path(), self.climbs)?.to_vec();
        if !self.below.is_empty() {
            path::push(&mut path, self.below.as_bytes());
        }
        Some(path)
    }
}

/// An error and its byte offset in the pattern.
struct Fault {
    offset: usize,
    fault: PatternFault,
}

fn compile(pattern: &str) -> Result<(Location, Option<CompiledGlob>), Fault> {
    let RelativePattern { climbs, components } = RelativePattern::clean(pattern);
    let is_literal = |&&(name, _): &&(&str, usize)| !name.contains(['*', '{']);
    let literals = components.iter().take_while(is_literal).count();
    let (literal, rest) = components.split_at(literals);
    let root = Location::new(climbs, literal);
    if rest.is_empty() {
        return Ok((root, None));
    }
    if let Some(&(_, offset)) = components.iter().find(|&&(name, _)| is_variable(name)) {
        return Err(Fault { offset, fault: PatternFault::Variable });
    }
    let expression = Expression::write(&components);
    let program = Program::compile(&expression)?;
    let mistaken_way = expression.mistaken_way();
    Ok((root, Some(CompiledGlob { climbs, program, mistaken_way })))
}

/// True for a component that go-zglob replaces by a variable's value: `$NAME` or
/// `$(NAME)`, with a name of at least two letters.
fn is_variable(component: &str) -> bool {
    let Some(asked) = component.strip_prefix('$') else { return false };
    let bare = asked.strip_prefix('(').map_or(Some(asked), |rest| rest.strip_suffix(')'));
    bare.is_some_and(|name| {
        name.len() > 1
            && name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_component_is_a_variable() {
        assert!(is_variable("$HOME") && is_variable("$(HOME)"));
        for literal in ["HOME", "$H", "$1A", "$_A", "$HOME.d", "x$HOME", "$(HOME", "$", "$HÖ"] {
            assert!(!is_variable(literal), "{literal}");
        }
    }

    #[test]
    fn a_decision_that_needs_too_many_steps_is_an_error() {
        let mut index = FileIndex::default();
        for number in 0..100 {
            index.add_file(format!("{number:0>250}").as_bytes()).unwrap();
        }
        let app = AppDirectory::resolve(&index, b".").unwrap();
        let pattern = GlobPattern::new(&("*0".repeat(120) + "x")).unwrap();
        let decide = |steps| pattern.decide_within(Steps::at_most(steps, &|| true), &index, &app);
        assert_eq!(decide(100 * 250 * 242), Ok(Decision::NoMatch));
        assert_eq!(decide(100_000).unwrap_err().cause, MatchCause::TooMuchWork);
        let stopped = pattern.decide(&index, &app, &|| false);
        assert_eq!(stopped.unwrap_err().cause, MatchCause::Stopped);
    }
}
