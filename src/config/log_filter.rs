//! Filters of log lines.

use std::{fmt, str::FromStr};

use thiserror::Error;
use tracing_subscriber::filter::{LevelFilter, Targets};

/// Most targets in a filter.
const MAX_TARGETS: usize = 64;

/// Libraries that log every frame and connection at level debug. A client can cause any
/// number of their warnings.
const FRAMES: [&str; 4] = ["h2", "hyper", "tonic", "tower"];

/// Lowest severity that is logged, in general and for some targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter {
    general: LevelFilter,
    targets: Vec<(String, LevelFilter)>,
}

/// The reason why a text is no filter.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "expected error, warn, info, debug or trace, and optional levels of targets, for example \
     info,cmp_supervisor::grpc=debug (at most 64)"
)]
pub struct NoLogFilter;

impl From<LevelFilter> for LogFilter {
    fn from(general: LevelFilter) -> Self {
        Self { general, targets: Vec::new() }
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        LevelFilter::INFO.into()
    }
}

impl LogFilter {
    /// The filter for the log. Other than errors, these libraries log at level trace, or if
    /// they are named.
    #[must_use]
    pub fn targets(&self) -> Targets {
        let Self { general, targets } = self;
        let is_trace = *general == LevelFilter::TRACE;
        let frames = if is_trace { *general } else { LevelFilter::ERROR.min(*general) };
        Targets::new()
            .with_default(*general)
            .with_targets(FRAMES.map(|name| (name, frames)))
            .with_targets(targets.clone())
    }
}

fn level(text: &str) -> Result<LevelFilter, NoLogFilter> {
    match text.trim().to_ascii_lowercase().as_str() {
        "off" => Ok(LevelFilter::OFF),
        "error" => Ok(LevelFilter::ERROR),
        "warn" | "warning" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        "trace" => Ok(LevelFilter::TRACE),
        _ => Err(NoLogFilter),
    }
}

/// True for a path of modules.
fn is_target(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_:-".contains(letter);
    !text.is_empty() && text.chars().all(is_letter)
}

impl FromStr for LogFilter {
    type Err = NoLogFilter;

    fn from_str(text: &str) -> Result<Self, NoLogFilter> {
        let (mut general, mut targets) = (None, Vec::new());
        for part in text.split(',') {
            match part.split_once('=') {
                None if general.is_none() => general = Some(level(part)?),
                None => return Err(NoLogFilter),
                Some((target, _)) if !is_target(target.trim()) => return Err(NoLogFilter),
                Some((target, wanted)) => targets.push((target.trim().to_owned(), level(wanted)?)),
            }
        }
        if targets.len() > MAX_TARGETS {
            return Err(NoLogFilter);
        }
        Ok(Self { general: general.unwrap_or(LevelFilter::INFO), targets })
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.general)?;
        self.targets.iter().try_for_each(|(target, level)| write!(formatter, ",{target}={level}"))
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    fn targets(text: &str) -> Targets {
        text.parse::<LogFilter>().unwrap().targets()
    }

    #[test]
    fn libraries_log_frames_only_at_trace_or_if_they_are_named() {
        let (debug, trace) = (targets("debug"), targets("trace"));
        assert!(debug.would_enable("cmp_supervisor::grpc", &Level::DEBUG));
        for library in ["h2::codec", "hyper_util::client", "tonic::transport", "tower::buffer"] {
            assert!(debug.would_enable(library, &Level::ERROR), "{library}");
            assert!(!debug.would_enable(library, &Level::WARN), "{library}");
            assert!(trace.would_enable(library, &Level::TRACE), "{library}");
        }
        assert!(targets("debug,h2=debug").would_enable("h2::codec", &Level::DEBUG));
    }

    #[test]
    fn targets_have_their_own_levels() {
        let filter = targets("warn, cmp_supervisor::grpc=debug");
        assert!(filter.would_enable("cmp_supervisor::grpc::call", &Level::DEBUG));
        assert!(!filter.would_enable("cmp_supervisor::loader", &Level::INFO));
        let only = targets("cmp_supervisor::loader=off");
        assert!(only.would_enable("cmp_supervisor::grpc", &Level::INFO));
        assert!(!only.would_enable("cmp_supervisor::loader", &Level::ERROR));
    }

    #[test]
    fn other_texts_are_refused() {
        let many = vec!["a=info"; MAX_TARGETS + 1].join(",");
        for text in ["", "bogus", "info,debug", "info,a=", "=info", "a b=info", &many] {
            assert_eq!(text.parse::<LogFilter>(), Err(NoLogFilter), "{text}");
        }
    }

    #[test]
    fn a_filter_is_shown_as_it_is_read() {
        for text in ["info", "warn,a::b=debug", "off"] {
            assert_eq!(text.parse::<LogFilter>().unwrap().to_string(), text);
        }
    }
}
