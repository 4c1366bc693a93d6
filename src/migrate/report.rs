//! The report of everything that changes.

use std::fmt;

/// Notes for people, in three groups.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// One line for each plugin, and for the whole.
    summary: Vec<String>,
    /// Changes that need nothing more.
    changes: Vec<String>,
    /// Changes that a person must check or complete.
    checks: Vec<String>,
    /// Commands to run next.
    next: Vec<String>,
}

impl Report {
    pub(super) fn summary(&mut self, line: impl Into<String>) {
        self.summary.push(line.into());
    }

    pub(super) fn change(&mut self, line: impl Into<String>) {
        once(&mut self.changes, line.into());
    }

    pub(super) fn check(&mut self, line: impl Into<String>) {
        once(&mut self.checks, line.into());
    }

    pub(super) fn next(&mut self, line: impl Into<String>) {
        self.next.push(line.into());
    }
}

fn once(lines: &mut Vec<String>, line: String) {
    if !lines.contains(&line) {
        lines.push(line);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.summary {
            writeln!(formatter, "{line}")?;
        }
        for (title, lines) in
            [("Changed", &self.changes), ("To check", &self.checks), ("Next", &self.next)]
        {
            if !lines.is_empty() {
                writeln!(formatter, "\n{title}:")?;
            }
            for line in lines {
                writeln!(formatter, "  - {line}")?;
            }
        }
        Ok(())
    }
}
