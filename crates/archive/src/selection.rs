//! The part of a repository that is unpacked.

use std::os::unix::ffi::OsStrExt;

use cmp_go::path;
use thiserror::Error;

use super::{path::EntryPath, tar::EntryKind};

/// Most components of a pattern: one bit of a number each, and one for the end.
const MAX_PARTS: usize = 63;

/// Characters that other programs give a meaning, and these patterns do not.
const RESERVED: [u8; 6] = *b"[]{}\\\0";

/// A pattern of paths, relative to an application, or to the repository if it
/// begins with `/`, even if an archive holds only a directory of the repository. It
/// stands for what it matches and for everything below.
///
/// `*` stands for any text in one component, `?` for one character, and `**` for any
/// number of components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    is_rooted: bool,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// `**`
    Any,
    /// Text with `*` and `?`.
    One(Box<[u8]>),
}

/// Reasons why a text is no [`PathPattern`].
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InvalidPathPattern {
    /// It is empty.
    #[error("a path, or `.` for the application's directory")]
    Empty,
    /// It has a component `..`.
    #[error("a path without `..`; one that begins with `/` is relative to the repository")]
    Parent,
    /// It has a reserved character.
    #[error("a path in which only `*`, `**` and `?` are special")]
    Reserved,
    /// It has too many components.
    #[error("a path with at most {MAX_PARTS} components")]
    Long,
}

/// The entries to unpack. Without patterns, these are all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    rules: Vec<Rule>,
}

/// A pattern below a directory, whose name is no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    directory: Vec<Box<[u8]>>,
    parts: Vec<Part>,
    /// The states in this directory. There are more than one if the pattern begins
    /// above the archive.
    begin: u64,
}

/// The relation of a path to a [`Selection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Selected {
    /// It is left out.
    No,
    /// It is left out, but something below it may not be.
    Above,
    /// It is selected.
    Yes,
}

impl PathPattern {
    /// Reads a pattern.
    pub fn new(text: &str) -> Result<Self, InvalidPathPattern> {
        if text.is_empty() {
            return Err(InvalidPathPattern::Empty);
        }
        if text.bytes().any(|byte| RESERVED.contains(&byte)) {
            return Err(InvalidPathPattern::Reserved);
        }
        let mut parts = Vec::new();
        for component in text.split('/').filter(|component| !matches!(*component, "" | ".")) {
            match component {
                ".." => return Err(InvalidPathPattern::Parent),
                "**" if parts.last() == Some(&Part::Any) => {}
                "**" => parts.push(Part::Any),
                name => parts.push(Part::One(name.as_bytes().into())),
            }
        }
        if parts.len() > MAX_PARTS {
            return Err(InvalidPathPattern::Long);
        }
        Ok(Self { is_rooted: text.starts_with('/'), parts })
    }
}

impl Selection {
    /// Reads the patterns of a plugin for an application's directory in an archive,
    /// whose root is the directory `root` of the repository. An application outside the
    /// archive selects everything: it is refused later, or found from the archive's root
    /// by discovery.
    pub fn read(
        patterns: &[String],
        directory: &[u8],
        root: &[u8],
    ) -> Result<Self, InvalidPathPattern> {
        let patterns = patterns.iter().map(|text| PathPattern::new(text));
        let patterns = patterns.collect::<Result<Vec<_>, _>>()?;
        let directory = EntryPath::new(directory);
        let below =
            |path: EntryPath| Self::new(path.as_path().as_os_str().as_bytes(), root, patterns);
        Ok(directory.map(below).unwrap_or_default())
    }

    /// True if everything is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.rules.is_empty()
    }

    /// Decides whether to unpack an entry. A link above selected entries may lead to
    /// them.
    #[must_use]
    pub fn takes(&self, path: &[u8], kind: EntryKind) -> bool {
        match self.decide(path) {
            Selected::Yes => true,
            Selected::Above => kind == EntryKind::Link,
            Selected::No => false,
        }
    }

    /// The entries that one of these patterns selects. `directory` is that of the
    /// application, relative to the archive, and `root` that of the archive, relative to
    /// the repository. Both are clean.
    #[must_use]
    pub fn new(
        directory: &[u8],
        root: &[u8],
        patterns: impl IntoIterator<Item = PathPattern>,
    ) -> Self {
        let components: Vec<Box<[u8]>> = path::components(directory).map(Into::into).collect();
        let rule = |PathPattern { is_rooted, parts }| {
            let mut rule = Rule { directory: Vec::new(), parts, begin: 0 };
            rule.begin = rule.with_skipped(1);
            if is_rooted {
                rule.begin = rule.along(path::components(root));
            } else {
                rule.directory.clone_from(&components);
            }
            rule
        };
        Self { rules: patterns.into_iter().map(rule).collect() }
    }

    /// Decides about a path: clean, and relative to the archive.
    #[must_use]
    pub fn decide(&self, path: &[u8]) -> Selected {
        let decide = |rule: &Rule| rule.decide(path::components(path));
        let decided = self.rules.iter().map(decide).max();
        decided.unwrap_or(Selected::Yes)
    }
}

impl Rule {
    fn decide<'p>(&self, mut path: impl Iterator<Item = &'p [u8]>) -> Selected {
        for expected in &self.directory {
            match path.next() {
                None => return Selected::Above,
                Some(component) if component == expected.as_ref() => {}
                Some(_) => return Selected::No,
            }
        }
        match self.along(path) {
            0 => Selected::No,
            states if states & self.end() == 0 => Selected::Above,
            _ => Selected::Yes,
        }
    }

    /// The states after a path. They stay those of a match, which covers everything below.
    fn along<'p>(&self, path: impl Iterator<Item = &'p [u8]>) -> u64 {
        let mut states = self.begin;
        for component in path {
            if states == 0 || states & self.end() != 0 {
                break;
            }
            states = self.with_skipped(self.after(states, component));
        }
        states
    }

    /// The state in which the whole pattern has matched.
    fn end(&self) -> u64 {
        1 << self.parts.len()
    }

    /// The states after a component. Bit n is set if the first n parts can match
    /// what was read.
    fn after(&self, states: u64, component: &[u8]) -> u64 {
        let mut next = 0;
        for (index, part) in self.parts.iter().enumerate().filter(|(n, _)| states & (1 << n) != 0) {
            next |= match part {
                Part::Any => 1 << index,
                Part::One(text) if is_match(text, component) => 1 << (index + 1),
                Part::One(_) => 0,
            };
        }
        next
    }

    /// Adds the states in which `**` stands for nothing.
    fn with_skipped(&self, mut states: u64) -> u64 {
        for (index, part) in self.parts.iter().enumerate() {
            if *part == Part::Any && states & (1 << index) != 0 {
                states |= 1 << (index + 1);
            }
        }
        states
    }
}

/// Compares one component. Takes time proportional to the product of both lengths.
fn is_match(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // The last `*`, and the end of the text that it stands for.
    let mut star = None;
    loop {
        match (pattern.get(at), text.get(from)) {
            (Some(b'*'), _) => {
                star = Some((at + 1, from));
                at += 1;
            }
            (Some(b'?'), Some(_)) => {
                at += 1;
                from = after_character(text, from);
            }
            (Some(expected), Some(found)) if expected == found => {
                at += 1;
                from += 1;
            }
            (None, None) => return true,
            _ => match star {
                Some((after, end)) if end < text.len() => {
                    star = Some((after, end + 1));
                    (at, from) = (after, end + 1);
                }
                Some(_) | None => return false,
            },
        }
    }
}

/// The position after a character of UTF-8, or after a byte that begins none.
fn after_character(text: &[u8], at: usize) -> usize {
    let is_inside = |byte: &&u8| (0x80..0xC0).contains(*byte);
    let rest = text.get(at + 1..).unwrap_or_default();
    at + 1 + rest.iter().take(3).take_while(is_inside).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn selection(directory: &str, patterns: &[&str]) -> Selection {
        let patterns = patterns.iter().map(|text| PathPattern::new(text).unwrap());
        Selection::new(directory.as_bytes(), b"", patterns)
    }

    #[track_caller]
    fn assert_decides(selection: &Selection, expected: Selected, paths: &[&str]) {
        for path in paths {
            assert_eq!(selection.decide(path.as_bytes()), expected, "{path}");
        }
    }

    #[test]
    fn without_patterns_everything_is_selected() {
        assert_decides(&Selection::default(), Selected::Yes, &["", "a", "a/b"]);
    }

    #[test]
    fn the_application_and_shared_charts_are_selected() {
        let selection = selection("apps/web", &[".", "/charts/**", "/common/*.yaml"]);
        let selected = ["apps/web", "apps/web/x/y", "charts", "charts/a/b", "common/a.yaml"];
        assert_decides(&selection, Selected::Yes, &selected);
        assert_decides(&selection, Selected::Above, &["", "apps", "common"]);
        let others = ["apps/db", "apps/web2", "chart", "common/a.json", "common/a/b.yaml", "x"];
        assert_decides(&selection, Selected::No, &others);
    }

    #[test]
    fn two_stars_stand_for_any_number_of_directories() {
        let selection = selection("a", &["**/values.yaml", "/x/**/y/z"]);
        let selected = ["a/values.yaml", "a/b/c/values.yaml", "x/y/z", "x/1/2/y/z/w"];
        assert_decides(&selection, Selected::Yes, &selected);
        assert_decides(&selection, Selected::Above, &["a", "a/b", "x", "x/y", "x/1"]);
        assert_decides(&selection, Selected::No, &["values.yaml", "b", "y/z"]);
    }

    #[test]
    fn patterns_of_the_repository_hold_in_an_archive_of_a_part() {
        let patterns = ["values", "/team/common", "/*/x", "/**/team/y", "/z"];
        let patterns = patterns.map(|text| PathPattern::new(text).unwrap());
        let selection = Selection::new(b"app", b"team", patterns);
        let selected = ["app/values", "common", "common/a", "x", "y", "a/team/y"];
        assert_decides(&selection, Selected::Yes, &selected);
        assert_decides(&selection, Selected::Above, &["", "app", "a", "a/team"]);
        assert_decides(&selection, Selected::Above, &["team/common", "z"]);
        let above = [PathPattern::new("/team").unwrap()];
        assert_decides(&Selection::new(b"b", b"team/a", above), Selected::Yes, &["", "c/d"]);
        let other = [PathPattern::new("/others/a").unwrap()];
        assert_decides(&Selection::new(b"a", b"team", other), Selected::No, &["", "a", "b"]);
    }

    #[test]
    fn names_of_directories_are_no_patterns() {
        let selection = selection("a*", &["x?"]);
        assert_decides(&selection, Selected::Yes, &["a*/xy", "a*/xé"]);
        assert_decides(&selection, Selected::No, &["ab/xy", "a*/x", "a*/xyz"]);
    }

    #[test]
    fn stars_match_any_text_of_a_component() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*.yaml", "a.yaml", true),
            ("*.yaml", "a.yaml.bak", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("?*", "", false),
        ] {
            assert_eq!(is_match(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn mistakes_are_refused() {
        let long = "a/".repeat(MAX_PARTS + 1);
        for (text, expected) in [
            ("", InvalidPathPattern::Empty),
            ("../x", InvalidPathPattern::Parent),
            ("a[bc]", InvalidPathPattern::Reserved),
            ("{a,b}", InvalidPathPattern::Reserved),
            (long.as_str(), InvalidPathPattern::Long),
        ] {
            assert_eq!(PathPattern::new(text), Err(expected), "{text}");
        }
        assert!(PathPattern::new(&"a/".repeat(MAX_PARTS)).is_ok());
    }

    proptest! {
        /// Everything below a selected path is selected, and everything above one may
        /// have something below it.
        #[test]
        fn decisions_agree_along_a_path(
            pattern in "/?([ab*?]{1,2}|\\*\\*)(/([ab*?]{1,2}|\\*\\*)){0,3}",
            path in "[ab]{1,2}(/[ab]{1,2}){0,5}",
        ) {
            let selection = selection("a", &[&pattern]);
            let ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).collect();
            let all = ends.into_iter().chain([path.len()]);
            let decided: Vec<_> =
                all.map(|end| selection.decide(&path.as_bytes()[..end])).collect();
            for pair in decided.windows(2) {
                prop_assert!(pair[0] != Selected::Yes || pair[1] == Selected::Yes, "{decided:?}");
                prop_assert!(pair[0] != Selected::No || pair[1] == Selected::No, "{decided:?}");
            }
        }
    }
}
