//! The results of checks, and their output.

use serde::Serialize;

use crate::{
    plural::plural,
    terminal::{printable, printable_json},
};

/// Subject of checks, in the order of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Section {
    Process,
    Isolation,
    Places,
    Plugins,
    Container,
    Limits,
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Grade {
    /// No problem.
    Fine,
    /// Information.
    Note,
    /// It works but could be better.
    Warning,
    /// It does not work.
    Failure,
}

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) state: Grade,
    pub(super) text: String,
    /// The setting that changes the result; `None` if nothing needs to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl Check {
    pub(super) fn new(state: Grade, text: impl Into<String>) -> Self {
        Self { state, text: text.into(), remedy: None }
    }

    pub(super) fn fine(text: impl Into<String>) -> Self {
        Self::new(Grade::Fine, text)
    }

    pub(super) fn note(text: impl Into<String>) -> Self {
        Self::new(Grade::Note, text)
    }

    pub(super) fn warning(text: impl Into<String>) -> Self {
        Self::new(Grade::Warning, text)
    }

    pub(super) fn failure(text: impl Into<String>) -> Self {
        Self::new(Grade::Failure, text)
    }

    pub(super) fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}

/// The checks of each section, in the order of output.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks(Vec<(Section, Vec<Check>)>);

/// The JSON output. New fields can be added; existing ones never change.
#[derive(Serialize)]
struct Output<'c> {
    version: u32,
    failures: usize,
    warnings: usize,
    findings: Vec<Row<'c>>,
}

#[derive(Serialize)]
struct Row<'c> {
    section: Section,
    #[serde(flatten)]
    check: &'c Check,
}

impl Checks {
    pub(super) fn add(&mut self, section: Section, checks: Vec<Check>) {
        self.0.push((section, checks));
    }

    pub(super) fn failures(&self) -> usize {
        self.count(Grade::Failure)
    }

    fn count(&self, state: Grade) -> usize {
        self.rows().filter(|row| row.check.state == state).count()
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let row = |section: Section| move |check| Row { section, check };
        self.0.iter().flat_map(move |(section, checks)| checks.iter().map(row(*section)))
    }

    pub(super) fn text(&self) -> String {
        let section = |(section, checks): &(Section, Vec<Check>)| {
            let lines: String = checks.iter().map(line).collect();
            format!("{}\n{lines}", section.title())
        };
        let sections: String = self.0.iter().map(section).collect();
        let failures = plural(self.failures(), "failure");
        let warnings = plural(self.count(Grade::Warning), "warning");
        printable(&format!("{sections}{failures}, {warnings}\n")).into_owned()
    }

    pub(super) fn json(&self) -> serde_json::Result<String> {
        let output = Output {
            version: 1,
            failures: self.failures(),
            warnings: self.count(Grade::Warning),
            findings: self.rows().collect(),
        };
        serde_json::to_string_pretty(&output).map(|text| printable_json(&text))
    }
}

impl Section {
    fn title(self) -> &'static str {
        match self {
            Self::Process => "Process",
            Self::Isolation => "Isolation",
            Self::Places => "Directories",
            Self::Plugins => "Plugins and their tools",
            Self::Container => "Shares of the container",
            Self::Limits => "Limits in force",
        }
    }
}

fn line(check: &Check) -> String {
    let mark = match check.state {
        Grade::Fine => '✓',
        Grade::Note => '-',
        Grade::Warning => '!',
        Grade::Failure => '✗',
    };
    let remedy = check.remedy.iter().map(|remedy| format!("      → {remedy}\n"));
    format!("  {mark} {}\n{}", check.text, remedy.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks() -> Checks {
        let mut checks = Checks::default();
        checks.add(Section::Process, vec![Check::fine("root")]);
        checks.add(
            Section::Isolation,
            vec![Check::failure("no users").remedy("add SETUID"), Check::warning("old")],
        );
        checks
    }

    #[test]
    fn text_has_failures_with_remedies() {
        let expected = "Process\n  ✓ root\nIsolation\n  ✗ no users\n      → add SETUID\n  ! old\n\
                        1 failure, 1 warning\n";
        assert_eq!(checks().text(), expected);
    }

    #[test]
    fn json_has_the_same_checks() {
        let json: serde_json::Value = serde_json::from_str(&checks().json().unwrap()).unwrap();
        assert_eq!(json["failures"], 1);
        assert_eq!(json["findings"][1]["section"], "isolation");
        assert_eq!(json["findings"][1]["state"], "failure");
        assert_eq!(json["findings"][1]["remedy"], "add SETUID");
        assert!(json["findings"][0].get("remedy").is_none());
    }

    #[test]
    fn no_format_controls_a_terminal() {
        let mut checks = Checks::default();
        checks.add(Section::Places, vec![Check::fine("/mnt/\u{9b}1m")]);
        assert!(checks.text().contains("✓ /mnt/\u{fffd}1m\n"));
        assert!(checks.json().unwrap().contains(r"/mnt/\u009b1m"));
    }
}
