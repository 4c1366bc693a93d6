//! What was found, and how it is shown.

use serde::Serialize;

use crate::plural::plural;

/// What findings are about, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Section {
    Process,
    Isolation,
    Places,
    Plugins,
    Limits,
}

/// How good it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Grade {
    /// As it should be.
    Fine,
    /// Neither good nor bad.
    Note,
    /// It works, and could be better.
    Warning,
    /// It does not work.
    Failure,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) state: Grade,
    pub(super) text: String,
    /// How to put it right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl Finding {
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

/// All that was looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings(Vec<(Section, Vec<Finding>)>);

/// As a machine reads it. Fields are added, never changed.
#[derive(Serialize)]
struct Document<'f> {
    version: u32,
    failures: usize,
    warnings: usize,
    findings: Vec<Row<'f>>,
}

#[derive(Serialize)]
struct Row<'f> {
    section: Section,
    #[serde(flatten)]
    finding: &'f Finding,
}

impl Findings {
    pub(super) fn add(&mut self, section: Section, findings: Vec<Finding>) {
        self.0.push((section, findings));
    }

    pub(super) fn failures(&self) -> usize {
        self.count(Grade::Failure)
    }

    fn count(&self, state: Grade) -> usize {
        self.rows().filter(|row| row.finding.state == state).count()
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let row = |section: Section| move |finding| Row { section, finding };
        self.0.iter().flat_map(move |(section, findings)| findings.iter().map(row(*section)))
    }

    pub(super) fn text(&self) -> String {
        let section = |(section, findings): &(Section, Vec<Finding>)| {
            let lines: String = findings.iter().map(line).collect();
            format!("{}\n{lines}", section.title())
        };
        let sections: String = self.0.iter().map(section).collect();
        let failures = plural(self.failures(), "failure");
        format!("{sections}{failures}, {}\n", plural(self.count(Grade::Warning), "warning"))
    }

    pub(super) fn json(&self) -> serde_json::Result<String> {
        let document = Document {
            version: 1,
            failures: self.failures(),
            warnings: self.count(Grade::Warning),
            findings: self.rows().collect(),
        };
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }
}

impl Section {
    fn title(self) -> &'static str {
        match self {
            Self::Process => "Process",
            Self::Isolation => "Isolation",
            Self::Places => "Directories",
            Self::Plugins => "Plugins and their tools",
            Self::Limits => "Limits in force",
        }
    }
}

fn line(finding: &Finding) -> String {
    let mark = match finding.state {
        Grade::Fine => '✓',
        Grade::Note => '-',
        Grade::Warning => '!',
        Grade::Failure => '✗',
    };
    let remedy = finding.remedy.iter().map(|remedy| format!("      → {remedy}\n"));
    format!("  {mark} {}\n{}", finding.text, remedy.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Findings {
        let mut findings = Findings::default();
        findings.add(Section::Process, vec![Finding::fine("root")]);
        findings.add(
            Section::Isolation,
            vec![Finding::failure("no users").remedy("add SETUID"), Finding::warning("old")],
        );
        findings
    }

    #[test]
    fn people_see_what_is_wrong_and_how_to_put_it_right() {
        let expected = "Process\n  ✓ root\nIsolation\n  ✗ no users\n      → add SETUID\n  ! old\n\
                        1 failure, 1 warning\n";
        assert_eq!(findings().text(), expected);
    }

    #[test]
    fn machines_see_the_same() {
        let json: serde_json::Value = serde_json::from_str(&findings().json().unwrap()).unwrap();
        assert_eq!(json["failures"], 1);
        assert_eq!(json["findings"][1]["section"], "isolation");
        assert_eq!(json["findings"][1]["state"], "failure");
        assert_eq!(json["findings"][1]["remedy"], "add SETUID");
        assert!(json["findings"][0].get("remedy").is_none());
    }
}
