//! Progress messages on standard error.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write},
};

use super::findings::Findings;
use crate::{
    config,
    event::{Event, PhaseTime},
    metrics::Method,
    request::Phase,
    terminal::printable,
};

/// Writes progress to standard error. Standard output is for the result.
#[derive(Debug)]
pub(super) struct Report {
    color: bool,
    /// The observations that were reported.
    pub(super) findings: Findings,
    /// The reasons of discovery, by plugin.
    pub(super) reasons: BTreeMap<String, String>,
}

impl Report {
    pub(super) fn new() -> Self {
        let color = io::stderr().is_terminal() && !config::no_color();
        Self { color, findings: Findings::default(), reasons: BTreeMap::new() }
    }

    /// Reports a finished step.
    pub(super) fn step(&self, step: &str, detail: &str) {
        self.write(&self.stepped(step, detail));
    }

    /// Reports a warning.
    pub(super) fn warn(&self, text: &str) {
        self.write(&self.warning(text));
    }

    /// Reports an event of a private supervisor. Observations are kept for the end.
    pub(super) fn event(&mut self, event: &Event) {
        self.findings.keep(event);
        if let Event::Request { plugin, method: Method::Match, reason: Some(reason), .. } = event {
            self.reasons.insert(plugin.clone(), reason.to_string());
        }
        self.lines(event).iter().for_each(|line| self.write(line));
    }

    fn lines(&self, event: &Event) -> Vec<String> {
        match event {
            // The caller reports failures. Each connection makes a check.
            Event::Ready { .. }
            | Event::Failed { .. }
            | Event::Refused(_)
            | Event::Used(_)
            | Event::Request { method: Method::Check, .. } => Vec::new(),
            Event::NotServed { file: Some(file), reason, .. } => {
                vec![self.warning(&format!("invalid plugin definition: {file}: {reason}"))]
            }
            Event::NotServed { plugin, reason, .. } => {
                let name = plugin.as_deref().unwrap_or_default();
                vec![self.warning(&format!("cannot serve plugin `{name}`: {reason}"))]
            }
            Event::PluginOutput { text, .. } => {
                vec![format!("{} {}", self.painted("2", "        |"), printable(&text.to_string()))]
            }
            Event::Request { plugin, method, outcome, took_ms, phases, uid, reason } => {
                let is_shown =
                    |time: &&PhaseTime| !matches!(time.phase, Phase::Open | Phase::Queue);
                let phases = phases.iter().filter(is_shown);
                let mut lines: Vec<_> = phases
                    .map(|time| self.stepped(time.phase.as_str(), &milliseconds(time.took_ms)))
                    .collect();
                let uid = uid.map(|uid| format!(" as uid {uid}")).unwrap_or_default();
                let reason = reason.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
                let (outcome, took) = (outcome.as_str(), milliseconds(*took_ms));
                let ended = format!("{plugin}: {outcome} in {took}{uid}{reason}");
                lines.push(self.stepped(method.as_str(), &ended));
                lines
            }
            Event::Warning { text } => vec![self.warning(&text.to_string())],
        }
    }

    fn stepped(&self, step: &str, detail: &str) -> String {
        format!("{} {}", self.painted("1;32", &format!("{step:>9}")), printable(detail))
    }

    fn warning(&self, text: &str) -> String {
        format!("{} {}", self.painted("1;33", "  warning"), printable(text))
    }

    fn painted(&self, code: &str, text: &str) -> String {
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    #[expect(clippy::unused_self, reason = "a report is what writes")]
    fn write(&self, line: &str) {
        // An error of standard error cannot be reported anywhere.
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
}

fn milliseconds(milliseconds: f64) -> String {
    format!("{milliseconds:.1}ms")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Stream, metrics::Outcome};

    fn lines(event: &Event) -> Vec<String> {
        Report { color: false, ..Report::new() }.lines(event)
    }

    #[test]
    fn a_request_is_shown_with_its_phases_and_outcome() {
        let time = |phase, took_ms| PhaseTime { phase, took_ms };
        let request = |method, uid, reason: Option<&str>| Event::Request {
            plugin: "demo".to_owned(),
            method,
            outcome: Outcome::Ok,
            took_ms: 12.34,
            phases: vec![
                time(Phase::Open, 1.0),
                time(Phase::Queue, 1.0),
                time(Phase::Receive, 2.06),
            ],
            uid,
            reason: reason.map(Into::into),
        };
        assert_eq!(
            lines(&request(Method::Generate, Some(60709), None)),
            ["  receive 2.1ms", " generate demo: ok in 12.3ms as uid 60709"]
        );
        assert_eq!(
            lines(&request(Method::Match, None, Some("x.yaml matches"))),
            ["  receive 2.1ms", "    match demo: ok in 12.3ms: x.yaml matches"]
        );
        assert!(lines(&request(Method::Check, None, None)).is_empty());
    }

    #[test]
    fn output_and_warnings_are_one_line_each() {
        let (plugin, stream) = ("demo".to_owned(), Stream::Stderr);
        let output = Event::PluginOutput { plugin, stream, text: "token=***".into() };
        assert_eq!(lines(&output), ["        | token=***"]);
        assert_eq!(lines(&Event::Warning { text: "careful".into() }), ["  warning careful"]);
    }

    #[test]
    fn a_plugin_that_is_not_served_is_shown_by_file_or_name() {
        let not_served = |plugin: Option<&str>, file: Option<&str>| Event::NotServed {
            plugin: plugin.map(str::to_owned),
            file: file.map(Into::into),
            line: None,
            reason: "no".into(),
        };
        assert_eq!(
            lines(&not_served(None, Some("a.yaml"))),
            ["  warning invalid plugin definition: a.yaml: no"]
        );
        assert_eq!(lines(&not_served(Some("p"), None)), ["  warning cannot serve plugin `p`: no"]);
    }
}
