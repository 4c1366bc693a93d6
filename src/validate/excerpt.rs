//! Diagnostics as text, each with the line that it concerns.

use std::fmt::Write;

use super::{Validation, paint::Paint};
use crate::{
    plugin::{Diagnostic, Problem, Region, Related, Severity},
    plural::plural,
    terminal::{is_unsafe, printable_line},
};

/// Longest part of a line that is shown, in characters.
const MAX_WIDTH: usize = 120;

/// Characters that are shown before a place beyond [`MAX_WIDTH`].
const BEFORE: usize = 40;

/// Replacement of a tab, so that carets are below their characters.
const TAB: &str = "    ";

/// All diagnostics and a summary.
pub(super) fn report(report: &Validation, paint: Paint) -> String {
    let mut text = String::new();
    for problem in &report.problems {
        Snippet { report, paint, problem }.write(&mut text);
        text.push('\n');
    }
    if let Some(reload) = &report.reload {
        text.push_str(&reload.describe());
        text.push('\n');
    }
    let counts = [Severity::Error, Severity::Warning, Severity::Note].map(|severity| {
        let count = report.count(severity);
        (count > 0).then(|| plural(count, &severity.to_string()))
    });
    let counts: Vec<_> = counts.into_iter().flatten().collect();
    let result = if counts.is_empty() { "no problems".into() } else { counts.join(", ") };
    let (files, plugins) = (report.files(), report.catalog.len());
    let (files, plugins) = (plural(files, "file"), plural(plugins, "plugin"));
    text.push_str(&format_args!("checked {files}, {plugins}: {result}\n").to_string());
    text
}

/// One diagnostic.
struct Snippet<'r> {
    report: &'r Validation,
    paint: Paint,
    problem: &'r Problem,
}

impl Snippet<'_> {
    fn write(&self, text: &mut String) {
        let Problem { file, place, problem, .. } = self.problem;
        let Diagnostic { code, message, region, label, notes, help, related } = problem;
        let severity = problem.severity();
        let head = self.paint.severity(severity, &format!("{severity}[{code}]"));
        let mut lines =
            vec![format!("{head}{}", self.paint.bold(&format!(": {}", printable_line(message))))];
        let place = match place.to_string() {
            none if none.is_empty() => none,
            place => format!(" ({})", printable_line(&place)),
        };
        let width = related.iter().filter_map(|other| other.region).chain(*region);
        let width = width.map(|region| region.line.to_string().len()).max().unwrap_or(1);
        let margin = " ".repeat(width);
        let arrow = self.paint.frame(&format!("{margin}-->"));
        lines.push(format!("{arrow} {}{place}", address(file, *region)));
        let marks = |region| Marks { file, region, label, color: Some(severity) };
        lines.extend(region.and_then(|region| self.excerpt(&marks(region), width)));
        for Related { file: other, region, label } in related {
            let other = if other.is_empty() { file } else { other };
            let dots = self.paint.frame(&format!("{margin}:::"));
            lines.push(format!("{dots} {}", address(other, *region)));
            let marks = |region| Marks { file: other, region, label, color: None };
            lines.extend(region.and_then(|region| self.excerpt(&marks(region), width)));
        }
        if region.is_some() && (!notes.is_empty() || help.is_some()) {
            lines.push(self.paint.frame(&format!("{margin} |")));
        }
        let equals = self.paint.frame(&format!("{margin} ="));
        let note = |note: &String| {
            format!("{equals} {}: {}", self.paint.bold("note"), printable_line(note))
        };
        lines.extend(notes.iter().map(note));
        let help = help
            .iter()
            .map(|help| format!("{equals} {}: {}", self.paint.bold("help"), printable_line(help)));
        lines.extend(help);
        for line in lines {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
        }
    }

    /// A line of a file, with carets below the region.
    fn excerpt(&self, marks: &Marks<'_>, width: usize) -> Option<String> {
        let Region { line, column, end_column } = marks.region;
        let bytes = self.report.line(marks.file, line)?;
        let written = String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(bytes));
        let written = written.trim_start_matches('\u{feff}');
        let skipped = if column > MAX_WIDTH { column - BEFORE } else { 0 };
        let window: Vec<char> = written.chars().skip(skipped).take(MAX_WIDTH).collect();
        let (before, marked) = (column - 1 - skipped, end_column.saturating_sub(column).max(1));
        let before = window.iter().take(before).fold(0, |sum, c| sum + shown(*c).chars().count());
        let carets: usize = window
            .iter()
            .skip(column - 1 - skipped)
            .take(marked)
            .map(|c| shown(*c).chars().count())
            .sum();
        let text: String = window.iter().map(|c| shown(*c)).collect();
        let caret = if marks.color.is_some() { "^" } else { "-" };
        let carets = format!("{} {}", caret.repeat(carets.max(1)), printable_line(marks.label));
        let carets = match marks.color {
            Some(severity) => self.paint.severity(severity, carets.trim_end()),
            None => self.paint.frame(carets.trim_end()),
        };
        let ellipsis = if skipped > 0 { "… " } else { "" };
        let shift = " ".repeat(before + ellipsis.chars().count());
        let margin = self.paint.frame(&format!("{} |", " ".repeat(width)));
        let number = self.paint.frame(&format!("{line:>width$} |"));
        let is_cut = written.chars().nth(skipped + MAX_WIDTH).is_some();
        let rest = if is_cut { " …" } else { "" };
        let text = format!("{ellipsis}{}{rest}", text.trim_end());
        Some(format!("{margin}\n{number} {text}\n{margin} {shift}{carets}"))
    }
}

/// A region to mark.
struct Marks<'m> {
    file: &'m str,
    region: Region,
    label: &'m str,
    /// `None` for related places.
    color: Option<Severity>,
}

fn shown(character: char) -> String {
    match character {
        '\t' => TAB.to_owned(),
        control if is_unsafe(control) => '\u{fffd}'.to_string(),
        other => other.to_string(),
    }
}

fn address(file: &str, region: Option<Region>) -> String {
    let file = printable_line(file);
    region.map_or(file.clone(), |region| format!("{file}:{region}"))
}
