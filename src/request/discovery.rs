//! Discovery by names, with a cache of its verdicts.

use std::{
    fmt,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use cmp_discovery::{
    AppDirectory, AppDirectoryError, FileIndex, FileNamePattern, GlobPattern, GoOn, MatchCause,
    MatchError, PatternKind, ShownPath,
};
use lru::LruCache;
use thiserror::Error;

use super::{
    deadline::DeadlinePassed,
    header::{Checksum, RequestHeader},
    memory::HeldMemory,
    progress::{Progress, RequestContext},
    threads::Threads,
};
use crate::plugin::{Discovery, PluginDefinition};

/// Number of cached verdicts: enough for ten plugins and a hundred applications.
/// With the longest keys and reasons they take 6 MB.
const MAX_VERDICTS: NonZeroUsize = NonZeroUsize::new(1000).unwrap();

/// Longest application directory in a cached key, in bytes.
const MAX_DIRECTORY: usize = 1024;

/// Most characters of a cached reason.
const MAX_REASON: usize = 250;

/// Names that are searched at once, unless it takes long: going to another thread
/// would take longer.
const FEW_NAMES: usize = 1000;

/// Bytes of other work that take as long as the search of one name. 20,000 names are
/// short work then; more can take seconds.
const BYTES_OF_NAME: usize = 50;

/// Most characters of a pattern in the reason of an answer.
const MAX_SHOWN: usize = 160;

/// The answer of discovery: whether a plugin claims an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The plugin's discovery rule claims the application.
    Claimed,
    /// The rule does not claim it.
    Unclaimed,
    /// The plugin has no discovery rule.
    NoRule,
}

/// A verdict and the reason for it, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) verdict: Verdict,
    pub(super) reason: String,
}

impl Decision {
    /// The decision of a command, which claims an application by printing something.
    pub(super) fn of_output(text: &[u8]) -> Self {
        let is_claimed = !matches!(text, b"" | b"\n");
        let printed = if is_claimed { "something" } else { "nothing" };
        let reason = format!("discover.find.command printed {printed}");
        Self { verdict: Verdict::of_rule(is_claimed), reason }
    }

    /// Keeps the reason for the log line of the request, and returns the verdict.
    pub(super) fn record(self, progress: &mut Progress) -> Verdict {
        progress.reason = Some(self.reason);
        self.verdict
    }
}

impl Verdict {
    /// The verdict of a rule.
    const fn of_rule(is_claimed: bool) -> Self {
        if is_claimed { Self::Claimed } else { Self::Unclaimed }
    }
}

/// A discovery rule that needs only names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pattern<'d> {
    FileName(&'d FileNamePattern),
    Glob(&'d GlobPattern),
}

impl<'d> Pattern<'d> {
    /// The pattern of a definition; `None` if discovery runs a command.
    pub(super) fn of(discovery: &'d Discovery) -> Option<Self> {
        match discovery {
            Discovery::FileName(pattern) => Some(Self::FileName(pattern)),
            Discovery::Glob(pattern) => Some(Self::Glob(pattern)),
            Discovery::Command(_) => None,
        }
    }

    /// The end of the reason why a pattern did not match.
    fn caution(self) -> &'static str {
        match self {
            Self::FileName(pattern) if pattern.as_str().contains("**") => {
                "; ** is only * in fileName, unlike in find.glob"
            }
            Self::FileName(_) | Self::Glob(_) => "",
        }
    }

    /// The kind and the text, which define the pattern.
    fn source(self) -> (PatternKind, &'d str) {
        match self {
            Self::FileName(pattern) => (PatternKind::FileName, pattern.as_str()),
            Self::Glob(pattern) => (PatternKind::Glob, pattern.as_str()),
        }
    }
}

/// The key and its value, which is cut if it is long: ``discover.fileName `*.yaml` ``.
impl fmt::Display for Pattern<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, text) = self.source();
        let key = match kind {
            PatternKind::FileName => "discover.fileName",
            PatternKind::Glob => "discover.find.glob",
        };
        let shown: String = text.chars().take(MAX_SHOWN).collect();
        let rest = if shown.len() < text.len() { "…" } else { "" };
        write!(formatter, "{key} `{}{rest}`", ShownPath::new(shown.as_bytes()))
    }
}

/// The names in a complete archive, and the application's directory.
#[derive(Debug)]
pub(super) struct IndexedArchive {
    names: FileIndex,
    directory: Bytes,
    /// The memory of the names.
    _held: HeldMemory,
}

/// Reasons why discovery by names failed.
#[derive(Debug, Error)]
pub enum Undecided {
    /// The application's directory cannot be searched. Argo CD would search in
    /// its server's working directory instead.
    #[error("{directory}: {error}")]
    Directory {
        /// The directory as the client sent it, printable.
        directory: ShownPath,
        /// The reason.
        error: AppDirectoryError,
    },
    /// The pattern cannot be evaluated. The text is Argo CD's.
    #[error(transparent)]
    Pattern(#[from] MatchError),
}

impl Undecided {
    fn is_stopped(&self) -> bool {
        matches!(self, Self::Pattern(MatchError { cause: MatchCause::Stopped, .. }))
    }
}

impl IndexedArchive {
    pub(super) fn new((names, held): (FileIndex, HeldMemory), directory: Bytes) -> Self {
        Self { names, directory, _held: held }
    }

    /// Matches the application of a request against a rule.
    pub(super) async fn matches(
        self,
        threads: &Threads,
        context: &RequestContext,
    ) -> Result<Result<Decision, Undecided>, DeadlinePassed> {
        let decide = |names: &Self, plugin: &PluginDefinition, go_on: &GoOn<'_>| {
            let pattern = plugin.discovery.as_ref().and_then(Pattern::of);
            let none = || Ok(Decision { verdict: Verdict::NoRule, reason: String::new() });
            pattern.map_or_else(none, |pattern| names.decide(pattern, go_on))
        };
        let is_stopped =
            |decided: &Result<_, Undecided>| decided.as_ref().is_err_and(Undecided::is_stopped);
        let (plugin, entries) = (Arc::clone(&context.plugin), self.names.len());
        if entries <= FEW_NAMES {
            let decided = decide(&self, &plugin, &|| false);
            if !is_stopped(&decided) {
                return Ok(decided);
            }
        }
        let size = entries.saturating_mul(BYTES_OF_NAME);
        let decided = threads
            .run(size, &context.deadline, move |stop| decide(&self, &plugin, &|| !stop.is_due()));
        let decided = decided.await?;
        if is_stopped(&decided) { Err(DeadlinePassed(context.deadline)) } else { Ok(decided) }
    }

    /// Matches the application against `pattern`.
    fn decide(&self, pattern: Pattern<'_>, go_on: &GoOn<'_>) -> Result<Decision, Undecided> {
        let application = AppDirectory::resolve(&self.names, &self.directory).map_err(|error| {
            Undecided::Directory { directory: ShownPath::new(&self.directory), error }
        })?;
        let decision = match pattern {
            Pattern::FileName(pattern) => pattern.decide(&self.names, &application, go_on)?,
            Pattern::Glob(pattern) => pattern.decide(&self.names, &application, go_on)?,
        };
        let explanation = decision.explain(&self.names, &application);
        let reason = if decision.is_match() {
            format!("{explanation} {pattern}")
        } else {
            format!("{pattern} {explanation}{}", pattern.caution())
        };
        Ok(Decision { verdict: Verdict::of_rule(decision.is_match()), reason })
    }
}

/// The key of a cached verdict.
///
/// It contains the archive's checksum. Only a client that has sent the whole
/// archive can read or create an entry for it. So no client learns about, or
/// changes, the verdict for another client's archive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct MatchKey {
    checksum: Checksum,
    directory: Bytes,
    kind: PatternKind,
    pattern: Box<str>,
}

impl MatchKey {
    /// `None` if the key is too long, or the checksum cannot be right.
    pub(super) fn new(header: &RequestHeader, pattern: Pattern<'_>) -> Option<Self> {
        let checksum = Checksum::try_from(&*header.checksum).ok()?;
        let (kind, pattern) = pattern.source();
        (header.directory.len() <= MAX_DIRECTORY).then(|| Self {
            checksum,
            // A copy, because the bytes are part of a larger message.
            directory: Bytes::copy_from_slice(&header.directory),
            kind,
            pattern: pattern.into(),
        })
    }
}

/// Recent decisions; the least recently used is removed first. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MatchCache(Arc<Mutex<LruCache<MatchKey, Decision>>>);

impl Default for MatchCache {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(LruCache::new(MAX_VERDICTS))))
    }
}

impl MatchCache {
    pub(super) fn get(&self, key: &MatchKey) -> Option<Decision> {
        let mut decisions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        decisions.get(key).cloned()
    }

    /// Keeps a decision. A long reason, which names a path, is cut.
    pub(super) fn keep(&self, key: MatchKey, Decision { verdict, reason }: &Decision) {
        let mut kept: String = reason.chars().take(MAX_REASON).collect();
        if kept.len() < reason.len() {
            kept.push('…');
        }
        let mut decisions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        decisions.put(key, Decision { verdict: *verdict, reason: kept });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(checksum: &str, directory: &str, pattern: &str) -> Option<MatchKey> {
        let header = RequestHeader {
            checksum: Bytes::copy_from_slice(checksum.as_bytes()),
            directory: Bytes::copy_from_slice(directory.as_bytes()),
            ..RequestHeader::default()
        };
        MatchKey::new(&header, Pattern::FileName(&FileNamePattern::new(pattern).unwrap()))
    }

    fn claimed(reason: &str) -> Decision {
        Decision { verdict: Verdict::Claimed, reason: reason.to_owned() }
    }

    #[test]
    fn a_long_reason_is_cut_in_the_cache() {
        let (cache, key) = (MatchCache::default(), key(&"1".repeat(64), "", "x"));
        cache.keep(key.clone().unwrap(), &claimed(&"ä".repeat(MAX_REASON + 1)));
        let cut = format!("{}…", "ä".repeat(MAX_REASON));
        assert_eq!(cache.get(&key.unwrap()), Some(claimed(&cut)));
    }

    #[test]
    fn a_verdict_needs_the_same_archive_directory_and_pattern() {
        let (one, other) = ("1".repeat(64), "2".repeat(64));
        let cache = MatchCache::default();
        cache.keep(key(&one, "app", "x").unwrap(), &claimed("app/x matches"));
        assert_eq!(cache.get(&key(&one, "app", "x").unwrap()), Some(claimed("app/x matches")));
        for (checksum, directory, pattern) in
            [(&other, "app", "x"), (&one, "app2", "x"), (&one, "app", "y")]
        {
            let key = key(checksum, directory, pattern).unwrap();
            assert_eq!(cache.get(&key), None, "{key:?}");
        }
    }

    #[test]
    fn a_reason_names_the_pattern_and_cuts_it() {
        let shown = |text: &str| {
            let pattern = FileNamePattern::new(text).unwrap();
            Pattern::FileName(&pattern).to_string()
        };
        assert_eq!(shown("Chart\t.yaml"), "discover.fileName `Chart\\t.yaml`");
        let long = shown(&"ä".repeat(MAX_SHOWN + 1));
        assert_eq!(long, format!("discover.fileName `{}…`", "ä".repeat(MAX_SHOWN)));
        let glob = GlobPattern::new("**/x").unwrap();
        assert_eq!(Pattern::Glob(&glob).to_string(), "discover.find.glob `**/x`");
    }

    #[test]
    fn the_least_recently_used_verdict_is_removed_first() {
        let cache = MatchCache::default();
        let numbered = |number| key(&format!("{number:064}"), "", "x").unwrap();
        for number in 0..=MAX_VERDICTS.get() {
            cache.keep(numbered(number), &claimed(""));
            cache.get(&numbered(0));
        }
        assert!(cache.get(&numbered(0)).is_some());
        assert_eq!(cache.get(&numbered(1)), None);
    }

    #[test]
    fn long_keys_are_not_cached() {
        assert_eq!(key(&"1".repeat(64), &"d".repeat(MAX_DIRECTORY + 1), "x"), None);
        assert_eq!(key("", "", "x"), None);
    }
}
